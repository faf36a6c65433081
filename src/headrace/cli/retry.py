"""`headrace retry`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.display import observers
from headrace.cli.ending import end
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, LogJson, MetricsPort, Otel, Overrides, Quiet, Run, chosen, found
from headrace.values import Kind

Only = Annotated[str | None, typer.Option("--only", metavar="KIND,...", help="Only what ended with one of these kinds.")]


def retry(  # noqa: PLR0913, PLR0917 (one parameter for each option that the command has)
    run: Run = None,
    only: Only = None,
    overrides: Overrides = None,
    json: Json = False,
    quiet: Quiet = False,
    log_json: LogJson = False,
    metrics_port: MetricsPort = None,
    otel: Otel = False,
) -> None:
    """Send again what failed, was rejected or quarantined, under the changed keys where --set gives some."""
    kinds = chosen(only, Kind)
    folder = found(run)
    from headrace.runs.archive import asked_of  # noqa: PLC0415 (help and refusals do not pay for the engine)
    from headrace.runs.retry import retry as retry_run  # noqa: PLC0415 (help and refusals do not pay for the engine)

    traced = asked_of(folder) if otel else None
    with observers(quiet=quiet, log_json=log_json, metrics=metrics_port, traced=traced) as watching:
        result = run_until_complete(retry_run(folder, kinds, list(overrides or ()), watching))
    end(result, json=json, quiet=quiet, log_json=log_json)
