"""`headrace failures`."""

from __future__ import annotations

from headrace.cli.parameters import Json, Run, found
from headrace.cli.printing import columns, print_json, print_lines, wrapped
from headrace.observe.text import printable

_MESSAGE = 120
_EXAMPLE = 40
_EXCERPT = 160


def failures(run: Run = None, json: Json = False) -> None:
    """Show what failed, was rejected or quarantined: grouped by kind and message, with examples."""
    from headrace.runs.failures import failures as failures_of  # noqa: PLC0415 (help and completion do not pay for it)

    document = failures_of(found(run).path)
    if json:
        print_json(document)
        return
    rows = [
        (
            f"{group['count']:,}",
            group["status"],
            group["kind"],
            printable(group["message"], _MESSAGE),
            "e.g. " + ", ".join(printable(str(example), _EXAMPLE) for example in group["examples"]),
        )
        for group in document["groups"]
    ]
    if not rows:
        print_lines(["nothing failed, was rejected or quarantined"])
        return
    for line, group in zip(columns(rows), document["groups"], strict=True):
        print_lines([*wrapped(line, 4), *_excerpt(group.get("excerpt") or {})])


def _excerpt(excerpt: dict[str, str | None]) -> list[str]:
    """How the first example's record and answer begin, harmless for a terminal."""
    lines = [f"    {name:6}  {printable(text, _EXCERPT)}" for name, text in excerpt.items() if text]
    return [part for line in lines for part in wrapped(line, 12)]
