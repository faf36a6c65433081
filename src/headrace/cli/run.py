"""`headrace run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.display import observers
from headrace.cli.ending import end
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, LogJson, MetricsPort, Otel, Overrides, Quiet

RunDir = Annotated[
    Path | None,
    typer.Option(
        "--run-dir", metavar="DIR", help="The folder that holds the runs; by default .headrace/runs beside the job file."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would send, take and cost, as `headrace estimate`: send and write nothing.")
]
Reuse = Annotated[
    str | None,
    typer.Option("--reuse", metavar="RUN", help="Take over that run's answers to equal requests of the same endpoint."),
]


def run(  # noqa: PLR0913, PLR0917 (one parameter for each option that the command has)
    job: Annotated[
        Path,
        typer.Argument(
            metavar="JOB", help="The job file: TOML, or YAML by its suffix; or a run's folder, whose archive holds its job."
        ),
    ],
    overrides: Overrides = None,
    run_dir: RunDir = None,
    dry_run: DryRun = False,
    new: Annotated[bool, typer.Option("--new", help="Begin a new run, whatever runs there are.")] = False,
    reuse: Reuse = None,
    json: Json = False,
    quiet: Quiet = False,
    log_json: LogJson = False,
    metrics_port: MetricsPort = None,
    otel: Otel = False,
) -> None:
    """Run a job, or go on with it: the same job file and the same input continue the unfinished run."""
    from headrace.runs.jobfile import load_job  # noqa: PLC0415 (help and completion do not pay for it)

    loaded = load_job(job, overrides or ())
    from headrace.runs.pipeline import RunOptions, execute  # noqa: PLC0415 (help and refusals do not pay for the engine)

    options = RunOptions(run_dir=run_dir, new=new, reuse=reuse)
    if dry_run:
        from headrace.cli.estimate import rehearse  # noqa: PLC0415 (as above)

        rehearse(loaded, options, json=json)
        return
    model = loaded.spec.model
    traced = (model.name or "", model.route) if otel else None
    with observers(quiet=quiet, log_json=log_json, metrics=metrics_port, traced=traced) as watching:
        result = run_until_complete(execute(loaded, options, watching))
    end(result, json=json, quiet=quiet, log_json=log_json)
