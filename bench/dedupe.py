"""What the dedupe index costs: 10M hashes in batches of 500, one in ten seen before. `python -m bench.dedupe [units]`."""

from __future__ import annotations

import gc
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.ledger.dedupe import DedupeIndex

BATCH = 500
REPEATED = 0.1
MICROSECONDS_A_ROW = 2.5
MEGABYTES = 250
LOADED = 1_000_000
LOAD_SECONDS = 0.5


def hashes(numbers: NDArray[np.uint64]) -> bytes:
    """16 bytes a number, well mixed and made again at will, so that the bench itself holds none (splitmix64)."""
    mixed = np.empty((len(numbers), 2), dtype=np.uint64)
    for column in (0, 1):
        z = numbers * np.uint64(2) + np.uint64(column) + np.uint64(1)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed[:, column] = z ^ (z >> np.uint64(31))
    return mixed.tobytes()


def full_hashes(seqs: list[int]) -> Sequence[bytes]:
    blob = hashes(np.array(seqs, dtype=np.uint64))
    return [blob[at : at + 16] for at in range(0, len(blob), 16)]


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def feed(rows: int, folder: Path) -> tuple[float, float, int]:
    """(CPU µs a row, slowest batch in seconds, repeats found). Only the index is timed."""
    rng = np.random.default_rng(7)
    index = DedupeIndex(full_hashes, folder)
    spent = slowest = 0.0
    found = 0
    for _ in range(rows // BATCH):
        known = index.next_seq
        repeats = rng.random(BATCH) < REPEATED if known else np.zeros(BATCH, dtype=bool)
        numbers = known + np.cumsum(~repeats) - 1
        numbers[repeats] = rng.integers(0, max(known, 1), int(repeats.sum()))
        blob = hashes(numbers.astype(np.uint64))
        started = time.process_time()  # the machine may be shared
        seen = index.add(blob)
        took = time.process_time() - started
        spent += took
        slowest = max(slowest, took)
        found += int((seen >= 0).sum())
        assert np.array_equal(seen >= 0, repeats)
    index.close()
    return spent / rows * 1e6, slowest, found


def load(folder: Path) -> float:
    known = [hashes(np.arange(first, first + 1000, dtype=np.uint64)) for first in range(0, LOADED, 1000)]
    started = time.process_time()
    index = DedupeIndex(full_hashes, folder)
    for blob in known:
        index.load(blob)
    seconds = time.process_time() - started
    assert len(index) == LOADED
    index.close()
    return seconds


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        hashes(np.arange(BATCH, dtype=np.uint64))
        gc.collect()
        before = peak_megabytes()
        micros, slowest, found = feed(rows, Path(name))
        grown = peak_megabytes() - before
        seconds = load(Path(name))
    print(
        f"{rows:,} rows, {found:,} repeats: {micros:.2f} µs of CPU a row (bar {MICROSECONDS_A_ROW}), slowest batch {slowest:.2f} s"
    )
    print(f"peak memory grew by {grown:.0f} MB (bar {MEGABYTES})")
    print(f"{LOADED:,} known hashes loaded in {seconds:.2f} s (bar {LOAD_SECONDS})")
    return int(micros > MICROSECONDS_A_ROW or grown > MEGABYTES or seconds > LOAD_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
