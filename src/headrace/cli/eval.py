"""`headrace eval`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.display import observers
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, Overrides, Quiet
from headrace.cli.printing import columns, facts, print_json, print_lines, print_words
from headrace.observe.text import printable
from headrace.policy.amounts import counted

_CELL = 24
_CAUSE = 160
_ROWS = 20


def eval(  # noqa: A001 (the command's name)
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file, or a run's folder.")],
    overrides: Overrides = None,
    new: Annotated[bool, typer.Option("--new", help="Begin a new run, whatever runs there are.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask the job's eval set alone, under exactly its configuration, and score it: the batch is left as it is.

    What is answered is kept in the job's run: `headrace run` does not ask it again.
    """
    from headrace.runs.jobfile import load_job  # noqa: PLC0415 (help and completion do not pay for it)

    loaded = load_job(job, overrides or ())
    from headrace.runs.evaluating import evaluation_of  # noqa: PLC0415 (help and refusals do not pay for the engine)
    from headrace.runs.pipeline import RunOptions, execute  # noqa: PLC0415 (as above)

    with observers(quiet=quiet) as watching:
        result = run_until_complete(execute(loaded, RunOptions(new=new, eval_only=True), watching))
    if result.message:
        print_words(f"headrace: {result.message}")
    found = evaluation_of(result.folder) if result.exit_code in {0, 6} else None
    if json:
        print_json(result.status if found is None else found)
    elif found is not None and not quiet:
        print_lines(_lines(found))
    raise typer.Exit(result.exit_code)


def _lines(found: Mapping[str, Any]) -> list[str]:
    errors = ", ".join(f"{kind} {count:,}" for kind, count in found["n_error"].items())
    rows = [
        ("eval set", f"{counted(found['n_total'], 'record')}, {found['n_scored']:,} scored"),
        ("errors", f"{errors}: not scored" if errors else "none"),
        *(("", _cause(one)) for one in found.get("causes", ())),
        ("score", _score(found)),
        *_baseline(found["baseline"]),
        ("gate", found["gate"]),
    ]
    lines = facts(rows)
    lines += [f"warning: {printable(line)}" for line in found["warnings"]]
    if found["per_class"]:
        lines += ["", *columns(_classes(found["per_class"]))]
    wrong = [row for row in found["confusion"] if row["expected"] != row["answer"]]
    if wrong:
        shown = [("expected", "answered", "")] + [
            (printable(row["expected"], _CELL), _word(row["answer"]), f"{row['count']:,}") for row in wrong[:_ROWS]
        ]
        lines += ["", *columns(shown)]
    against = found["baseline"] or {}
    for worse in against.get("worse", ())[:_ROWS]:
        old, new = _word(worse["old"]), _word(worse["new"])
        lines.append(f"worse: {printable(str(worse['id']), _CELL)}: {old} became {new}, expected {_word(worse['expected'])}")
    if (more := against.get("n_worse", 0) - _ROWS) > 0:
        lines.append(f"worse: {more:,} more; --json lists {min(len(against['worse']), more + _ROWS):,}")
    return lines


def _cause(one: Mapping[str, Any]) -> str:
    return f"{one['count']:,}, {printable(one['error'], _CAUSE)}; {printable(str(one['id']), _CELL)} is one"


def _score(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return "none" if found["score"] is None else f"{found['score']:.4g} (95 %: {low:.4g} to {high:.4g})"


def _baseline(against: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if against is None:
        return []
    words = f"run {against['run']}, {counted(against['n_common'], 'common record')}: {against['verdict']}"
    if against["difference"] is not None:
        low, high = against["interval"]
        words += f"; {against['difference']:+.4g} (95 %: {low:+.4g} to {high:+.4g}), p {against['p']:.3g}"
    if against["needed"]:
        words += f"; about {against['needed']:,} records would tell"
    return [("baseline", words)]


def _classes(figures: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("class", "n", "precision", "recall", "F1")]
    for name, of in figures.items():
        rows.append((printable(name, _CELL), f"{of['n']:,}", _part(of["precision"]), _part(of["recall"]), _part(of["f1"])))
    return rows


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _word(value: Any) -> str:
    return "nothing" if value is None else printable(str(value), _CELL)
