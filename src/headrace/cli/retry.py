"""`headrace retry`."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from headrace.cli.display import observers
from headrace.cli.ending import end
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, Overrides, Quiet, Run, chosen, found
from headrace.values import Kind

Only = Annotated[str | None, typer.Option("--only", metavar="KIND,...", help="Only units that ended with one of these kinds.")]


def retry(run: Run = None, only: Only = None, overrides: Overrides = None, json: Json = False, quiet: Quiet = False) -> None:
    """Send again what failed or was quarantined, under the changed keys where --set gives some."""
    kinds = chosen(only, Kind)
    folder = found(run)
    pipeline = importlib.import_module("headrace.runs.pipeline")
    with observers(quiet=quiet) as watching:
        result = run_until_complete(pipeline.retry(folder, kinds, list(overrides or ()), watching))
    end(result, json=json, quiet=quiet)
