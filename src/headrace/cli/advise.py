"""`headrace advise`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.parameters import Json, Overrides
from headrace.cli.printing import print_json, print_lines
from headrace.observe.text import printable

if TYPE_CHECKING:
    from headrace.policy.advice import Advice
    from headrace.runs.nextrun import NextRun

_WIDTH = 78


def advise(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file: TOML, or YAML by its suffix.")],
    overrides: Overrides = None,
    json: Json = False,
) -> None:
    """Say what to write into the job file next time, from the figures of the job's last run, as lines with their reasons."""
    from headrace.runs.jobfile import load_job  # noqa: PLC0415 (help and completion do not pay for it)
    from headrace.runs.nextrun import next_run  # noqa: PLC0415 (as above)

    found = next_run(load_job(job, overrides or ()))
    if json:
        print_json({"run": found.run, "advice": _listed(found.advice), "settings": _listed(found.settings)})
        return
    print_lines(_lines(found))


def _lines(found: NextRun) -> Iterator[str]:
    yield f"# from run {found.run}"
    if not found.advice:
        yield "# nothing in its figures calls for a change"
    for one in [*found.advice, *found.settings]:
        yield ""
        yield from textwrap.wrap(printable(one.reason), _WIDTH, initial_indent="# ", subsequent_indent="# ")
        if one.line is not None:
            yield one.line


def _listed(advice: list[Advice]) -> list[dict[str, Any]]:
    return [{"name": one.name, "reason": one.reason, "key": one.key, "value": one.value} for one in advice]
