"""SQLite: the rows of one query, read only, each column a field."""

from __future__ import annotations

import math
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from headrace import canon
from headrace.errors import HeadraceError, InputBrokenError, InputError, SpecError
from headrace.sources import digests
from headrace.sources.digests import RecordDigests
from headrace.sources.jsonl import KEPT_BYTES, too_large
from headrace.sources.names import Names
from headrace.sources.paths import shown, status_of
from headrace.values import Record

KIND = "sqlite"
_OPERATIONS = 1_000_000  # of SQLite's machine: some hundredths of a second
_PATIENCE_S = 10.0  # for the lock of whoever writes
_BEGINNING = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*+(\w*)", re.DOTALL)
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_LISTED = 20
_ONE = "allowed is one SELECT, or WITH … SELECT"


class Query:
    """A query at work on a database that is opened to be read only. Its rows come once, in the database's order."""

    def __init__(self, path: Path, text: str) -> None:
        """Raises InputError where the database cannot be read, SpecError where the query cannot be asked."""
        self._where = f"input {shown(path)}"
        status_of(path)  # the library would say less, and wait for a pipe
        self._connection = _connected(path, self._where)
        # A query may compute for hours before it gives a row: now and then the interpreter looks whether a signal has come.
        self._connection.set_progress_handler(lambda: 0, _OPERATIONS)
        self._rows: sqlite3.Cursor | None = None
        try:
            if not text.strip():
                raise self._refusal("is missing: a sqlite:/// input needs one SELECT", self._tables())
            self._rows = self._asked(text)
            self.columns = self._named([column[0] for column in self._rows.description])
        except HeadraceError:
            self.close()
            raise

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Raises InputBrokenError."""
        given = 0
        try:
            for row in self._rows or ():
                given += 1
                yield row
        except sqlite3.Error as error:
            raise InputBrokenError(f"{self._where}: breaks off after {given:,} rows: {_said(error)}") from error

    def interrupt(self) -> None:
        """Let the query that is at work break off; called from another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()  # a query that is at work keeps its lock beyond its connection
        self._connection.close()

    def _asked(self, text: str) -> sqlite3.Cursor:
        beginning = _BEGINNING.match(text)
        assert beginning is not None
        if beginning[1].upper() not in {"SELECT", "WITH", "VALUES"}:
            raise self._refusal(f"begins with {beginning[1][:20]!a}", _ONE)
        self._connection.set_authorizer(_may_read)
        try:
            return self._connection.execute(text)
        except sqlite3.ProgrammingError as error:
            if "binding" in str(error):
                raise self._refusal("has parameters (? or :name)", "write their values into it") from error
            raise self._refusal(_said(error), _ONE) from error
        except sqlite3.Warning as error:  # of Python 3.11, more than one statement
            raise self._refusal(_said(error), _ONE) from error
        except sqlite3.Error as error:
            code = _code(error)
            if code == sqlite3.SQLITE_AUTH:
                raise self._refusal("would do more than read", _ONE) from error
            if code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE}:
                more = self._tables() if str(error).startswith("no such table") else "asked of " + self._where
                raise self._refusal(_said(error), more) from error
            raise InputError(f"{self._where}: {_explained(error)}") from error
        except ValueError as error:
            raise self._refusal("holds what is no text", _ONE) from error

    def _named(self, columns: list[str]) -> list[str]:
        twice = [name for name, count in Counter(columns).items() if count > 1]
        if twice:
            raise self._refusal(f"gives two columns named {twice[0][:60]!a}", "name one of them otherwise: SELECT a.x AS other")
        if "" in columns:
            raise self._refusal(f"gives column {columns.index('') + 1} no name", "name it: SELECT … AS name")
        return columns

    def _tables(self) -> str:
        self._connection.set_authorizer(None)
        try:
            found = self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
            ).fetchall()
        except sqlite3.Error as error:
            raise InputError(f"{self._where}: {_explained(error)}") from error
        names = [ascii(name[:60])[1:-1] for (name,) in found[:_LISTED]]
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        return f"tables there: {', '.join(names) or 'none'}{more}"

    def _refusal(self, what: str, more: str) -> SpecError:
        return SpecError(f"input.query: {what}; {more}", key="input.query", allowed="one SELECT")


class SqliteFingerprint:
    """What is known of a database file and of the rows that its query gave so far."""

    def __init__(self, path: Path, query: str) -> None:
        """Raises InputError."""
        self.path = path
        self.query = query
        self.digests = RecordDigests()
        self._state = _state(path)
        self._whole = False

    def restore(self, stored: dict[str, Any]) -> None:
        """Nothing of it is needed: the rows that are passed over are read again."""

    def finish(self) -> None:
        """The query has given its last row."""
        self._whole = True

    def is_changed(self) -> bool:
        """A query reads one state of the database, whatever is written meanwhile."""
        return False

    def as_json(self) -> dict[str, Any]:
        """JSON-ready: path, kind, state (size and time of file and log), query, whole, records (read so far), chunks (hex)."""
        return {
            "path": str(self.path), "kind": KIND, "state": self._state, "query": self.query, "whole": self._whole,
            "records": self.digests.count, "chunks": self.digests.chunks(),
        }  # fmt: skip


def matches(stored: dict[str, Any], path: Path) -> bool:
    """Whether the query still gives the rows that it gave: an untouched database is trusted, else it is asked again.

    So what is written to other tables changes nothing.
    """
    try:
        if _state(path) == stored["state"]:
            return True
        query = Query(path, stored["query"])
    except HeadraceError:
        return False
    try:
        rows = query.rows()
        raws = ((_made(query.columns, row)[0],) for row in rows)
        return digests.hold(stored["chunks"], stored["records"], raws) and not (stored["whole"] and next(rows, None))
    except InputBrokenError:
        return False
    finally:
        query.close()


class SqliteTable:
    """Reads the rows of a query as records. Numbers count rows.

    integer, real, text and null become what JSON has for them, 64-bit integers exact. A row with a blob, an infinity or
    text that is not UTF-8 is unreadable; its reason names the column. One row is held whole, however large it is.
    """

    def __init__(self, fingerprint: SqliteFingerprint, names: Names, *, max_record: int) -> None:
        """Raises InputError, SpecError."""
        self.done = False
        self._digests = fingerprint.digests
        self._max_record = max_record
        self._query = Query(fingerprint.path, fingerprint.query)
        self._rows = self._query.rows()
        names.add(self._query.columns)

    def interrupt(self) -> None:
        self._query.interrupt()

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them. Raises InputBrokenError when the records before are given."""
        records: list[Record] = []
        columns, longest, known = self._query.columns, self._max_record, self._digests
        for row in self._rows:
            raw, fields, reason = _made(columns, row)
            known.add(raw)
            size -= len(raw)
            if fields is not None and len(raw) > longest:
                fields, reason = None, too_large(len(raw), longest)
            records.append(Record(known.count, raw if fields is not None else raw[:KEPT_BYTES], fields, reason))
            if len(records) >= limit or size <= 0:
                return records
        self.done = True
        return records

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        """How many rows were read, and what they were, so that others are known when it goes on."""
        return [self._digests.count, self._digests.check()]

    def skip(self, mark: list[int]) -> None:
        """Go on after so many rows; called before the first read. Raises InputError where they are not the same any more."""
        count, check = mark
        self._digests.rewind(0)
        while self._digests.count < count and (row := next(self._rows, None)) is not None:
            self._digests.add(_made(self._query.columns, row)[0])
        if self._digests.count != count or self._digests.check() != check:
            raise InputError(
                "input.query does not give the rows that it gave when this run began, or not in the same order; "
                "ORDER BY a column without equal values keeps it, --new begins anew"
            )

    def close(self) -> None:
        self._query.close()


def _made(columns: list[str], row: tuple[Any, ...]) -> tuple[bytes, dict[str, Any] | None, str | None]:
    """A row as JSON, its fields, and why it has none."""
    fields = dict(zip(columns, row, strict=True))
    try:
        raw = orjson.dumps(fields)
        if b"null" not in raw or not any(type(value) is float and not math.isfinite(value) for value in row):
            return raw, fields, None
    except orjson.JSONEncodeError:
        pass
    reasons = {name: reason for name, value in fields.items() if (reason := _unmapped(value)) is not None}
    raw = canon.encode({name: None if name in reasons else value for name, value in fields.items()})
    if not reasons:
        return raw, fields, None
    name, reason = next(iter(reasons.items()))
    return raw, None, f"column {name[:60]!r} {reason}"


def _unmapped(value: Any) -> str | None:
    """Why a value has no JSON form, if so."""
    if type(value) is bytes:
        return "holds a blob; make text of it in the query, by CAST(… AS TEXT) or hex(…)"
    if type(value) is float and not math.isfinite(value):
        return "is infinite, which has no JSON form"
    if type(value) is str and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "holds bytes that are not UTF-8"
    return None


def _connected(path: Path, where: str) -> sqlite3.Connection:
    """A connection that writes nothing and makes no file. Whose thread it is does not matter: it has one user at a time."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(path.absolute()))}?mode=ro",
            uri=True,
            timeout=_PATIENCE_S,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise InputError(f"{where}: {_explained(error)}") from error
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise InputError(f"{where}: {_explained(error)}") from error
    return connection


def _may_read(action: int, _one: str | None, two: str | None, *_more: str | None) -> int:
    allowed = action in _READING and not (action == sqlite3.SQLITE_FUNCTION and two == "load_extension")
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _state(path: Path) -> list[list[int] | None]:
    """Size and time of a database and of its write-ahead log, None for one that is not there or empty."""
    status = status_of(path)
    log = path.with_name(path.name + "-wal")
    try:
        of_log = log.stat()
    except OSError:
        of_log = None
    return [
        [status.st_size, status.st_mtime_ns],
        [of_log.st_size, of_log.st_mtime_ns] if of_log is not None and of_log.st_size else None,
    ]


def _explained(error: sqlite3.Error) -> str:
    code = _code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return "not a SQLite database, or an encrypted one"
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return f"is locked: another program has been writing to it for {_PATIENCE_S:.0f} s"
    if code == sqlite3.SQLITE_CANTOPEN:
        return "cannot be opened to be read (a database with a write-ahead log needs a folder that can be written)"
    return f"cannot be read: {_said(error)}"


def _code(error: sqlite3.Error) -> int:
    """The primary result code; misuse by default."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())[:200].rstrip(".")
    return text if text.isprintable() else ascii(text)
