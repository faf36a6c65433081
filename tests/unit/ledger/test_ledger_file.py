"""The ledger's file: its settings, what is refused at opening, folders that cannot be written."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import DiskError, LedgerError
from headrace.ledger.reader import LedgerReader
from headrace.ledger.statements import SCHEMA_VERSION
from headrace.ledger.writer import SqliteLedger
from headrace.testing.contracts.batches import batch, done, items, pieces, units_of

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def fill(path: Path, count: int = 20) -> None:
    ledger = SqliteLedger(path)
    seqs = list(range(count))
    ledger.commit(batch(items=items(count), pieces=pieces(count), units=units_of(count), leases=seqs))
    ledger.commit(batch(outcomes=[done(seq) for seq in seqs]))
    ledger.close()


def read(path: Path) -> list[int | None]:
    reader = LedgerReader(path)
    try:
        return [row.state for row in reader.rows()]
    finally:
        reader.close()


def refusal(path: Path) -> list[str]:
    """What writer and reader say, each in one line."""
    said = []
    for kind in (SqliteLedger, read):
        with pytest.raises(LedgerError) as caught:
            kind(path)
        said.append(str(caught.value))
        assert str(path) in said[-1]
        assert "\n" not in said[-1]
    return said


# -- settings


def test_commits_are_synced_to_a_write_ahead_log(path: Path) -> None:
    ledger = SqliteLedger(path)
    settings = {name: ledger._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "fullfsync")}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "fullfsync": 1}
    ledger.close()


def test_a_reader_cannot_write(path: Path) -> None:
    fill(path)
    reader = LedgerReader(path)
    with pytest.raises(LedgerError, match="readonly"):
        reader.all("requeue_item", (1, 1))
    reader.close()


def test_a_path_with_odd_characters_is_that_path(tmp_path: Path) -> None:
    path = tmp_path / "a ?mode=rwc&x=1#b%20é" / "ledger.db"
    path.parent.mkdir()
    fill(path)
    assert read(path) == [2] * 20
    assert [entry.name for entry in tmp_path.iterdir()] == [path.parent.name]


# -- what is refused


def test_a_ledger_of_a_newer_release_is_refused_and_left_alone(path: Path) -> None:
    fill(path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    before = path.read_bytes()
    told = f"newer release (schema {SCHEMA_VERSION + 1}, this one knows {SCHEMA_VERSION}); upgrade headrace"
    assert all(told in said for said in refusal(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database\n" * 500, random.Random(7).randbytes(100_000)])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert all("damaged or no ledger" in said for said in refusal(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [0, 1, 9])
def test_another_program_s_database_is_refused_and_left_alone(path: Path, version: int) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE unit (a)")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    assert all("another program's" in said for said in refusal(path))
    assert path.read_bytes() == before


def test_a_file_that_was_cut_is_a_damaged_ledger(path: Path) -> None:
    fill(path, 2000)
    os.truncate(path, path.stat().st_size // 8192 * 4096)
    with pytest.raises(LedgerError, match="damaged"):
        read(path)


def test_a_text_that_is_none_is_a_damaged_ledger(path: Path) -> None:
    fill(path, 20)
    content = path.read_bytes()
    assert b"answer 7" in content
    path.write_bytes(content.replace(b"answer 7", b"answer\xbd7"))
    with pytest.raises(LedgerError, match="damaged: a text in it is none"):
        read(path)


def test_a_fact_that_is_no_json_is_a_damaged_ledger(path: Path) -> None:
    fill(path, 20)
    db = sqlite3.connect(path)
    db.execute("INSERT INTO meta (key, value) VALUES ('reading', '{')")
    db.commit()
    db.close()
    reader = LedgerReader(path)
    with pytest.raises(LedgerError, match="damaged: a fact in it is no JSON"):
        reader.meta("reading")
    reader.close()


def test_pages_that_were_overwritten_are_a_damaged_ledger(path: Path) -> None:
    fill(path, 2000)
    content = bytearray(path.read_bytes())
    content[4096:] = random.Random(7).randbytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="damaged"):
        read(path)
    with pytest.raises(LedgerError, match="damaged"):
        SqliteLedger(path)


def test_a_ledger_that_is_not_there_is_not_made_by_reading(path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        LedgerReader(path)
    path.mkdir()
    with pytest.raises(LedgerError, match="there is no ledger"):
        LedgerReader(path)
    with pytest.raises(DiskError):
        SqliteLedger(path)
    assert list(path.iterdir()) == []


def test_an_empty_file_is_a_ledger_that_a_crash_left_unmade(path: Path) -> None:
    path.touch()
    with pytest.raises(LedgerError, match="nothing in the ledger yet"):
        LedgerReader(path)
    fill(path)
    assert read(path) == [2] * 20


def test_a_crash_while_the_schema_is_made_leaves_a_ledger_to_be_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("headrace.ledger.connection.migrations", lambda: [(1, "CREATE TABLE unit (a); SELECT crash();")])
        with pytest.raises(sqlite3.OperationalError):
            SqliteLedger(path)
    with pytest.raises(LedgerError, match="nothing in the ledger yet"):
        LedgerReader(path)
    fill(path)
    assert read(path) == [2] * 20


# -- folders that cannot be written


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, as pytest's own cannot."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder as one sees it who may only read it; the superuser has to become somebody else for that."""
    mine = os.geteuid()
    folder.chmod(0o555)
    try:
        if mine == 0:
            os.seteuid(NOBODY)
        yield
    finally:
        os.seteuid(mine)
        folder.chmod(0o755)


def test_a_folder_that_cannot_be_written_is_a_disk_error_in_one_line(shared_folder: Path) -> None:
    path = shared_folder / "ledger.db"
    with read_only(shared_folder), pytest.raises(DiskError) as caught:
        SqliteLedger(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    fill(path)
    path.chmod(0o444)
    with read_only(shared_folder), pytest.raises(DiskError):
        SqliteLedger(path)


def test_a_closed_ledger_is_read_where_nothing_can_be_written(shared_folder: Path) -> None:
    fill(shared_folder / "ledger.db")
    with read_only(shared_folder):
        assert read(shared_folder / "ledger.db") == [2] * 20
    assert [entry.name for entry in shared_folder.iterdir()] == ["ledger.db"]


def test_a_ledger_that_a_crash_left_open_is_read_where_nothing_can_be_written(shared_folder: Path) -> None:
    ledger = SqliteLedger(shared_folder / "ledger.db")
    ledger.commit(batch(items=items(3), pieces=pieces(3), units=units_of(3)))
    with read_only(shared_folder):
        assert read(shared_folder / "ledger.db") == [0] * 3
    ledger.close()


def test_a_log_that_cannot_be_read_is_not_passed_over(shared_folder: Path, tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    ledger.commit(batch(items=items(3), pieces=pieces(3), units=units_of(3)))
    for name in ("ledger.db", "ledger.db-wal"):  # copied without the shared memory
        shutil.copy(tmp_path / name, shared_folder / name)
    ledger.close()
    with read_only(shared_folder), pytest.raises(LedgerError, match="copy the whole run folder") as caught:
        read(shared_folder / "ledger.db")
    assert "\n" not in str(caught.value)
    assert read(shared_folder / "ledger.db") == [0] * 3
