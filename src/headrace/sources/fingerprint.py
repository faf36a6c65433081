"""Fingerprints: size, mtime and a sha256 per 16 MiB of each input file, taken from the bytes as they pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import InputBrokenError
from headrace.sources.paths import cause, shown

CHUNK_BYTES = 16 * 2**20
_STEP_BYTES = 2**20


class FileFingerprint:
    """The growing fingerprint of one file: `hashed` bytes from its start are covered; the last chunk may be a part."""

    def __init__(self, path: Path, size: int, mtime_ns: int) -> None:
        self.path = path
        self.size = size
        self.mtime_ns = mtime_ns
        self.hashed = 0
        self._full: list[str] = []
        self._state = hashlib.sha256()

    def update(self, block: bytes) -> None:
        """The next bytes of the file."""
        room = CHUNK_BYTES - self.hashed % CHUNK_BYTES
        if len(block) < room:
            self._state.update(block)
            self.hashed += len(block)
            return
        view = memoryview(block)
        while len(view) >= room:
            self._state.update(view[:room])
            self._full.append(self._state.hexdigest())
            self._state = hashlib.sha256()
            self.hashed += room
            view = view[room:]
            room = CHUNK_BYTES
        self._state.update(view)
        self.hashed += len(view)

    def restore(self, stored: dict[str, Any]) -> None:
        """Take over what an earlier process hashed; whole chunks only, the rest is hashed again when it is needed."""
        self._set(list(stored["chunks"])[: int(stored["hashed"]) // CHUNK_BYTES])

    def rewind(self, offset: int) -> None:
        """Cover exactly the bytes before `offset`, reading again as little of the file as the known chunks allow."""
        self._set(self._full[: offset // CHUNK_BYTES])
        self.advance(offset)

    def advance(self, offset: int) -> None:
        """Cover at least the bytes before `offset` by reading them from the file. Raises InputBrokenError."""
        if self.hashed >= offset:
            return
        try:
            for block in _blocks(self.path, self.hashed, offset):
                self.update(block)
        except OSError as error:
            raise InputBrokenError(f"input {shown(self.path)}: cannot be read again: {cause(error)}") from error
        if self.hashed < offset:
            raise InputBrokenError(f"input {shown(self.path)}: became shorter while it was being read")

    def finish(self) -> None:
        """The file was read to its end: cover all of it. Raises InputBrokenError."""
        self.advance(self.size)

    def is_changed(self) -> bool:
        """Whether the file's size or time is not what it was when it was opened, or it is gone."""
        try:
            found = self.path.stat()
        except OSError:
            return True
        return (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready: path, size, mtime_ns, hashed (bytes), chunks (hex)."""
        partial = [self._state.hexdigest()] if self.hashed % CHUNK_BYTES else []
        return {
            "path": str(self.path),
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "hashed": self.hashed,
            "chunks": self._full + partial,
        }

    def _set(self, full: list[str]) -> None:
        self._full = full
        self.hashed = len(full) * CHUNK_BYTES
        self._state = hashlib.sha256()


def matches(stored: dict[str, Any], path: Path) -> bool:
    """Whether a file still is what was fingerprinted; of what was not read yet only the size is compared."""
    return _file_matches(stored, path)


def still_holds(stored: dict[str, Any], path: Path) -> bool:
    """Whether the bytes that had been read still stand in a file, which may have grown since."""
    return _file_matches(stored, path, may_grow=True)


def _file_matches(stored: dict[str, Any], path: Path, *, may_grow: bool = False) -> bool:
    try:
        found = path.stat()
        if found.st_size < stored["size"] or (found.st_size > stored["size"] and not may_grow):
            return False
        if found.st_mtime_ns == stored["mtime_ns"] and found.st_size == stored["size"]:
            return True
        hashed = int(stored["hashed"])
        for start, expected in zip(range(0, hashed, CHUNK_BYTES), stored["chunks"], strict=True):
            state = hashlib.sha256()
            for block in _blocks(path, start, min(start + CHUNK_BYTES, hashed)):
                state.update(block)
            if state.hexdigest() != expected:
                return False
    except OSError:
        return False
    return True


def _blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The file's bytes from `start` to `end`, fewer where it is shorter."""
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while start < end and (block := file.read(min(_STEP_BYTES, end - start))):
            start += len(block)
            yield block
