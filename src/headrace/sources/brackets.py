"""Where the values of a JSON text end: strings and brackets found by whole blocks, without a step per byte or per token."""

from __future__ import annotations

from typing import Any

import numpy as np

_QUOTE, _BACKSLASH, _OPENING, _CLOSING = b'"\\{}'
_AS_BRACE = 0x20  # [ and ] differ from { and } in this bit alone
_APART = 2  # what a closing bracket is above its opening one


class Marks:
    """Marks strings and brackets in the blocks of a text. It begins outside of any value, and looks at nothing else: whether
    a value is JSON is not its question, nor whether a bracket closes one of its own kind.
    """

    def __init__(self) -> None:
        self._in_string = False
        self._escaped = False  # the next byte is
        self._depth = 0
        self._quotes: Any = np.empty(0, dtype=np.int64)
        self._ends: list[int] = []
        self._next = 0

    def feed(self, block: bytes) -> None:
        """The next block; places are indices in it from now on."""
        codes = np.frombuffer(block, dtype=np.uint8)
        quotes = self._real_quotes(codes, block)
        places, steps = _brackets(codes, quotes, in_string=self._in_string)
        depths = self._depth + np.cumsum(steps, dtype=np.int64)
        self._ends = (places[(depths == 0) & (steps < 0)] + 1).tolist()
        self._next = 0
        self._quotes = quotes
        if len(depths):
            self._depth = int(depths[-1])
        self._in_string ^= len(quotes) % 2 == 1

    def end_of_brackets(self) -> int:
        """Behind the next outermost closing bracket, -1 where none is in the block. Each is given once."""
        if self._next == len(self._ends):
            return -1
        self._next += 1
        return self._ends[self._next - 1]

    def end_of_string(self, at: int) -> int:
        """Behind the next quote from there that no backslash escapes, -1 where none is in the block."""
        found = np.searchsorted(self._quotes, at)
        return int(self._quotes[found]) + 1 if found < len(self._quotes) else -1

    def _real_quotes(self, codes: Any, block: bytes) -> Any:
        """The quotes that begin or end a string."""
        quotes = np.flatnonzero(codes == _QUOTE)
        if b"\\" not in block and not self._escaped:
            return quotes
        slashes = np.flatnonzero(codes == _BACKSLASH)
        place = np.arange(len(slashes))
        first = np.append(True, np.diff(slashes) != 1)[: len(slashes)]
        place_in_run = place - np.maximum.accumulate(np.where(first, place, 0))
        if self._escaped:
            place_in_run[slashes == place] += 1  # those of the run at the block's beginning
        escapes = np.zeros(len(codes) + 1, dtype=bool)
        escapes[slashes[place_in_run % 2 == 0] + 1] = True
        escapes[0] = self._escaped
        self._escaped = bool(escapes[-1])
        return quotes[~escapes[quotes]]


def end_of_first(text: bytes) -> int:
    """Behind the object or array with which a text begins, -1 where it does not end there."""
    marks = Marks()
    marks.feed(text)
    return marks.end_of_brackets()


def nests(value: bytes) -> bool:
    """Whether each bracket in an object or array closes one of its own kind."""
    codes = np.frombuffer(value, dtype=np.uint8)
    places, steps = _brackets(codes, Marks()._real_quotes(codes, value), in_string=False)  # noqa: SLF001 - one family
    levels = np.cumsum(steps, dtype=np.int64) + (steps < 0)
    if not len(places) or levels[-1] != 1 or steps[-1] > 0 or levels.min() < 1:
        return False
    # Those of one level follow each other as opening and closing ones.
    pairs = codes[places[np.argsort(levels, kind="stable")]].astype(np.int16).reshape(-1, 2)
    return bool((pairs[:, 1] - pairs[:, 0] == _APART).all())


def _brackets(codes: Any, quotes: Any, *, in_string: bool) -> tuple[Any, Any]:
    """The places of brackets outside of strings, and +1 or -1 for each."""
    braces = codes | _AS_BRACE
    places = np.flatnonzero((braces == _OPENING) | (braces == _CLOSING))
    places = places[(np.searchsorted(quotes, places) + in_string) % 2 == 0]
    return places, np.where(braces[places] == _OPENING, 1, -1)
