"""`headrace status`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json, Run, found
from headrace.cli.printing import is_heard, print_json, print_lines
from headrace.cli.summary import item_counts, status_lines

_EVERY_S = 1.0
Follow = Annotated[bool, typer.Option("--follow", help="Show it every second until the run ends.")]


def status(run: Run = None, follow: Follow = False, json: Json = False) -> None:
    """Show where a run stands, also while it runs."""
    from headrace.runs.status import status as status_of  # noqa: PLC0415 (help and completion do not pay for it)

    folder = found(run)
    document = _follow(status_of, folder.path, silent=json) if follow else status_of(folder.path)
    if json:
        print_json(document)
    else:
        print_lines(status_lines(document))


def _follow(status_of: Callable[[Path], dict[str, Any]], folder: Path, *, silent: bool) -> dict[str, Any]:
    """The document of the ended run. While it runs: redrawn in place on a terminal, else a line for each change."""
    shown = ""
    while (document := status_of(folder))["state"] == "running" and is_heard():
        if not silent and sys.stdout.isatty():
            lines = status_lines(document)
            print_lines(lines)
            time.sleep(_EVERY_S)
            sys.stdout.write(f"\x1b[{len(lines)}F\x1b[J")
            continue
        line = item_counts(document["items"])
        if not silent and line != shown:
            print_lines([line])
            shown = line
        time.sleep(_EVERY_S)
    return document
