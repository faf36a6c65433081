"""What the ledger costs a unit: item, piece, unit, lease, attempt of 420 bytes, settled. `python -m bench.ledger [units]`."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch
from headrace.values import Answer, Attempt, Item, Outcome, Reply, State, Unit, Usage

GROUPS = (64, 256, 500)
READ_AHEAD = 4  # so many batches lie between the reading of a unit and its lease
ROW_BYTES = 420
CONTENT_BYTES = 345  # with the other columns of an attempt: 420
REPEATS = 3  # the best counts: the machine may be shared
BARE_ROWS = 4.5  # the bar, in bare inserts of 420 bytes: 8 µs where such a one costs 1.8
BARRED_FROM = 256  # the bar holds from this group size on


def batches(units: int, size: int) -> Iterator[Batch]:
    """What the engine commits: each batch reads on, leases what was read before, settles what was leased before that."""
    count = units // size
    for n in range(count + READ_AHEAD + 1):
        batch = Batch()
        batch.items = [Item(seq, 1, seq * 700, 700, seq + 1, f"record-{seq}") for seq in numbers(n, count, size)]
        batch.pieces = [(seq, 0, seq) for seq in numbers(n, count, size)]
        batch.units = [Unit(seq=seq, hash=seq.to_bytes(16, "little"), item=seq) for seq in numbers(n, count, size)]
        batch.leases = list(numbers(n - READ_AHEAD, count, size))
        batch.outcomes = [outcome(seq) for seq in numbers(n - READ_AHEAD - 1, count, size)]
        batch.meta = {"reading": {"position": str(n), "items": n * size, "done": n >= count}}
        yield batch


def numbers(n: int, count: int, size: int) -> range:
    return range(n * size, (n + 1) * size) if 0 <= n < count else range(0)


def outcome(seq: int) -> Outcome:
    usage = Usage(prompt=612, completion=87, cached=512)
    reply = Reply(content=f"{seq}:".ljust(CONTENT_BYTES, "x"), finish="stop", usage=usage, model="gemma-3-270m")
    attempt = Attempt(
        unit=seq, ask=0, started_at=1_790_000_000.123 + seq / 50, seconds=1.234 + seq % 7, config=1, endpoint=1, status=200,
        reply=reply, usage=usage,
    )  # fmt: skip
    return Outcome(unit=seq, state=State.DONE, attempt=attempt, answer=Answer(), spent=1, age_s=attempt.seconds)


def measure(units: int, size: int, path: Path) -> tuple[float, float, float]:
    """CPU µs and wall µs a unit, and bytes a unit in the file. Only commits are timed."""
    units -= units % size
    ledger = SqliteLedger(path)
    cpu = wall = 0.0
    for batch in batches(units, size):
        began, began_wall = time.process_time(), time.perf_counter()
        ledger.commit(batch)
        cpu += time.process_time() - began
        wall += time.perf_counter() - began_wall
    assert ledger.unsettled() == 0
    ledger.close()
    return cpu / units * 1e6, wall / units * 1e6, path.stat().st_size / units


def bare(rows: int, path: Path) -> float:
    """CPU µs of a row of 420 bytes under an integer key, 500 a commit: what SQLite itself takes on this machine."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
    spent = 0.0
    for first in range(0, rows, 500):
        made = [(n, f"{n}:".ljust(ROW_BYTES, "x")) for n in range(first, first + 500)]
        began = time.process_time()
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (?, ?)", made)
        db.execute("COMMIT")
        spent += time.process_time() - began
    db.close()
    return spent / rows * 1e6


def main() -> int:
    units = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    unit: dict[int, list[tuple[float, float, float]]] = {size: [] for size in GROUPS}
    rows = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as name:
            rows.append(bare(units, Path(name) / "bare.db"))
            for size in GROUPS:
                unit[size].append(measure(units, size, Path(name) / f"{size}.db"))
    row = min(rows)
    print(f"a bare insert of {ROW_BYTES} bytes: {row:.2f} µs of CPU")
    worst = 0.0
    for size, found in unit.items():
        cpu, wall, size_bytes = map(min, zip(*found, strict=True))
        print(
            f"{size} a commit: {cpu:.2f} µs of CPU a unit = {cpu / row:.1f} bare inserts, {wall:.1f} µs of wall time, "
            f"{size_bytes:.0f} bytes"
        )
        if size >= BARRED_FROM:
            worst = max(worst, cpu / row)
    print(f"bar: {BARE_ROWS} bare inserts at {BARRED_FROM} a commit and more")
    return int(worst > BARE_ROWS)


if __name__ == "__main__":
    raise SystemExit(main())
