"""Rows as cells: what stands in one column of a table, as exact text, and which column type can hold it."""

from __future__ import annotations

import json
import math
import re
from enum import IntFlag

import msgspec
import orjson

from headrace.protocols import Row
from headrace.sinks.encoding import encode_answers, readable

Cells = dict[str, bytes]
Strings = list[str | None]

_SPLIT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRINGS = msgspec.json.Decoder(Strings)
_SCANNER = json.JSONDecoder()
_WHITE = re.compile(r"[ \t\r\n]*")
_EXACT_IN_DOUBLE = 2**53
_INT64 = range(-(2**63), 2**63)
_QUOTE, _LIST, _OBJECT, _TRUE, _FALSE, _NULL = b'"[{tfn'


class CellKind(IntFlag):
    """What was met in a column. A column's kinds are added up; `NOTHING` is null or absent."""

    NOTHING = 0
    TRUTH = 1
    INTEGER = 2  # exact in a double
    LONG = 4  # needs all 64 bits
    REAL = 8
    STRING = 16
    STRINGS = 32  # a list of strings and nulls
    OTHER = 64  # no column type but text holds it: objects, other lists, numbers beyond int64 and double


def cells(row: Row) -> Cells:
    """The row's fields and ours, each as its own JSON text: number tokens stay as they were. Never raises.

    Of a repeated key the last value counts, and of an input field with one of our names ours. Absent fields are absent.
    """
    fields = _split(row.raw) if row.raw is not None else {}
    fields.update(_split(encode_answers(row)))
    return fields


def text(cell: bytes | None) -> str | None:
    """A string as it is, null and absent as None, anything else as its JSON text; always encodable in UTF-8."""
    if cell is None:
        return None
    first = cell[0]
    if first == _QUOTE:
        return _string(cell)
    if first == _NULL:
        return None
    return cell.decode("utf-8", "replace")


def kind(cell: bytes) -> CellKind:
    """Which column types can hold the cell."""
    first = cell[0]
    if first == _QUOTE:
        return CellKind.STRING
    if first == _NULL:
        return CellKind.NOTHING
    if first in (_TRUE, _FALSE):
        return CellKind.TRUTH
    if first == _OBJECT:
        return CellKind.OTHER
    if first == _LIST:
        return CellKind.OTHER if strings(cell) is None else CellKind.STRINGS
    return _kind_of_number(cell)


def strings(cell: bytes) -> Strings | None:
    """The list of strings and nulls that the cell is, or None if it is something else."""
    try:
        return _STRINGS.decode(cell)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        value = json.loads(cell.decode("utf-8", "replace"))  # a lone surrogate escape is beyond the fast parser
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and all(part is None or isinstance(part, str) for part in value):
        return [part if part is None else readable(part) for part in value]
    return None


def _kind_of_number(cell: bytes) -> CellKind:
    if b"." in cell or b"e" in cell or b"E" in cell:
        return CellKind.REAL if math.isfinite(float(cell)) else CellKind.OTHER
    if len(cell) > 20:
        return CellKind.OTHER
    value = int(cell)
    if abs(value) <= _EXACT_IN_DOUBLE:
        return CellKind.INTEGER
    return CellKind.LONG if value in _INT64 else CellKind.OTHER


def _split(raw: bytes) -> Cells:
    try:
        return {readable(key): bytes(value) for key, value in _SPLIT.decode(raw).items()}
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _split_slowly(raw.decode("utf-8", "replace"))
    except (ValueError, IndexError, RecursionError):
        return {}


def _split_slowly(raw: str) -> Cells:
    """The same for what the fast parser refuses: a lone surrogate escape, a BOM. Raises ValueError or IndexError."""
    found: Cells = {}
    at = _after_white(raw, raw.startswith("\ufeff"))
    if raw[at] != "{":
        return found
    at = _after_white(raw, at + 1)
    while raw[at] != "}":
        key, at = _SCANNER.raw_decode(raw, at)
        start = _after_white(raw, _after_white(raw, at) + 1)  # over the colon
        _, end = _SCANNER.raw_decode(raw, start)
        found[readable(key)] = raw[start:end].encode("utf-8")
        at = _after_white(raw, end)
        if raw[at] == ",":
            at = _after_white(raw, at + 1)
    return found


def _after_white(raw: str, at: int) -> int:
    match = _WHITE.match(raw, at)
    return at if match is None else match.end()


def _string(cell: bytes) -> str:
    try:
        value: str = orjson.loads(cell)
    except orjson.JSONDecodeError:
        value = readable(json.loads(cell.decode("utf-8", "replace"), strict=False))
    return value
