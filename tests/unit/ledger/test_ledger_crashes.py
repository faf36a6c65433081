"""Crashes and full disks: what was committed stays, what was not is gone, and the same ledger goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.testing.contracts.batches import batch, done, items, pieces, units_of
from headrace.values import State

BATCH = 30

WRITING = """
import sys
from pathlib import Path
from headrace.ledger.writer import SqliteLedger
from headrace.testing.contracts.batches import batch, done, items, pieces, units_of
ledger, size = SqliteLedger(Path(sys.argv[1])), int(sys.argv[2])
for first in range(0, 10**9, size):
    seqs = list(range(first, first + size))
    ledger.commit(batch(items=items(size, first), pieces=pieces(size, first), units=units_of(size, first), leases=seqs))
    ledger.commit(batch(outcomes=[done(seq) for seq in seqs]))
    print(first + size, flush=True)
"""

FILLING = """
import resource, sys
from pathlib import Path
from headrace.errors import DiskError
from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.testing.contracts.ledger import attempt, batch, items, pieces, units_of
from headrace.values import Answer, Outcome, Reply, State

path = Path(sys.argv[1])
log = path.with_name("ledger.db-wal")
ledger = SqliteLedger(path)
ledger.commit(batch(items=items(300), pieces=pieces(300), units=units_of(300), leases=list(range(300))))
ledger.commit(batch(outcomes=[Outcome(0, State.DONE, attempt(0), Answer())]))
big = batch(
    outcomes=[Outcome(seq, State.DONE, attempt(seq, reply=Reply("x" * 2000)), Answer()) for seq in range(1, 300)],
    meta={"reading": {"position": "2"}},
)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for room in (0, 10, 4096, 4097, 100_000, 300_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + room, hard))
    try:
        ledger.commit(big)
    except DiskError as error:
        print("refused", str(path) in str(error), len(str(error).splitlines()), flush=True)
    else:
        print("committed", flush=True)
    reader = LedgerReader(path)
    print(dict(reader.all("count_units")), reader.meta("reading"), flush=True)
    reader.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
ledger.commit(big)
print("committed", flush=True)
ledger.close()
"""


def states(path: Path) -> dict[int, int]:
    reader = LedgerReader(path)
    try:
        return dict(reader.all("count_units"))
    finally:
        reader.close()


@pytest.mark.slow
def test_PER_01_what_a_killed_process_had_committed_is_there_and_nothing_in_part(tmp_path: Path) -> None:  # noqa: N802 - a case's id
    path = tmp_path / "ledger.db"
    with subprocess.Popen([sys.executable, "-c", WRITING, str(path), str(BATCH)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = 0
        for _ in range(12):
            told = int(process.stdout.readline())
            # A reader looks while the other process writes: whole batches, and all that it was told of.
            found = states(path)
            assert found.get(State.DONE, 0) >= told
            assert all(count % BATCH == 0 for count in found.values())
        process.kill()
        told = max([told, *(int(line) for line in process.stdout.readlines() if line.endswith("\n"))])
    found = states(path)
    assert found[State.DONE] >= told
    assert all(count % BATCH == 0 for count in found.values())
    ledger = SqliteLedger(path)
    open_leases = found.get(State.LEASED, 0)
    assert ledger.recover(1, 0.0, retry_ambiguous=True) == open_leases
    assert ledger.unsettled() == open_leases
    ledger.close()
    assert states(path) == {State.DONE: found[State.DONE], **({State.PENDING: open_leases} if open_leases else {})}


@pytest.mark.slow
def test_PER_02_a_log_torn_at_any_byte_keeps_every_batch_before(tmp_path: Path) -> None:  # noqa: N802 - a case's id
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    ledger = SqliteLedger(path)
    sizes = []
    for n in range(3):
        ledger.commit(batch(items=items(BATCH, n * BATCH), pieces=pieces(BATCH, n * BATCH), units=units_of(BATCH, n * BATCH)))
        sizes.append(log.stat().st_size)
    whole = log.read_bytes()
    torn = tmp_path / "torn"
    for length in [*range(sizes[0], sizes[2], 379), sizes[1] - 1, sizes[1], sizes[1] + 1, sizes[2] - 1, sizes[2]]:
        torn.mkdir()
        shutil.copy(path, torn / path.name)
        (torn / log.name).write_bytes(whole[:length])
        again = SqliteLedger(torn / path.name)
        batches = sum(size <= length for size in sizes)
        assert again.next_numbers() == (batches * BATCH, batches * BATCH)
        again.commit(batch(items=items(1, batches * BATCH), units=units_of(1, batches * BATCH)))
        again.close()
        shutil.rmtree(torn)
    ledger.close()


@pytest.mark.slow
def test_PER_10_a_full_disk_leaves_nothing_of_the_batch_which_commits_once_there_is_room(tmp_path: Path) -> None:  # noqa: N802 - a case's id
    path = tmp_path / "ledger.db"
    run = subprocess.run(
        [sys.executable, "-c", FILLING, str(path)], capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert run.stderr == ""
    unharmed = f"{ {State.LEASED.value: 299, State.DONE.value: 1} } None"
    assert run.stdout.splitlines() == [*["refused True 1", unharmed] * 6, "committed"]
    assert states(path) == {State.DONE: 300}
    reader = LedgerReader(path)
    numbers = [row.seq for row in reader.rows() if row.content == ("answer 0" if row.seq == 0 else "x" * 2000)]
    assert numbers == list(range(300))
    assert reader.meta("reading") == {"position": "2"}
    assert reader.all("count_sends_of_many") == []
    reader.close()


def test_attempts_go_on_with_the_next_number_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for n in range(3):
        ledger = SqliteLedger(path)
        ledger.commit(batch(items=items(1, n), pieces=pieces(1, n), units=units_of(1, n), leases=[n], outcomes=[done(n)]))
        ledger.close()
    db = LedgerReader(path)
    assert db._db.execute("SELECT id, unit FROM attempt ORDER BY id").fetchall() == [(1, 0), (2, 1), (3, 2)]
    db.close()
