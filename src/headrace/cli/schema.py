"""`headrace schema`."""

from __future__ import annotations

from headrace.cli.printing import print_json
from headrace.runs.jobschema import job_schema


def schema() -> None:
    """Print the JSON Schema of the job file, for editors to complete and check it."""
    print_json(job_schema())
