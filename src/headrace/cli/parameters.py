"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.runs.registry import RunFolder, resolve, state_folder

Run = Annotated[
    str | None, typer.Argument(metavar="RUN", help="A run id, a unique prefix of one, a path, or `last` (the default).")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="K=V", help="Override a key: section.key=value. May be given several times.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; words for people go to stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]


def found(run: str | None) -> RunFolder:
    """The run that the argument names, seen from here. Raises RunNotFoundError."""
    return resolve(run, Path.cwd(), state_folder(os.environ))
