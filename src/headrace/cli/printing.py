"""What goes to stdout and stderr: one JSON document, or words for people."""

from __future__ import annotations

import json
import sys
from typing import Any

from headrace.errors import (
    DiskError,
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

_KINDS: tuple[tuple[type[HeadraceError], str], ...] = (
    (NotYetError, "not_yet"),
    (SpecError, "spec"),
    (InputError, "input"),
    (LockedError, "lock"),
    (DiskError, "disk"),
    (LedgerError, "ledger"),
    (OutputError, "output"),
    (RunNotFoundError, "run_not_found"),
)


def print_json(document: dict[str, Any]) -> None:
    """The command's one JSON document, on stdout. ASCII: it reads the same whatever the terminal's encoding."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def print_words(line: str) -> None:
    """A line for people, on stderr, harmless whatever it quotes."""
    sys.stderr.write(printable(line) + "\n")
    sys.stderr.flush()


def error_document(error: HeadraceError) -> dict[str, Any]:
    """`{"error": {"kind", "key", "found", "allowed", "message"}}`."""
    kind = next((name for kind, name in _KINDS if isinstance(error, kind)), "error")
    spec = error if isinstance(error, SpecError) else SpecError("")
    return {"error": {"kind": kind, "key": spec.key, "found": spec.found, "allowed": spec.allowed, "message": str(error)}}
