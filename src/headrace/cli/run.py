"""`headrace run`."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.parameters import Json, Overrides, Quiet
from headrace.cli.printing import print_json
from headrace.errors import NotYetError
from headrace.runs.jobfile import load_job


def run(  # noqa: PLR0913, PLR0917 (one parameter for each option that the command has)
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file: TOML, or YAML by its suffix.")],
    overrides: Overrides = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", help="The folder that holds the runs; default .headrace/runs beside the job file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Not served by this release.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin a new run whatever runs there are.")] = False,
    reuse: Annotated[
        str | None,
        typer.Option(
            "--reuse", metavar="RUN", help="Take over answers of that run whose unit hash and endpoint identity are equal."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a job, or go on with it: the same job file and the same input continue the unfinished run."""
    if dry_run:
        raise NotYetError("`run --dry-run` is not served by this release", key="--dry-run")
    loaded = load_job(job, overrides or ())
    pipeline = importlib.import_module("headrace.runs.pipeline")
    options = pipeline.RunOptions(run_dir=run_dir, new=new, reuse=reuse)
    result = asyncio.run(pipeline.execute(loaded, options, []))
    if json:
        print_json(result.status)
    raise typer.Exit(result.exit_code)
