"""The dedupe index: was this unit seen earlier, and under which number? 12 bytes a unit, outside memory when large."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headrace.canon import HASH_BYTES
from headrace.errors import DiskError, LedgerError

Prefixes = NDArray[np.uint64]
Numbers = NDArray[np.uint32]
Found = NDArray[np.int64]

_LOAD_BATCH = 1 << 18  # hashes sorted at once while loading
_MERGE_SLICE = 1 << 17  # entries held at once while merging
_LARGEST_NUMBER = 2**32 - 1
_WHOLE = np.dtype((np.void, HASH_BYTES))


class DedupeSizes(Struct, frozen=True):
    """When the index moves its entries, in units. Only tests need other figures."""

    recent: int = 1 << 15  # kept whole, so that the ledger is asked only about units at least this far behind
    on_disk: int = 250_000  # larger runs are files, if there is a folder: memory then hardly grows with the input


class DedupeIndex:
    """Answers "seen earlier?" for the 16-byte hashes of units, in the order in which the units were met.

    The latest units are kept whole. Older ones are kept as sorted runs of the hash's first 8 bytes with their sequence
    numbers, merged so that a run is at most a quarter of the one before it; a bitmap in front of the runs lets most new units
    pass without a search. A hit in a run is confirmed by `full_hashes`, which gets sequence numbers and answers with their
    16-byte hashes in the same order, so that two units with equal prefixes are never merged. It is asked only about units
    that lie at least `sizes.recent` units back, or were loaded: those have to be readable in the ledger by then.

    `folder`: where runs above `sizes.on_disk` units are kept, in files without a name that vanish with the index; None
    keeps everything in memory. Sequence numbers go up to 2^32 - 1. Not thread-safe. A call may take a second when large
    runs are merged: it does not belong on an event loop.
    """

    def __init__(
        self,
        full_hashes: Callable[[list[int]], Sequence[bytes]],
        folder: Path | None = None,
        sizes: DedupeSizes | None = None,
    ) -> None:
        self._full_hashes = full_hashes
        self._folder = folder
        self._sizes = sizes or DedupeSizes()
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._runs: list[_Run] = []  # largest and oldest first
        self._filter = _Filter()
        self._next = 0

    def __len__(self) -> int:
        """How many distinct units it holds."""
        return sum(len(run) for run in self._runs) + len(self._old) + len(self._young)

    @property
    def next_seq(self) -> int:
        """The number that the next new unit gets."""
        return self._next

    def add(self, hashes: bytes | Sequence[bytes], first_seq: int | None = None) -> Found:
        """For each hash, in order: the sequence number of the unit seen earlier (also in this call), or -1 where it is new.

        New units are entered under consecutive numbers from `first_seq`, by default `next_seq`; numbers may be skipped and
        never go back (ValueError). `hashes` is a sequence of 16-byte hashes, or all of them in one blob. Raises
        DiskError; the index is not to be used after that.
        """
        blob = _blob(hashes)
        seq = self._start(first_seq, len(blob) // HASH_BYTES)
        keys: list[bytes] = np.frombuffer(blob, dtype=_WHOLE).tolist()
        found = self._search_runs(blob, keys)
        young, old = self._young, self._old
        for position, key in enumerate(keys):
            if found[position] >= 0:
                continue
            known = old.get(key)
            if known is None:
                known = young.setdefault(key, seq)
                if known == seq:
                    seq += 1
                    continue
            found[position] = known
        self._next = seq
        if len(young) >= self._sizes.recent:
            self._retire()
        return np.array(found, dtype=np.int64)

    def load(self, hashes: bytes | Iterable[bytes], first_seq: int | None = None) -> None:
        """Enter units that the ledger holds already, in order of sequence number; they are trusted to be distinct.

        Single hashes or blobs of many, however large or small. Numbered as in `add`: where the ledger's numbers have gaps,
        each stretch is loaded by a call of its own.
        """
        self._next = self._start(first_seq, 0)
        for blob in _gathered([hashes] if isinstance(hashes, bytes) else hashes):
            count = len(blob) // HASH_BYTES
            first = self._start(None, count)
            if count < self._sizes.recent:  # too few for a run of their own
                self._young.update(zip(np.frombuffer(blob, dtype=_WHOLE).tolist(), range(first, first + count), strict=True))
                if len(self._young) >= self._sizes.recent:
                    self._retire()
            else:
                self._push(_prefixes(blob), np.arange(first, first + count, dtype=np.uint32))
            self._next = first + count

    def close(self) -> None:
        """Give memory and files back. The index is empty afterwards."""
        self._young, self._old, self._runs, self._filter = {}, {}, [], _Filter()

    def _start(self, first_seq: int | None, count: int) -> int:
        seq = self._next if first_seq is None else first_seq
        if seq < self._next:
            raise ValueError(f"first_seq {seq} lies before {self._next}: sequence numbers never go back")
        if seq + count > _LARGEST_NUMBER + 1:
            raise LedgerError("a run holds at most 4,294,967,296 units; split the input into several jobs")
        return seq

    def _search_runs(self, blob: bytes, keys: list[bytes]) -> list[int]:
        found = [-1] * len(keys)
        if not self._runs:
            return found
        prefixes = _prefixes(blob)
        positions = self._filter.maybe(prefixes)
        if not len(positions):
            return found
        collided = self._confirm(found, keys, self._candidates(prefixes, positions, every=False))
        if collided:  # another unit has the prefix: rare enough to look again for all that have it
            self._confirm(found, keys, self._candidates(prefixes, np.array(collided), every=True))
        return found

    def _candidates(self, prefixes: Prefixes, positions: NDArray[np.intp], *, every: bool) -> list[tuple[int, int]]:
        """(position, sequence number) of entries with the prefixes at `positions`: every one, or those of the first run."""
        candidates: list[tuple[int, int]] = []
        for run in self._runs:
            if not len(positions):
                break
            hits, met = run.search(prefixes[positions])
            candidates += zip(positions[hits].tolist(), met, strict=True)
            if not every and len(hits):
                positions = np.delete(positions, hits)
        return candidates

    def _confirm(self, found: list[int], keys: list[bytes], candidates: list[tuple[int, int]]) -> list[int]:
        """Fill in `found` where the full hash is equal, too; answers with the positions where it is not."""
        if not candidates:
            return []
        hashes = self._full_hashes([seq for _, seq in candidates])
        for (position, seq), full in zip(candidates, hashes, strict=True):
            if keys[position] == full:
                found[position] = seq
        return sorted({position for position, _ in candidates if found[position] < 0})

    def _retire(self) -> None:
        """Move the older half of the recent units into a run."""
        old, self._old, self._young = self._old, self._young, {}
        if old:
            self._push(_prefixes(b"".join(old)), np.fromiter(old.values(), np.uint32, len(old)))

    def _push(self, prefixes: Prefixes, numbers: Numbers) -> None:
        order = np.argsort(prefixes)  # equal prefixes may stand in any order
        new = _Run(prefixes[order], numbers[order])
        self._filter.add(new.prefixes, self._runs)
        merging = [new]
        size = len(new)
        while self._runs and len(self._runs[-1]) < 4 * size:
            merging.append(self._runs.pop())
            size += len(merging[-1])
        if len(merging) > 1:
            on_disk = self._folder is not None and size > self._sizes.on_disk
            new = _merge_to_file(merging, size, self._folder) if on_disk else _merge_in_memory(merging, size)
        self._runs.append(new)


class _Run:
    """Entries in order of prefix. `numbers` are their sequence numbers."""

    def __init__(self, prefixes: Prefixes, numbers: Numbers, mapping: mmap.mmap | None = None) -> None:
        self.prefixes = prefixes
        self.numbers = numbers
        self._mapping = mapping

    def __len__(self) -> int:
        return len(self.prefixes)

    def search(self, wanted: Prefixes) -> tuple[list[int], list[int]]:
        """Every entry with a wanted prefix: its index in `wanted`, and its sequence number."""
        left = np.searchsorted(self.prefixes, wanted)
        inside = np.minimum(left, len(self.prefixes) - 1)
        hits = np.flatnonzero(self.prefixes[inside] == wanted)
        if not len(hits):
            return [], []
        right = np.searchsorted(self.prefixes, wanted[hits], side="right")
        if np.array_equal(right, left[hits] + 1):  # no prefix stands twice, as nearly always
            return hits.tolist(), self.numbers[left[hits]].tolist()
        spans = [range(first, last) for first, last in zip(left[hits].tolist(), right.tolist(), strict=True)]
        at = [place for span in spans for place in span]
        return [hit for hit, span in zip(hits.tolist(), spans, strict=True) for _ in span], self.numbers[at].tolist()

    def drop_pages(self) -> None:
        """Let the kernel take back the memory of a mapped run's pages; they are read again when needed."""
        if self._mapping is not None:
            self._mapping.madvise(mmap.MADV_DONTNEED)


class _Filter:
    """A bitmap over the top bits of the prefixes in the runs: a clear bit means "not there". 16 to 32 bits a unit."""

    def __init__(self) -> None:
        self._count = 0
        self._width = 0
        self._bits = np.zeros(0, dtype=np.uint8)

    def maybe(self, prefixes: Prefixes) -> NDArray[np.intp]:
        """The indexes of those that may be there."""
        byte, bit = self._places(prefixes)
        return np.flatnonzero(self._bits[byte] & bit)

    def add(self, prefixes: Prefixes, earlier: Sequence[_Run]) -> None:
        """Enter some more; `earlier` holds all that were entered before."""
        self._count += len(prefixes)
        if self._count * 16 > len(self._bits) * 8:
            self._width = max(16, (self._count * 16 - 1).bit_length())
            self._bits = np.zeros(1 << (self._width - 3), dtype=np.uint8)
            for run in earlier:
                self._enter(run.prefixes)
        self._enter(prefixes)

    def _enter(self, prefixes: Prefixes) -> None:
        for at in range(0, len(prefixes), _MERGE_SLICE):
            byte, bit = self._places(prefixes[at : at + _MERGE_SLICE])
            np.bitwise_or.at(self._bits, byte, bit)

    def _places(self, prefixes: Prefixes) -> tuple[NDArray[np.intp], NDArray[np.uint8]]:
        place = prefixes >> np.uint64(64 - self._width)
        return (place >> np.uint64(3)).astype(np.intp), np.left_shift(1, place & np.uint64(7), dtype=np.uint8, casting="unsafe")


def _merge_in_memory(runs: Sequence[_Run], size: int) -> _Run:
    prefixes = np.empty(size, dtype=np.uint64)
    numbers = np.empty(size, dtype=np.uint32)
    at = 0
    for some_prefixes, some_numbers in _merged(runs, size):
        end = at + len(some_prefixes)
        prefixes[at:end] = some_prefixes
        numbers[at:end] = some_numbers
        at = end
    return _Run(prefixes, numbers)


def _merge_to_file(runs: Sequence[_Run], size: int, folder: Path | None) -> _Run:
    """The merged run as a nameless file: all prefixes, then all numbers. Written by calls, so that it costs no memory."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="dedupe-") as file:
            at = 0
            for prefixes, numbers in _merged(runs, size):
                _write_all(file.fileno(), prefixes.data.cast("B"), at * 8)
                _write_all(file.fileno(), numbers.data.cast("B"), size * 8 + at * 4)
                at += len(prefixes)
            mapping = mmap.mmap(file.fileno(), size * 12, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DiskError(f"cannot keep the dedupe index in {folder}: {error.strerror or error}; free some space there") from error
    return _Run(
        np.frombuffer(mapping, dtype=np.uint64, count=size),
        np.frombuffer(mapping, dtype=np.uint32, count=size, offset=size * 8),
        mapping,
    )


def _merged(runs: Sequence[_Run], size: int) -> Iterator[tuple[Prefixes, Numbers]]:
    """The runs' entries in order, by slices of the key space that hold about `_MERGE_SLICE` entries each (hashes are uniform)."""
    slices = max(1, size // _MERGE_SLICE)
    borders = np.array([(n << 64) // slices for n in range(1, slices)], dtype=np.uint64)
    cuts = [[0, *np.searchsorted(run.prefixes, borders).tolist(), len(run)] for run in runs]
    for n in range(slices):
        pieces = [slice(cut[n], cut[n + 1]) for cut in cuts]
        prefixes = np.concatenate([run.prefixes[piece] for run, piece in zip(runs, pieces, strict=True)])
        numbers = np.concatenate([run.numbers[piece] for run, piece in zip(runs, pieces, strict=True)])
        order = np.argsort(prefixes, kind="stable")  # this kind merges what is sorted in stretches: four times as fast here
        yield prefixes[order], numbers[order]
        for run in runs:
            run.drop_pages()


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data = data[written:]
        offset += written


def _prefixes(blob: bytes) -> Prefixes:
    return np.ascontiguousarray(np.frombuffer(blob, dtype=np.uint64)[::2])


def _blob(hashes: bytes | Sequence[bytes]) -> bytes:
    blob = hashes if isinstance(hashes, bytes) else b"".join(hashes)
    if len(blob) % HASH_BYTES:
        raise ValueError(f"{len(blob)} bytes are no sequence of {HASH_BYTES}-byte hashes")
    return blob


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same hashes in blobs of at most `_LOAD_BATCH`."""
    limit = _LOAD_BATCH * HASH_BYTES
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= limit:
            whole = _blob(held)
            yield from (whole[at : at + limit] for at in range(0, size, limit))
            held, size = [], 0
    if held:
        yield _blob(held)
