"""An order over all units that wait, of 16 bytes each: prompts that begin alike stand together, long ones first.

A unit's sketch has a byte for each of eight depths of its prompt, 64 bytes to 8 kB beyond what all share, so sorting by
it walks the tree of prefixes. It is coarse, and need not be more: the units come through `policy.order` all the same, where
what stands near each other is compared byte by byte. The keys are kept in memory and not in the ledger: a column there
costs every run 12 bytes and 0.3 µs a unit and a migration, and sorting a million rows by it takes 1.9 s. A run that goes on
makes them again from the records, in the time in which it waits for answers.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from headrace.policy.prefixes import BLOCK

MOST_KEYS = 1 << 18  # 4 MB, and 14 MB for the 0.15 s in which they are sorted; a longer input is arranged part by part
LEVELS = 8
WORTH_SHARED = 0.01  # share of the units that must have a prefix in common with others
WORTH_SPREAD = 2.0  # times the mean that the longest must have
STEPS_AN_OCTAVE = 4  # lengths count as equal within a fifth, so that records are read nearly as they lie


class Keys:
    """Sketch, size and number of units that wait. `shared` is how many bytes all payloads have in common."""

    def __init__(self, shared: int) -> None:
        self._start = shared // BLOCK * BLOCK
        self._sketches = array("Q")
        self._sizes = array("I")
        self._seqs = array("I")

    def __len__(self) -> int:
        return len(self._seqs)

    def add(self, seq: int, payload: bytes) -> None:
        size = min(len(payload), 0xFFFFFFFF)
        self._sketches.append(sketch(payload, self._start))
        self._sizes.append(size)
        self._seqs.append(seq)

    def forget_before(self, first: int) -> None:
        """Units with a smaller number have gone meanwhile."""
        seqs = np.frombuffer(self._seqs, np.uint32) if self._seqs else np.zeros(0, np.uint32)
        kept = seqs >= first
        if not kept.all():
            places = np.flatnonzero(kept).tolist()
            self._sketches = array("Q", [self._sketches[place] for place in places])
            self._sizes = array("I", [self._sizes[place] for place in places])
            self._seqs = array("I", [self._seqs[place] for place in places])

    def arranged(self, out: Iterable[bytes], *, groups_from: int, by_size: bool) -> NDArray[np.uint32] | None:
        """The numbers in the best order; None where that is no better than the order they have.

        `out` are payloads that have been sent: what begins like one of them comes first. Prompts are a group when the first
        `groups_from` depths agree (0: none is). With `by_size` the longest of them go first, else the order is kept.
        """
        if not self._seqs:
            return None
        sent = np.array([sketch(payload, self._start) for payload in out], np.uint64)
        sketches = np.concatenate([sent, np.frombuffer(self._sketches, np.uint64)])
        sizes, seqs = np.frombuffer(self._sizes, np.uint32), np.frombuffer(self._seqs, np.uint32)
        return _arranged(sketches, sizes, seqs, groups_from=groups_from, by_size=by_size)


def sketch(payload: bytes, start: int) -> int:
    """A byte for each depth that the payload reaches, the least deep first; 0 for those beyond its end."""
    value, seen, end, size = 0, 0, start + BLOCK, len(payload)
    crc = zlib.crc32
    for level in range(LEVELS):
        if end > size:
            return value << 8 * (LEVELS - level)
        seen = crc(payload[end - BLOCK : end], seen)  # what differs before differs from there on
        value = value << 8 | seen % 255 + 1
        end += BLOCK << level
    return value


def _arranged(
    sketches: NDArray[np.uint64], sizes: NDArray[np.uint32], seqs: NDArray[np.uint32], *, groups_from: int, by_size: bool
) -> NDArray[np.uint32] | None:
    sent, count = len(sketches) - len(sizes), len(sizes)
    by_prefix = np.argsort(sketches, kind="stable")
    starts = _starts(sketches[by_prefix], groups_from)
    counts = np.diff(starts, append=len(sketches))
    is_shared = bool(counts[counts > 1].sum() - sent > WORTH_SHARED * count)
    is_long_tailed = by_size and bool(sizes.max() > WORTH_SPREAD * sizes.mean())
    if not (is_shared or is_long_tailed):
        return None
    size = np.concatenate([np.zeros(sent, np.int64), sizes.astype(np.int64)])[by_prefix]
    seq = np.concatenate([np.zeros(sent, np.int64), seqs.astype(np.int64)])[by_prefix]
    is_sent = by_prefix < sent
    goes_first = np.logical_or.reduceat(is_sent, starts)
    first = np.minimum.reduceat(seq, starts)
    longest = np.maximum.reduceat(size, starts)
    path = np.where(counts > 1, longest + np.minimum.reduceat(size, starts), longest)
    octaves = np.rint(STEPS_AN_OCTAVE * np.log2(np.maximum(path, 1))) if by_size else np.zeros(len(path))
    ranked = np.lexsort((first, -octaves, ~goes_first))
    places = _expanded(starts[ranked], counts[ranked])
    return seq[places[~is_sent[places]]].astype(np.uint32)


def _starts(sketches: NDArray[np.uint64], groups_from: int) -> NDArray[np.intp]:
    """Where each group begins among sorted sketches."""
    if not groups_from:
        return np.arange(len(sketches))
    heads = sketches >> np.uint64(8 * (LEVELS - groups_from))
    is_new = (heads[1:] != heads[:-1]) | (heads[1:] & np.uint64(255) == 0)
    return np.concatenate([[0], np.flatnonzero(is_new) + 1])


def _expanded(starts: NDArray[np.intp], counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The places of all members of groups, group by group."""
    ends = np.cumsum(counts)
    places: NDArray[np.intp] = np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)
    return places
