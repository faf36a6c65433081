"""Lines: bytes between 0x0A and 0x0A, found block by block, with bounded memory however long a line is."""

from __future__ import annotations

from headrace.sources.blocks import BLOCK_BYTES, Blocks


class OpenPart(bytes):
    """A part of a line that is too long to be held; its rest follows, its last part as plain bytes."""

    __slots__ = ()


class Lines:
    """The lines of some blocks, without their 0x0A. A line of more than `longest` bytes comes in parts."""

    def __init__(self, blocks: Blocks, longest: int, block_bytes: int = BLOCK_BYTES) -> None:
        self._blocks = blocks
        self._longest = longest
        self._block_bytes = block_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._open = False  # the last part given was an OpenPart
        self._ended = False

    def next(self) -> list[bytes]:
        """The next lines or parts in order, an empty list at the end. Raises InputBrokenError; a line cut by it is not given."""
        while not self._ended:
            block = self._blocks.read(self._block_bytes)
            if not block:
                self._ended = True
                return [self._take_tail()] if self._tail or self._open else []
            if b"\n" not in block:
                self._tail.append(block)
                self._tail_bytes += len(block)
                if self._tail_bytes > self._longest:
                    self._open = True
                    return [OpenPart(self._take_tail())]
                continue
            lines = block.split(b"\n")
            if self._tail:
                self._tail.append(lines[0])
                lines[0] = self._take_tail()
            self._open = False
            if rest := lines.pop():
                self._tail.append(rest)
                self._tail_bytes = len(rest)
            return lines
        return []

    def _take_tail(self) -> bytes:
        whole = self._tail[0] if len(self._tail) == 1 else b"".join(self._tail)
        self._tail = []
        self._tail_bytes = 0
        return whole
