"""`headrace status`."""

from __future__ import annotations

import importlib

from headrace.cli.parameters import Json, Run, found
from headrace.cli.printing import print_json


def status(run: Run = None, json: Json = False) -> None:
    """Show where a run stands, also while it runs."""
    folder = found(run)
    print_json(importlib.import_module("headrace.runs.status").status(folder.path))
