"""The ledger's SQL by name, read from queries.sql once."""

from __future__ import annotations

import re
from importlib import resources

SCHEMA_VERSION = 1
_NAMED = re.compile(r"^-- ([a-z_]+): .*\n((?:(?!--).*\n?)+)", re.MULTILINE)


def load(text: str) -> dict[str, str]:
    """Statements by name out of `-- name: purpose` blocks."""
    return {name: " ".join(body.split()) for name, body in _NAMED.findall(text)}


def read_text(name: str) -> str:
    return resources.files("headrace.ledger").joinpath(name).read_text(encoding="utf-8")


SQL = load(read_text("queries.sql"))
