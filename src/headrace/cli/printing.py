"""What goes to stdout and stderr: one JSON document, or words for people."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from headrace.clock import WallClock
from headrace.errors import (
    DiskError,
    EndpointError,
    HeadraceError,
    InputError,
    LedgerError,
    LockedError,
    NotYetError,
    OutputError,
    RunNotFoundError,
    SpecError,
)
from headrace.observe.text import printable

_NOTE_WIDTH = 100
_LEAST_WIDTH = 40
_KINDS: tuple[tuple[type[HeadraceError], str], ...] = (
    (NotYetError, "not_yet"),
    (SpecError, "spec"),
    (InputError, "input"),
    (LockedError, "lock"),
    (DiskError, "disk"),
    (LedgerError, "ledger"),
    (OutputError, "output"),
    (EndpointError, "endpoint"),
    (RunNotFoundError, "run_not_found"),
)


def print_json(document: dict[str, Any]) -> None:
    """The command's one JSON document, on stdout. ASCII: it reads the same whatever the terminal's encoding."""
    _write(sys.stdout, json.dumps(document, indent=2) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """The command's result for people, on stdout, harmless whatever it quotes."""
    _write(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def print_words(line: str) -> None:
    """A line for people beside the result, on stderr, harmless whatever it quotes."""
    _write(sys.stderr, printable(line) + "\n")


def print_log(level: str, event: str, message: str, **fields: Any) -> None:
    """A line of `--log-json`, on stderr."""
    from headrace.observe.jsonlog import log_line  # noqa: PLC0415 (only loaded where it is used)

    _write(sys.stderr, log_line(WallClock().now(), level, event, message, **fields) + "\n")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned columns; the last column is as long as it is."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def facts(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what is said of them, aligned. On a terminal what is too long goes on below, under its own beginning."""
    indent = max((len(printable(name)) for name, _ in rows), default=0) + 2
    return [part for line in columns(rows) for part in wrapped(line, indent)]


def wrapped(line: str, indent: int) -> list[str]:
    """A line as a terminal has room for it, the rest of it indented so far; whole where stdout is none."""
    width = _terminal_width()
    if width is None:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def notes(lines: Iterable[str]) -> list[str]:
    """`note: …` for each, in lines of at most 100 columns, and of no more than the terminal has."""
    width = min(_NOTE_WIDTH, _terminal_width() or _NOTE_WIDTH)
    return [
        part
        for line in lines
        for part in textwrap.wrap(printable(line), width, initial_indent="note: ", subsequent_indent="      ")
    ]


def _terminal_width() -> int | None:
    """None where stdout is none: who reads lines from a pipe wants them whole."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if sys.stdout.isatty() else None


def print_tables(*tables: tuple[Sequence[str], Sequence[Sequence[str]]]) -> None:
    """Tables, each its titles and rows, on stdout. Cells are harmless already; columns of numbers (or "-") stand right."""
    from rich import box  # noqa: PLC0415 (only where there is a table)
    from rich.console import Console  # noqa: PLC0415 (as above)
    from rich.table import Column, Table  # noqa: PLC0415 (as above)

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for titles, rows in tables:
            numeric = [all(cell == "-" or cell[:1].isdigit() for cell in column) for column in zip(*rows, strict=True)]
            heads = zip(titles, numeric or [False] * len(titles), strict=True)
            columns_ = [Column(title, justify="right" if is_number else "left", no_wrap=True) for title, is_number in heads]
            table = Table(*columns_, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
            for row in rows:
                table.add_row(*row)
            console.print(table, "")
    _write(sys.stdout, captured.get())


def error_document(error: HeadraceError) -> dict[str, Any]:
    """`{"error": {"kind", "key", "found", "allowed", "message"}}`."""
    kind = next((name for kind, name in _KINDS if isinstance(error, kind)), "error")
    spec = error if isinstance(error, SpecError) else SpecError("")
    return {"error": {"kind": kind, "key": spec.key, "found": spec.found, "allowed": spec.allowed, "message": str(error)}}


_deaf: set[TextIO] = set()


def is_heard() -> bool:
    """Whether anybody reads standard output still, as far as writing to it has told."""
    return sys.stdout not in _deaf


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What follows goes nowhere. Where the reader has gone, as `head` does, and for words that can be said nowhere else, the
        # exit code stays what it is; a document that is not whole is an error.
        _deaf.add(stream)
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise OutputError(f"standard output cannot be written ({error.strerror}).") from error
