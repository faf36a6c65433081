"""The elements of a JSON array, each with its own bytes, found block by block with bounded memory."""

from __future__ import annotations

import re
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from headrace.errors import InputBrokenError
from headrace.sources.blocks import BLOCK_BYTES, Blocks
from headrace.sources.brackets import Marks
from headrace.sources.jsonl import KEPT_BYTES
from headrace.sources.paths import shown

_WHITE_SPACE = re.compile(rb"[ \t\r\n]*+")
_WHITE = b" \t\r\n"
_SCALAR = re.compile(rb'[^,\[\]{}"]*+')
_COMMA, _QUOTE, _CLOSE, _END_OF_OBJECT = b',"]}'
_BRACKETS = frozenset(b"{[")


class Element(NamedTuple):
    """`raw` are its bytes, of one that is too long the first 4,000; `size` is how many it has, `end` the offset behind it."""

    raw: bytes
    size: int
    end: int


class _State(Enum):
    BEFORE = auto()  # before an element or the array's end
    INSIDE = auto()  # in an object or an array
    STRING = auto()
    SCALAR = auto()  # in a number, true, null, or what stands in such a place
    BEHIND = auto()  # behind an element
    ENDED = auto()  # behind the array
    CLOSED = auto()  # behind the object around the array


_WITHIN = {_State.INSIDE, _State.STRING, _State.SCALAR}


class Elements:
    """The elements of an array whose bracket stands at the offset `start`.

    An element may be anything between two commas at the array's own level: nothing (of it there is an empty element), or
    no JSON. A comma before the closing bracket is passed over.
    """

    def __init__(
        self, blocks: Blocks, longest: int, path: Path, *, start: int = 0, key: str | None = None, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """`key` is the only key of an object whose value the array is; None: the array is all that there is."""
        self._blocks = blocks
        self._longest = longest
        self._where = f"input {shown(path)}"
        self._key = key
        self._block_bytes = block_bytes
        self._state = _State.BEFORE
        self._marks = Marks()
        self._number = 0  # elements found
        self._offset = 0  # of the block at hand
        self._passed = start + 1  # bytes before the array's content
        self._start = 0  # of the element at hand
        self._parts: list[bytes] = []
        self._size = 0
        self._broken: InputBrokenError | None = None

    def go_on(self, number: int, offset: int) -> None:
        """The next byte of the blocks is the one behind the element of this number, and has this offset."""
        self._number = number
        self._offset = offset
        self._passed = 0
        self._state = _State.BEHIND

    def next(self) -> list[Element]:
        """The next elements, an empty list at the end. Raises InputBrokenError once those before the break are given."""
        if self._broken is not None:
            raise self._broken
        found: list[Element] = []
        while not found:
            block = self._blocks.read(self._block_bytes)
            if not block:
                self._check_end()
                break
            if self._passed:
                passed = min(self._passed, len(block))
                self._passed -= passed
                self._offset += passed
                block = block[passed:]
            self._marks.feed(block)
            try:
                self._frame(block, found)
            except InputBrokenError as error:
                self._broken = error
                if not found:
                    raise
            self._offset += len(block)
        return found

    def _frame(self, block: bytes, found: list[Element]) -> None:
        at, end = 0, len(block)
        if self._state in _WITHIN and block:
            at = self._go_on(block, 0, found)
        while 0 <= at < end:
            byte = block[at]
            if self._state is _State.BEHIND and byte == _COMMA:
                self._state = _State.BEFORE
                at += 1
            elif byte in _WHITE:
                white = _WHITE_SPACE.match(block, at)
                assert white is not None
                at = white.end()
            elif self._state is _State.BEFORE and byte != _CLOSE:
                at = self._begin(block, at, found)
            else:
                self._punctuate(byte, at)
                at += 1

    def _begin(self, block: bytes, at: int, found: list[Element]) -> int:
        byte = block[at]
        self._start = self._offset + at
        if byte == _COMMA:
            self._found(b"", found, self._start)
            return at
        if byte == _END_OF_OBJECT:
            raise self._broken_at(at, f"a closing brace stands where record {self._number + 1} belongs")
        self._state = _State.INSIDE if byte in _BRACKETS else _State.STRING if byte == _QUOTE else _State.SCALAR
        return self._go_on(block, at, found)

    def _go_on(self, block: bytes, at: int, found: list[Element]) -> int:
        """Behind the end of the element at hand, or -1: it goes on in the next block."""
        if self._state is _State.INSIDE:
            end = self._marks.end_of_brackets()
        elif self._state is _State.STRING:
            end = self._marks.end_of_string(at if self._parts else at + 1)
        else:
            scalar = _SCALAR.match(block, at)
            assert scalar is not None
            end = scalar.end() if scalar.end() < len(block) else -1
        if end < 0:
            self._hold(block[at:])
            return -1
        raw = block[at:end]
        if self._parts:
            self._hold(raw)
            raw = b"".join(self._parts)
        self._found(raw, found, self._offset + end)
        return end

    def _found(self, raw: bytes, found: list[Element], end: int) -> None:
        size = self._size or len(raw)
        if self._state is _State.SCALAR:
            raw = raw.rstrip(_WHITE)
            size = len(raw) if size <= self._longest else size
        self._number += 1
        found.append(Element(raw if size <= self._longest else raw[:KEPT_BYTES], size, end))
        self._parts, self._size = [], 0
        self._state = _State.BEHIND

    def _hold(self, part: bytes) -> None:
        """Keep a part of the element at hand; of one that is too large its first bytes alone."""
        self._size += len(part)
        if self._size <= self._longest:
            self._parts.append(part)
        elif self._parts and len(self._parts[0]) >= KEPT_BYTES:
            self._parts = [self._parts[0][:KEPT_BYTES]]
        else:
            self._parts = [b"".join([*self._parts, part[:KEPT_BYTES]])[:KEPT_BYTES]]

    def _punctuate(self, byte: int, at: int) -> None:
        """What may stand between elements and around them; all else breaks the input off."""
        state = self._state
        if (state is _State.BEFORE or state is _State.BEHIND) and byte == _CLOSE:
            self._state = _State.CLOSED if self._key is None else _State.ENDED
        elif state is _State.ENDED and byte == _END_OF_OBJECT:
            self._state = _State.CLOSED
        elif state is _State.BEHIND:
            raise self._broken_at(at, f"a comma or ] is missing behind record {self._number}")
        elif state is _State.ENDED:
            raise self._broken_at(at, f"the object does not end behind its array {self._key}: records come from its only key")
        else:
            raise self._broken_at(at, "something stands behind the array's end")

    def _check_end(self) -> None:
        state = self._state
        if state in _WITHIN:
            raise InputBrokenError(
                f"{self._where}: ends inside record {self._number + 1}, which begins at byte {self._start:,}: "
                "a quote or bracket is missing there, or the file was cut off"
            )
        if state is not _State.CLOSED:
            what = "}" if state is _State.ENDED else "]"
            raise InputBrokenError(
                f"{self._where}: the closing {what} is missing behind record {self._number}; the file may have been cut off"
            )

    def _broken_at(self, at: int, why: str) -> InputBrokenError:
        return InputBrokenError(f"{self._where}: {why}, at byte {self._offset + at:,}")
