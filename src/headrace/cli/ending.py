"""How `run` and `retry` report and end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Protocol

import typer

from headrace.cli.printing import print_json, print_lines, print_words
from headrace.cli.summary import ending_lines


class Result(Protocol):
    """What a run leaves to report."""

    @property
    def exit_code(self) -> int: ...
    @property
    def message(self) -> str | None: ...
    @property
    def output(self) -> Path | None: ...
    @property
    def status(self) -> dict[str, Any]: ...


def end(result: Result, *, json: bool, quiet: bool, document: dict[str, Any] | None = None) -> NoReturn:
    """Print the result once, as JSON or in words, and end with its exit code. The JSON is `document`, by default the status."""
    if result.message and (result.exit_code not in {0, 3} or not quiet):
        print_words(f"headrace: {result.message}")
    if json:
        print_json(result.status if document is None else document)
    elif not quiet:
        output = str(result.output) if result.output is not None else None
        print_lines(ending_lines(result.status, output, result.exit_code))
    raise typer.Exit(result.exit_code)
