"""`headrace export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.parameters import Run, chosen, found
from headrace.cli.printing import print_lines, print_words
from headrace.errors import SpecError
from headrace.policy.amounts import counted
from headrace.values import Status

To = Annotated[Path, typer.Option("--to", metavar="PATH", help="Where to: .jsonl .csv .parquet.")]
Only = Annotated[str | None, typer.Option("--only", metavar="STATUS,...", help="Only items of these statuses.")]
Details = Annotated[bool, typer.Option("--details", help="Add model, attempts, tokens, seconds, unit and raw text.")]


def export(to: To, run: Run = None, only: Only = None, details: Details = False) -> None:
    """Write a run's output again, in any format, also while items are pending."""
    from headrace.runs.jobrules import OUTPUT_SUFFIXES  # noqa: PLC0415 (help and completion do not pay for it)
    from headrace.runs.outputs import export_run  # noqa: PLC0415 (the same)

    statuses = chosen(only, Status)
    if to.suffix.lower() not in OUTPUT_SUFFIXES:
        allowed = "a path that ends in .jsonl, .csv or .parquet"
        raise SpecError(
            f"--to: found {str(to)[:60]!a}; allowed: {allowed}", key="--to", found=f"{str(to)[:60]!a}", allowed=allowed
        )
    written, warning = export_run(found(run), to, statuses, details=details)
    if warning is not None:
        print_words(f"headrace: {warning}")
    print_lines([f"{counted(written, 'record')} written to {to}"])
