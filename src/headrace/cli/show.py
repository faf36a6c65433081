"""`headrace show`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.parameters import Run, found
from headrace.cli.printing import print_json


def show(run: Run = None, json: Annotated[bool, typer.Option("--json", help="The same: it is always JSON.")] = False) -> None:  # noqa: ARG001
    """Print the archived configuration and figures of a run, as one JSON document."""
    from headrace.runs.status import show as show_of  # noqa: PLC0415 (help and completion do not pay for it)

    print_json(show_of(found(run).path))
