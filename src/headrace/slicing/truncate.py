"""`slice.truncate`: text fields are cut to a length."""

from __future__ import annotations

from typing import Any

from headrace.slicing.boundary import cut_near
from headrace.slicing.measure import Measure
from headrace.values import Piece


class Truncator:
    """Makes an item's one piece, with each text field cut to `length` ("2000 chars", "800 tokens").

    `fields` names those that the template prints; None means every top-level field. Only top-level strings are cut: at the end
    of a sentence or a word where one is near, and within no grapheme cluster.
    """

    def __init__(self, length: str, fields: frozenset[str] | None = None) -> None:
        self._measure = Measure(length)
        # A text of so few characters is not measured: no estimate has more than four tokens for one.
        self._short = self._measure.limit // 4 if self._measure.in_tokens else self._measure.limit
        self._names = None if fields is None else tuple(sorted(fields))

    def __call__(self, item_seq: int, fields: dict[str, Any]) -> Piece:
        """`cut` says that something was cut off; the given fields are never changed."""
        short = self._short
        if self._names is None:
            for value in fields.values():
                if type(value) is str and len(value) > short:
                    return self._cut(item_seq, fields)
        else:
            for name in self._names:
                value = fields.get(name)
                if type(value) is str and len(value) > short:
                    return self._cut(item_seq, fields)
        return Piece(item_seq, 0, fields)

    def _cut(self, item_seq: int, fields: dict[str, Any]) -> Piece:
        measure = self._measure
        cut: dict[str, Any] | None = None
        for name in self._names or fields:
            value = fields.get(name)
            if type(value) is not str or len(value) <= self._short:
                continue
            end = measure.prefix(value)
            if end < len(value):
                cut = dict(fields) if cut is None else cut
                cut[name] = value[: cut_near(value, end)]
        return Piece(item_seq, 0, fields) if cut is None else Piece(item_seq, 0, cut, cut=True)
