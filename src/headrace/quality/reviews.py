"""What reviewers have said: a SQLite file of its own in the run's folder, durable before the page moves on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import DiskError, LedgerError

FILE = "review.db"
VERDICTS = ("accept", "reject", "correct", "skip")
_VERSION = 1
_SCHEMA = """
CREATE TABLE review (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    reviewer TEXT NOT NULL,
    item INTEGER NOT NULL,
    stratum TEXT NOT NULL,
    verdict TEXT NOT NULL,
    correction TEXT,
    note TEXT,
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX review_by_item ON review (item);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE claim (item INTEGER PRIMARY KEY, reviewer TEXT NOT NULL);
"""


class Review(NamedTuple):
    """What one reviewer says of one item, by its number. `correction` is JSON; of a skipped item nothing is said."""

    reviewer: str
    item: int
    verdict: str
    stratum: str = ""
    correction: str | None = None
    note: str | None = None

    @property
    def is_good(self) -> bool | None:
        return None if self.verdict == "skip" else self.verdict == "accept"


class ReviewStore:
    """Opens the file, and makes it with the first verdict where `writable`. Used by one thread. Raises DiskError, LedgerError."""

    def __init__(self, folder: Path, *, writable: bool) -> None:
        self.path = folder / FILE
        self._db: sqlite3.Connection | None = None
        if writable or self.path.exists():
            self._open(writable=writable)

    def _open(self, *, writable: bool) -> None:
        try:
            self._db = db = sqlite3.connect(
                f"{self.path.resolve().as_uri()}?mode={'rwc' if writable else 'ro'}", uri=True, isolation_level=None, timeout=10.0
            )
            if writable:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if not version:
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("COMMIT")
            (version,) = db.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            raise DiskError(f"{self.path}: cannot be opened ({error}).") from error
        if version > _VERSION:
            raise LedgerError(f"{self.path} was written by a newer release; upgrade headrace.")

    def add(self, review: Review, now: float) -> None:
        """One verdict more; durable when this returns. The latest of a reviewer and item counts."""
        self._write(
            "INSERT INTO review (at, reviewer, item, stratum, verdict, correction, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (now, review.reviewer, review.item, review.stratum, review.verdict, review.correction, review.note),
        )

    def undo(self, reviewer: str) -> Review | None:
        """Take a reviewer's latest verdict back; returns it, None where there is none."""
        rows = self._read(
            "SELECT id, reviewer, item, verdict, stratum, correction, note FROM review WHERE reviewer = ? AND NOT undone "
            "ORDER BY id DESC LIMIT 1",
            (reviewer,),
        )
        if not rows:
            return None
        number, *said = rows[0]
        self._write("UPDATE review SET undone = 1 WHERE id = ?", (number,))
        return Review(*said)

    def claim(self, item: int, reviewer: str) -> bool:
        """Whether the item is this reviewer's: nobody else has taken it before."""
        self._write("INSERT OR IGNORE INTO claim (item, reviewer) VALUES (?, ?)", (item, reviewer))
        return bool(self._read("SELECT 1 FROM claim WHERE item = ? AND reviewer = ?", (item, reviewer)))

    def claimed(self) -> dict[int, str]:
        return {int(item): str(reviewer) for item, reviewer in self._read("SELECT item, reviewer FROM claim")}

    def all(self) -> list[Review]:
        """What counts, in the order in which it was said: of each reviewer and item the latest that was not taken back."""
        rows = self._read("SELECT reviewer, item, verdict, stratum, correction, note FROM review WHERE NOT undone ORDER BY id")
        latest = {(row[0], row[1]): Review(*row) for row in rows}
        return list(latest.values())

    def put_sizes(self, sizes: Mapping[str, int]) -> None:
        """How many items each stratum has: what was reviewed speaks for them."""
        self._write("INSERT OR REPLACE INTO meta (key, value) VALUES ('sizes', ?)", (json.dumps(dict(sizes)),))

    def sizes(self) -> dict[str, int]:
        rows = self._read("SELECT value FROM meta WHERE key = 'sizes'")
        return json.loads(str(rows[0][0])) if rows else {}

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _write(self, statement: str, values: Sequence[object]) -> None:
        assert self._db is not None
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise DiskError(f"{self.path}: cannot be written ({error}).") from error

    def _read(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._db is None:
            return []
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(f"{self.path}: cannot be read ({error}).") from error
