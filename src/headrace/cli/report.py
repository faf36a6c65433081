"""`headrace report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.parameters import Run, found
from headrace.cli.printing import print_lines

To = Annotated[Path, typer.Option("--to", metavar="PATH", help="Where to, such as report.html.")]


def report(to: To, run: Run = None) -> None:
    """Write one page about a run: charts with their numbers, what failed, the configuration. Needs no network to be read."""
    from headrace.reports.page import write_report  # noqa: PLC0415 (help and completion do not pay for it)

    written = write_report(found(run), to)
    print_lines([f"{to}: {written / 1000:,.0f} kB"])
