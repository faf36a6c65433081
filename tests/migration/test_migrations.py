"""Ledgers of every schema version are opened by this one, and schema.sql is the sum of the steps that led to it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headrace.ledger.reader import LedgerReader
from headrace.ledger.statements import SCHEMA_VERSION, migrations, read_text
from headrace.ledger.writer import SqliteLedger

HERE = Path(__file__).parent
LEDGERS = sorted((HERE / "ledgers").glob("v*.db"))


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_ledger", HERE / "make_ledger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def schema(*scripts: str) -> dict[str, Any]:
    """Every table with its columns, and every index, as SQLite understands them."""
    db = sqlite3.connect(":memory:")
    for script in scripts:
        db.executescript(script)
    names = db.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
    tables = [name for kind, name in names if kind == "table"]
    without_rowid = {row[1]: row[4] for row in db.execute("PRAGMA table_list")}
    found = {
        "names": names,
        "columns": {table: db.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in tables},
        "keys": {table: db.execute(f"PRAGMA index_list({table})").fetchall() for table in tables},
        "without_rowid": {table: without_rowid[table] for table in tables},
    }
    db.close()
    return found


def test_schema_sql_is_the_sum_of_the_migrations() -> None:
    found = schema(*(text for _, text in migrations()))
    assert found == schema(read_text("schema.sql"))
    assert len(found["columns"]) == 17


def test_migrations_are_numbered_without_gaps_up_to_the_schema_s_version() -> None:
    assert [number for number, _ in migrations()] == list(range(1, SCHEMA_VERSION + 1))


def test_there_is_a_ledger_of_every_version() -> None:
    assert [path.name for path in LEDGERS] == [f"v{number}.db" for number in range(1, SCHEMA_VERSION + 1)]


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_an_older_ledger_says_what_it_said(path: Path) -> None:
    assert maker().figures(path) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_an_older_ledger_is_gone_on_with(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "ledger.db"
    shutil.copy(path, copy)
    ledger = SqliteLedger(copy)
    assert ledger._db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    assert ledger.next_numbers() == (40, 32)
    assert ledger.unsettled() == 6
    batch = maker().reading()
    batch.items, batch.pieces, batch.units, batch.slices, batch.leases = [], [], [], [], [26, 27]
    ledger.commit(batch)
    assert ledger.recover(1, 200.0, retry_ambiguous=False) == 2
    reader = LedgerReader(copy)
    rows = list(reader.rows())
    assert len(rows) == 40
    assert rows[3].content == b"answer 3 \xed\xa0\x80"
    assert sum(row.state == 3 for row in rows) == 6
    reader.close()
    ledger.close()


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_an_older_ledger_is_read_where_nothing_may_be_written(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "ledger.db"
    shutil.copy(path, copy)
    copy.chmod(0o444)
    before = copy.read_bytes()
    reader = LedgerReader(copy)
    assert len(list(reader.rows())) == 40
    reader.close()
    assert copy.read_bytes() == before


def test_the_newest_ledger_file_is_what_this_code_writes(tmp_path: Path) -> None:
    maker().write(tmp_path / "ledger.db")
    assert maker().figures(tmp_path / "ledger.db") == maker().figures(LEDGERS[-1])
