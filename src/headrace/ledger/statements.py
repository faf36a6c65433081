"""The ledger's SQL by name, read from queries.sql once, and the steps by which its schema came about."""

from __future__ import annotations

import re
from importlib import resources

SCHEMA_VERSION = 6
PROCESSES = "processes"  # the fact that names the first attempt of each process of the run
# Each statement gives up the interpreter's lock and has to win it back, so that rows are written in as few as can be.
WIDTHS = (256, 128, 64, 32, 16, 8, 4, 2, 1)  # rows that one statement writes
LIST_WIDTHS = (1, 8, 64, 500)  # values that one IN list holds
_NAMED = re.compile(r"^-- ([a-z_]+): .*\n((?:(?!--).*\n?)+)", re.MULTILINE)
MOST_RANGES = 16  # in one condition
_RANGE = "seq BETWEEN ? AND ?"
_ROW = re.compile(r"VALUES (\((?:[^()]|\([^()]*\))*\))")


def load(text: str) -> dict[str, str]:
    """Statements by name out of `-- name: purpose` blocks."""
    return {name: " ".join(body.split()) for name, body in _NAMED.findall(text)}


def widened(statement: str, rows: int) -> str:
    """An INSERT that takes so many rows at once."""
    found = _ROW.search(statement)
    assert found is not None
    return statement[: found.end()] + f", {found[1]}" * (rows - 1) + statement[found.end() :]


def ranged(statement: str, ranges: int) -> str:
    """A statement with one range of numbers, for so many."""
    return statement.replace(_RANGE, " OR ".join([_RANGE] * ranges))


def read_text(name: str) -> str:
    return resources.files("headrace.ledger").joinpath(name).read_text(encoding="utf-8")


def migrations() -> list[tuple[int, str]]:
    """The schema's steps in order: the version that each leads to, and its SQL. Their sum is schema.sql."""
    folder = resources.files("headrace.ledger").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), read_text(f"migrations/{name}")) for name in names]


SQL = load(read_text("queries.sql"))
WIDE = {
    name: [(rows, widened(text, rows)) for rows in WIDTHS]
    for name, text in SQL.items()
    if text.startswith("INSERT") and _ROW.search(text)
}
WIDE["lease_range"] = [(count, ranged(SQL["lease_range"], count)) for count in WIDTHS if count <= MOST_RANGES]


def listed(statement: str) -> list[tuple[int, str]]:
    """A statement with an IN list of one value, for each width of a list."""
    return [(count, statement.replace("(?)", f"(?{', ?' * (count - 1)})")) for count in LIST_WIDTHS]


HASH_LISTS = listed(SQL["hash_of"])
PENDING_LISTS = listed(SQL["pending_these"])
