"""`slice.truncate = "N chars"`: text fields are cut to a length."""

from __future__ import annotations

from typing import Any

from headrace.values import Piece


class Truncator:
    """Makes an item's one piece, with each text field cut to `limit_chars` characters.

    `fields` names those that the template prints; None means every top-level field. Only top-level strings are cut.
    A character is a Unicode code point: a cut may part a letter from its combining mark, never a code point.
    """

    def __init__(self, limit_chars: int, fields: frozenset[str] | None = None) -> None:
        self._limit = limit_chars
        self._names = None if fields is None else tuple(sorted(fields))

    def __call__(self, item_seq: int, fields: dict[str, Any]) -> Piece:
        """`cut` says that something was cut off; the given fields are never changed."""
        limit = self._limit
        if self._names is None:
            for value in fields.values():
                if type(value) is str and len(value) > limit:
                    return self._cut(item_seq, fields)
        else:
            for name in self._names:
                value = fields.get(name)
                if type(value) is str and len(value) > limit:
                    return self._cut(item_seq, fields)
        return Piece(item_seq, 0, fields)

    def _cut(self, item_seq: int, fields: dict[str, Any]) -> Piece:
        cut = dict(fields)
        for name in self._names or fields:
            value = cut.get(name)
            if type(value) is str:
                cut[name] = value[: self._limit]
        return Piece(item_seq, 0, cut, cut=True)
