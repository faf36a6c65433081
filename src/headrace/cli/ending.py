"""How `run` and `retry` report and end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Protocol

import typer

from headrace.cli.printing import print_json, print_lines, print_log, print_words
from headrace.cli.summary import ending_lines, item_counts


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


def end(result: Result, *, json: bool, quiet: bool, log_json: bool = False, document: dict[str, Any] | None = None) -> NoReturn:
    """Print the result once, as JSON or in words, and end with its exit code. The JSON is `document`, by default the status."""
    if log_json:
        _log(result, quiet=quiet)
    elif result.message and (result.exit_code not in {0, 3} or not quiet):
        print_words(f"headrace: {result.message}")
    if json:
        print_json(result.status if document is None else document)
    elif not quiet:
        output = str(result.output) if result.output is not None else None
        print_lines(ending_lines(result.status, output, result.exit_code))
    raise typer.Exit(result.exit_code)


def _log(result: Result, *, quiet: bool) -> None:
    """The last line of `--log-json`."""
    is_well = result.exit_code in {0, 3}
    if quiet and is_well:
        return
    status = result.status
    message = result.message or f"{status['state']}, {item_counts(status['items'])}"
    fields = {"run": status["run"], "state": status["state"], "exit_code": result.exit_code, "items": status["items"]}
    print_log("info" if is_well else "error", "ended", message, **fields)
