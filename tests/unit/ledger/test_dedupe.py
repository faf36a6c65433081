"""The dedupe index against a dict, with tiny sizes and forced prefix collisions."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DiskError, LedgerError
from headrace.ledger import dedupe
from headrace.ledger.dedupe import DedupeIndex, DedupeSizes

TINY = DedupeSizes(recent=3, on_disk=8)


class Known:
    """Stands for the ledger: full hashes by sequence number. Keeps what was asked for."""

    def __init__(self) -> None:
        self.hashes: dict[int, bytes] = {}
        self.asked: list[int] = []

    def __call__(self, seqs: list[int]) -> Sequence[bytes]:
        self.asked += seqs
        return [self.hashes[seq] for seq in seqs]

    def enter(self, index: DedupeIndex, batch: list[bytes], first_seq: int | None = None) -> list[int]:
        seq = index.next_seq if first_seq is None else first_seq
        found = [int(earlier) for earlier in index.add(batch, first_seq)]
        for hash_, earlier in zip(batch, found, strict=True):
            if earlier < 0:
                self.hashes[seq] = hash_
                seq += 1
        return found


# Few prefixes and few tails, so that equal hashes, and different hashes with equal prefixes, are common.
prefixes = st.one_of(st.integers(0, 3), st.integers(2**64 - 3, 2**64 - 1), st.integers(0, 2**64 - 1))
unit_hashes = st.builds(lambda head, tail: head.to_bytes(8, "little") + tail.to_bytes(8, "big"), prefixes, st.integers(0, 2))
batches = st.lists(st.lists(unit_hashes, max_size=12), max_size=12)


@pytest.mark.slow
@given(batches=batches, recent=st.integers(1, 6), loaded=st.lists(unit_hashes, unique=True, max_size=20))
def test_it_answers_as_a_dict_of_first_occurrences(batches: list[list[bytes]], recent: int, loaded: list[bytes]) -> None:
    known = Known()
    index = DedupeIndex(known, None, DedupeSizes(recent=recent))
    index.load(loaded)
    model = {hash_: seq for seq, hash_ in enumerate(loaded)}
    known.hashes = dict(enumerate(loaded))
    for batch in batches:
        expected = []
        for hash_ in batch:
            expected.append(model.get(hash_, -1))
            model.setdefault(hash_, len(model))
        assert known.enter(index, batch) == expected
        assert len(index) == len(model) == index.next_seq


def test_two_units_with_one_prefix_both_stay_findable() -> None:
    known = Known()
    index = DedupeIndex(known, None, TINY)
    twins = [b"p" * 8 + bytes([n]) * 8 for n in range(20)]
    assert known.enter(index, twins) == [-1] * 20
    known.enter(index, [os.urandom(16) for _ in range(50)])
    assert known.enter(index, twins) == list(range(20))
    assert known.enter(index, [b"p" * 8 + b"new tail"]) == [-1]


def test_a_repeat_inside_one_batch_finds_the_first() -> None:
    index = DedupeIndex(Known(), None)
    a, b = b"a" * 16, b"b" * 16
    assert index.add([a, b, a, b, a]).tolist() == [-1, -1, 0, 1, 0]


def test_a_blob_is_as_good_as_a_list() -> None:
    index = DedupeIndex(Known(), None)
    assert index.add(b"a" * 16 + b"b" * 16 + b"a" * 16).tolist() == [-1, -1, 0]
    assert index.add(b"").tolist() == []
    with pytest.raises(ValueError, match="17 bytes"):
        index.add(b"x" * 17)


def test_the_ledger_is_never_asked_about_the_latest_units() -> None:
    known = Known()
    index = DedupeIndex(known, None, DedupeSizes(recent=10))
    rng = random.Random(5)
    met: list[bytes] = []
    for _ in range(200):
        fresh = [rng.randbytes(16) for _ in range(3)]
        known.asked.clear()
        before = index.next_seq
        known.enter(index, [*fresh, *rng.sample(met, min(5, len(met)))])
        assert all(seq < before - 10 for seq in known.asked)
        met += fresh
    assert known.hashes


def test_numbers_may_be_skipped_and_never_go_back() -> None:
    known = Known()
    index = DedupeIndex(known, None, TINY)
    index.load([b"a" * 16], first_seq=5)
    known.hashes[5] = b"a" * 16
    assert known.enter(index, [b"b" * 16, b"a" * 16, b"c" * 16], first_seq=100) == [-1, 5, -1]
    assert index.next_seq == 102
    known.enter(index, [bytes([n]) * 16 for n in range(20)], first_seq=1000)
    assert known.enter(index, [b"c" * 16, b"b" * 16, bytes([19]) * 16]) == [101, 100, 1019]
    with pytest.raises(ValueError, match="never go back"):
        index.add([b"d" * 16], first_seq=7)


def test_more_units_than_numbers_is_refused() -> None:
    index = DedupeIndex(Known(), None)
    with pytest.raises(LedgerError, match="4,294,967,296 units"):
        index.add([b"a" * 16, b"b" * 16], first_seq=2**32 - 1)
    assert index.add([b"a" * 16], first_seq=2**32 - 1).tolist() == [-1]


def test_loading_after_adding_keeps_both() -> None:
    known = Known()
    index = DedupeIndex(known, None, DedupeSizes(recent=100))
    known.enter(index, [b"a" * 16, b"b" * 16])
    index.load(iter([b"c" * 16, b"d" * 16]))
    known.hashes |= {2: b"c" * 16, 3: b"d" * 16}
    assert known.enter(index, [b"d" * 16, b"a" * 16, b"e" * 16]) == [3, 0, -1]


@pytest.mark.parametrize("size", [1, 3, 10, 64, 100])
def test_loading_in_pieces_of_any_size_gives_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "_LOAD_BATCH", 20)
    rng = random.Random(size)
    units = [rng.randbytes(16) for _ in range(100)]
    known = Known()
    known.hashes = dict(enumerate(units))
    blobs = [b"".join(units[at : at + size]) for at in range(0, 100, size)]
    for calls in ([blobs], blobs):
        index = DedupeIndex(known, None, DedupeSizes(recent=8))
        for call in calls:
            index.load(call)
        assert len(index) == index.next_seq == 100
        assert known.enter(index, [*units, b"new" + bytes(13)]) == [*range(100), -1]
        known.hashes.pop(100)


@pytest.mark.parametrize("folder", [True, False])
def test_large_runs_live_in_nameless_files_and_answer_the_same(
    tmp_path: Path, folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedupe, "_MERGE_SLICE", 64)
    known = Known()
    index = DedupeIndex(known, tmp_path if folder else None, DedupeSizes(recent=50, on_disk=200))
    rng = np.random.default_rng(1)
    blob = rng.bytes(6000 * 16)
    units = [blob[at : at + 16] for at in range(0, len(blob), 16)]
    for at in range(0, 6000, 37):
        known.enter(index, units[at : at + 37])
    assert list(tmp_path.iterdir()) == []
    assert known.enter(index, units) == list(range(6000))
    assert any(run._mapping is not None for run in index._runs) == folder
    assert len(index._runs) < 8
    index.close()
    assert len(index) == 0


def test_a_folder_that_cannot_hold_the_index_is_a_disk_error(tmp_path: Path) -> None:
    index = DedupeIndex(Known(), tmp_path / "missing", DedupeSizes(recent=2, on_disk=4))
    index.load([os.urandom(16) for _ in range(10)])
    with pytest.raises(DiskError, match="cannot keep the dedupe index"):
        index.load([os.urandom(16) for _ in range(10)])
