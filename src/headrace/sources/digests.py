"""What is remembered of records that are no bytes of one file: a sha256 per 4,096 of them, each over those before too."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice

PER_CHUNK = 4_096


class RecordDigests:
    """The growing digests of records: `count` of them are covered; the last chunk may be a part."""

    def __init__(self) -> None:
        self.count = 0
        self._full: list[str] = []
        self._state = hashlib.sha256()

    def add(self, *parts: bytes) -> None:
        """The next record; parts that differ, or are divided otherwise, make another digest."""
        for part in parts:
            self._state.update(b"%d:" % len(part))
            self._state.update(part)
        self.count += 1
        if self.count % PER_CHUNK == 0:
            self._full.append(self._state.hexdigest())
            self._state = self._begun()

    def check(self) -> int:
        """A number of 48 bits that is another for other records."""
        return int(self._state.hexdigest()[:12], 16)

    def chunks(self) -> list[str]:
        """Hex, JSON-ready."""
        return [*self._full, self._state.hexdigest()] if self.count % PER_CHUNK else list(self._full)

    def restore(self, chunks: Sequence[str], count: int) -> None:
        """Take over what was stored; whole chunks only."""
        self._full = list(chunks)[: count // PER_CHUNK]
        self.count = len(self._full) * PER_CHUNK
        self._state = self._begun()

    def rewind(self, count: int) -> None:
        """Cover as many records as the whole chunks before this count hold."""
        self.restore(self._full, min(count, self.count))

    def _begun(self) -> hashlib._Hash:
        return hashlib.sha256(self._full[-1].encode() if self._full else b"")


def hold(chunks: Sequence[str], count: int, records: Iterable[Sequence[bytes]]) -> bool:
    """Whether the first `count` records are those that these chunks were made of."""
    found = RecordDigests()
    for parts in islice(records, count):
        found.add(*parts)
    return found.count == count and found.chunks() == list(chunks)
