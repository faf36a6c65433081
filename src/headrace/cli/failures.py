"""`headrace failures`."""

from __future__ import annotations

from headrace.cli.parameters import Json, Run, found
from headrace.cli.printing import columns, print_json, print_lines
from headrace.observe.text import printable

_MESSAGE = 120
_EXAMPLE = 40


def failures(run: Run = None, json: Json = False) -> None:
    """Show what failed, was rejected or quarantined: grouped by kind and message, with examples."""
    from headrace.runs.status import failures as failures_of  # noqa: PLC0415 (help and completion do not pay for it)

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
    print_lines(columns(rows) if rows else ["nothing failed, was rejected or quarantined"])
