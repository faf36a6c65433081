"""Opening the ledger's file: durable settings, the schema's version, foreign errors mapped once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from headrace.errors import DiskError, EmptyLedgerError, LedgerError
from headrace.ledger.statements import SCHEMA_VERSION, migrations

Hook = Callable[[str], None]

APPLICATION_ID = 0x68647263  # "hdrc": tells a ledger from any other SQLite file
_leaves_no_trace: ContextVar[bool] = ContextVar("leaves_no_trace", default=False)
_DISK = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_NOLFS")


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Maps what sqlite3 raises to LedgerError (not usable) or DiskError (a write or read that the disk refused)."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise LedgerError(f"{path} is damaged: a text in it is none ({error.reason}).") from error
    except sqlite3.DatabaseError as error:
        if "Could not decode" in str(error):
            raise LedgerError(f"{path} is damaged: a text in it is none ({error}).") from error
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(_DISK):
            raise DiskError(
                f"{path}: the ledger cannot be read or written ({error}); free or mend the disk, then run again."
            ) from error
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise LedgerError(f"{path} is damaged or no ledger ({error}).") from error
        if name.startswith("SQLITE_CONSTRAINT"):
            raise LedgerError(f"{path}: another process has written to it too ({error}); was run.lock removed?") from error
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            raise LedgerError(f"{path}: another process keeps the ledger busy ({error}).") from error
        raise


def connect_writer(path: Path) -> sqlite3.Connection:
    """The one writing connection: WAL, synchronous=FULL, transactions by hand. Makes a new ledger where there is no file."""
    with mapped(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=128)
        try:
            _refuse_foreign(db, path)  # before a setting is written into a file that is not ours
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LedgerError(f"{path}: no write-ahead log can be kept there ({mode}); give a local folder with --run-dir.")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = 1")  # macOS: fsync alone leaves data in the drive's cache
            db.execute("PRAGMA wal_autocheckpoint = 4000")
            db.execute("PRAGMA cache_size = -8000")
            _bring_up_to_date(db)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def without_trace() -> Iterator[None]:
    """Readers that are opened within make no file beside a ledger that nobody has open: it is read as it stands.

    For a command that is to change nothing and is soon done: what another process begins to write meanwhile is not seen, and
    may be seen in part.
    """
    token = _leaves_no_trace.set(True)
    try:
        yield
    finally:
        _leaves_no_trace.reset(token)


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read; works while a run writes and after a crash. Raises LedgerError."""
    if not path.is_file():
        raise EmptyLedgerError(f"{path}: there is no ledger.")
    log = path.with_name(path.name + "-wal")
    with mapped(path):
        if _leaves_no_trace.get() and not (log.exists() and log.stat().st_size):
            return _connect_read_only(path, "mode=ro&immutable=1")
        try:
            return _connect_read_only(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # A read-only folder has no room for the log's shared memory: the file is read as it stands, unless what
            # was committed last is still in the log.
            if log.exists() and log.stat().st_size:
                raise LedgerError(
                    f"{path}: its write-ahead log cannot be read there ({error}); copy the whole run folder to a place that "
                    "can be written, and read it there."
                ) from error
            return _connect_read_only(path, "mode=ro&immutable=1")


def _connect_read_only(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False)
    try:
        _refuse_foreign(db, path)
        if not (known := _version(db)):
            raise EmptyLedgerError(f"{path}: there is nothing in the ledger yet.")
        for number, text in migrations():
            if number > known:  # a ledger that only an older release has written: what it lacks is there, and empty
                db.executescript(text.replace("CREATE TABLE", "CREATE TEMP TABLE"))
        db.execute("PRAGMA query_only = 1")
    except BaseException:
        db.close()
        raise
    return db


def _bring_up_to_date(db: sqlite3.Connection) -> None:
    """A new file gets every migration, an older one those that it lacks; each in one transaction, so that a crash undoes it."""
    known = _version(db)
    for number, text in migrations():
        if number > known:
            db.executescript(
                f"BEGIN IMMEDIATE; {text} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT;"
            )


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    version = _version(db)
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    if (owner or version or db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()) and owner != APPLICATION_ID:
        raise LedgerError(f"{path} is no ledger but another program's SQLite file.")
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"{path} was written by a newer release (schema {version}, this one knows {SCHEMA_VERSION}); upgrade headrace."
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
