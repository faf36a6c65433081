"""A first look at an input: which fields its first records have, and which of them are likely to be the text and the id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.sources.open import open_source

_RECORDS = 100
_FIELDS = 200
_MAX_RECORD = 10_000_000
_TEXT_NAMES = (
    "text",
    "body",
    "content",
    "document",
    "description",
    "message",
    "review",
    "comment",
    "question",
    "abstract",
    "input",
)
_ID_NAMES = ("id", "uid", "uuid", "key", "_id", "name", "number", "no", "index")
_LONGEST_ID = 100


class Look(Struct, frozen=True):
    """What the first records showed. `text` and `id` are proposals, None where nothing offers itself."""

    records: int
    unreadable: int
    fields: tuple[str, ...]
    text: str | None
    id: str | None


def look_at(path: str, base: Path) -> Look:
    """Read the first hundred records of what `input.path` would name. Raises InputError, SpecError."""
    source = open_source(path, base, max_record=_MAX_RECORD)
    try:
        records = source.read(_RECORDS).records
    finally:
        source.close()
    rows = [record.fields for record in records if record.fields is not None]
    names = tuple(name for name in dict.fromkeys(name for row in rows for name in row) if _is_text(name))[:_FIELDS]
    text = _text_field(rows, names)
    return Look(len(records), len(records) - len(rows), names, text, _id_field(rows, names, text))


def _is_text(name: str) -> bool:
    """A job file cannot hold a name with lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def _text_field(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> str | None:
    """A field of a telling name, else the longest text."""
    lengths = {name: _mean_length(rows, name) for name in names}
    telling = [name for wanted in _TEXT_NAMES for name in names if name.lower() == wanted and lengths[name] > 0]
    return telling[0] if telling else max((name for name in names if lengths[name] > 0), key=lengths.__getitem__, default=None)


def _mean_length(rows: Sequence[dict[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if isinstance(row.get(name), str)]
    return sum(map(len, values)) / len(rows) if rows else 0.0


def _id_field(rows: Sequence[dict[str, Any]], names: Sequence[str], text: str | None) -> str | None:
    """A field of a telling name whose values all differ; else the first whose values do, and are short."""
    fitting = [name for name in names if name != text and _tells_apart(rows, name)]
    telling = [name for wanted in _ID_NAMES for name in fitting if name.lower() == wanted]
    ending = [name for name in fitting if name.lower().endswith(("_id", "-id"))]
    return next(iter([*telling, *ending, *(fitting if len(rows) > 1 else ())]), None)


def _tells_apart(rows: Sequence[dict[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in rows]
    if not all(type(value) in {str, int} and value != "" and len(str(value)) <= _LONGEST_ID for value in values):
        return False
    return len(set(values)) == len(values)
