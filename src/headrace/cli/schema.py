"""`headrace schema`."""

from __future__ import annotations

from headrace.cli.printing import print_json


def schema() -> None:
    """Print the JSON Schema of the job file, for editors to complete and check it."""
    from headrace.runs.jobschema import job_schema  # noqa: PLC0415 (help and completion do not pay for it)

    print_json(job_schema())
