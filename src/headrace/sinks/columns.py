"""The columns of a table: their names, their order and their types, fixed before the first row is written."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from headrace.errors import OutputError
from headrace.protocols import Row
from headrace.sinks.cells import CellKind, cells, kind

MOST_COLUMNS = 10_000


class ColumnType(Enum):
    """What a typed column holds. `STRING` also takes what fits no other type, as JSON text."""

    TRUTH = "bool"
    INT64 = "int64"
    DOUBLE = "double"
    STRING = "string"
    STRINGS = "list of strings"


_OURS = {
    "answer_notes": ColumnType.STRINGS, "answer_confidence": ColumnType.DOUBLE, "answer_share": ColumnType.DOUBLE,
    "answer_tied": ColumnType.STRINGS,
}  # fmt: skip


def infer(rows: Iterable[Row]) -> dict[str, ColumnType]:
    """Names and types after one pass over all rows: the input's fields in the order they first appear, then ours.

    A column is typed only where every value of it fits exactly: truth values, integers of 64 bits, numbers, strings, lists
    of strings. Mixed, nested and larger ones are text, and so is a column without any value. Memory grows with the number
    of columns only; raises OutputError at more than 10,000 of them.
    """
    inputs: dict[str, CellKind] = {}
    ours: dict[str, CellKind] = {}
    for row in rows:
        answers = row.answers
        for name in answers:
            ours.setdefault(name, CellKind.NOTHING)
        for name, cell in cells(row).items():
            kinds = ours if name in answers else inputs
            kinds[name] = kinds.get(name, CellKind.NOTHING) | kind(cell)
        if len(inputs) > MOST_COLUMNS:
            raise too_many_columns(len(inputs))
    met = {name: kinds for name, kinds in inputs.items() if name not in ours} | ours
    return {name: default_type(name) if kinds == CellKind.NOTHING else _type_for(kinds) for name, kinds in met.items()}


def default_type(name: str) -> ColumnType:
    """The type of a column of which no value is known: text, but for ours that always hold a list, or a number."""
    return _OURS.get(name.rstrip("_"), ColumnType.STRING)


def too_many_columns(count: int) -> OutputError:
    return OutputError(
        f"the records have {count:,} different fields or more, and a table holds {MOST_COLUMNS:,}; write a .jsonl file instead"
    )


def _type_for(kinds: CellKind) -> ColumnType:
    if kinds == CellKind.TRUTH:
        return ColumnType.TRUTH
    if kinds in CellKind.INTEGER | CellKind.LONG:
        return ColumnType.INT64
    if kinds in CellKind.INTEGER | CellKind.REAL:
        return ColumnType.DOUBLE
    if kinds == CellKind.STRINGS:
        return ColumnType.STRINGS
    return ColumnType.STRING
