"""`headrace show`."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from headrace.cli.parameters import Run, found
from headrace.cli.printing import print_json


def show(run: Run = None, json: Annotated[bool, typer.Option("--json", help="The same: it is always JSON.")] = False) -> None:  # noqa: ARG001
    """Print the archived configuration and figures of a run, as one JSON document."""
    folder = found(run)
    print_json(importlib.import_module("headrace.runs.status").show(folder.path))
