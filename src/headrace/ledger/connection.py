"""Opening the ledger's file: durable settings, the schema's version, foreign errors mapped once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import DiskError, LedgerError
from headrace.ledger.statements import SCHEMA_VERSION, read_text

Hook = Callable[[str], None]


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Maps what sqlite3 raises to LedgerError (not usable) or DiskError (a write or read that the disk refused)."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            raise DiskError(f"{path}: the ledger cannot be written ({error}); free or mend the disk, then run again.") from error
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise LedgerError(f"{path} is damaged or no ledger ({error}).") from error
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            raise LedgerError(f"{path}: another process keeps the ledger busy ({error}).") from error
        raise


def connect_writer(path: Path) -> sqlite3.Connection:
    """The one writing connection: WAL, synchronous=FULL, transactions by hand."""
    with mapped(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        try:
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LedgerError(f"{path}: no write-ahead log can be kept there ({mode}); give a local folder with --run-dir.")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = 1")  # macOS: fsync alone leaves data in the drive's cache
            db.execute("PRAGMA wal_autocheckpoint = 4000")
            db.execute("PRAGMA cache_size = -16000")
            _bring_up_to_date(db, path)
        except BaseException:
            db.close()
            raise
    return db


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read; works while a run writes and after a crash."""
    if not path.is_file():
        raise LedgerError(f"{path}: there is no ledger.")
    with mapped(path):
        try:
            db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA query_only = 1")
            version = db.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.OperationalError:
            # A read-only folder has no room for the log's shared memory: read the file as it stands.
            db = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
            )
            version = db.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(version, path)
    return db


def _bring_up_to_date(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    _refuse_newer(version, path)
    if version == 0:
        # A crash inside executescript leaves the whole transaction undone, as it is one.
        db.executescript(f"BEGIN; {read_text('schema.sql')} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def _refuse_newer(version: int, path: Path) -> None:
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"{path} was written by a newer release (schema {version}, this one knows {SCHEMA_VERSION}); upgrade headrace."
        )
