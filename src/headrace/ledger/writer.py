"""The one writer of a run's ledger: group commits, leases, recovery after a crash."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace import canon
from headrace.ledger.connection import Hook, connect_writer, mapped
from headrace.ledger.notes import to_bits
from headrace.ledger.statements import SQL
from headrace.protocols import Batch
from headrace.values import Attempt, Item, Kind, Origin, Outcome, Sent, State, Unit


class SqliteLedger:
    """Satisfies `headrace.protocols.Ledger`. Used by one thread at a time.

    `hook` is called with a statement's name before it runs: the crash point of simulated lives.
    """

    def __init__(self, path: Path, hook: Hook | None = None) -> None:
        self.path = path
        self._hook = hook
        self._db = connect_writer(path)
        self._next_attempt: int = self._one("next_attempt")

    def close(self) -> None:
        """Checkpoints and closes. Harmless when called twice."""
        with mapped(self.path):
            self._db.close()

    # -- writing

    def commit(self, batch: Batch) -> None:
        """One transaction. After an error none of it is durable, and the same batch may be tried again."""
        try:
            with mapped(self.path):
                self._next_attempt = self._write(batch)
        except BaseException:
            self._roll_back()
            raise

    def _write(self, batch: Batch) -> int:
        self._run("BEGIN IMMEDIATE")
        if batch.items:
            self._many("insert_item", map(_item_row, batch.items))
        if batch.pieces:
            self._many("insert_piece", batch.pieces)
        if batch.units:
            self._many("insert_unit", ((u.seq, u.hash, u.kind, u.config, u.item, u.n) for u in batch.units))
        if batch.leases:
            self._many("lease_range", ranges(batch.leases))
        next_attempt = self._write_outcomes(batch.outcomes) if batch.outcomes else self._next_attempt
        if batch.released:
            self._many("release", ((seq,) for seq in batch.released))
        if batch.reopened:
            self._many("reopen", ((seq,) for seq in batch.reopened))
        if batch.samples:
            self._many(
                "insert_sample",
                (
                    (s.at, s.endpoint, s.window, s.in_flight, s.settled, s.retries, s.paused, s.lag_s, s.bound_by)
                    for s in batch.samples
                ),
            )
        if batch.meta:
            self._many("put_meta", ((key, orjson.dumps(value).decode()) for key, value in batch.meta.items()))
        self._run("COMMIT")
        return next_attempt

    def _write_outcomes(self, outcomes: Iterable[Outcome]) -> int:
        attempts: list[tuple[Any, ...]] = []
        settled: list[tuple[Any, ...]] = []
        unsent: list[tuple[Any, ...]] = []
        number = self._next_attempt
        for o in outcomes:
            attempt = o.attempt
            if attempt is None:
                unsent.append((o.state, o.ask, o.spent, o.age_s, _text(o.error), o.unit))
                continue
            attempts.append(_attempt_row(number, o, attempt))
            settled.append((o.state, attempt.config, o.ask, o.spent, o.age_s, number, _text(o.error), o.unit))
            number += 1
        if attempts:
            self._many("insert_attempt", attempts)
            self._many("settle", settled)
        if unsent:
            self._many("settle_unsent", unsent)
        return number

    # -- facts about the run

    def put_meta(self, **facts: Any) -> None:
        batch = Batch()
        batch.meta = facts
        self.commit(batch)

    def get_meta(self, key: str, default: Any = None) -> Any:
        with mapped(self.path):
            row = self._query("get_meta", (key,)).fetchone()
        return default if row is None else orjson.loads(row[0])

    def add_config(self, made_at: float, content: dict[str, Any], operating: dict[str, Any]) -> int:
        """Store a configuration, or find the equal one that is the newest. Returns its number."""
        content_hash = canon.digest(content)
        texts = (canon.canonical(content).decode(), canon.canonical(operating).decode())
        with mapped(self.path):
            known = self._query("configs", ()).fetchall()
            if known and (known[-1][3], known[-1][4]) == texts:
                return int(known[-1][0])
            cursor = self._query("insert_config", (made_at, content_hash, *texts))
            return int(cursor.lastrowid or 0)

    def add_endpoint(self, identity: str, name: str) -> int:
        with mapped(self.path):
            self._query("put_endpoint", (identity, name))
            return int(self._query("get_endpoint", (identity,)).fetchone()[0])

    def requeue(self, config: int, units: Sequence[tuple[int, bytes]], items: Sequence[tuple[Unit, int]]) -> None:
        """Settled units go back to pending under a new hash and configuration; rejected items get a unit (and notes)."""
        try:
            with mapped(self.path):
                self._run("BEGIN IMMEDIATE")
                self._many("requeue", ((value, config, seq) for seq, value in units))
                self._many("requeue_item", ((notes, unit.item) for unit, notes in items))
                self._many("insert_piece", ((unit.item, unit.n, unit.seq) for unit, _ in items))
                self._many("insert_unit", ((u.seq, u.hash, u.kind, config, u.item, u.n) for u, _ in items))
                self._run("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    # -- where it stands

    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next item and the next unit."""
        return self._one("next_item"), self._one("next_unit")

    def unsettled(self) -> int:
        return self._one("unsettled")

    # -- recovery

    def recover(self, endpoint: int, now: float, *, retry_ambiguous: bool) -> int:
        """Close the leases that a dead process left open; returns how many there were.

        Each is kept as a lost attempt (possibly sent, its cost unknown). The unit goes back to pending, or fails as
        `ambiguous` where what may have been billed is not sent again.
        """
        with mapped(self.path):
            open_leases = self._query("leased", ()).fetchall()
        if not open_leases:
            return 0
        batch = Batch()
        state = State.PENDING if retry_ambiguous else State.FAILED
        error = None if retry_ambiguous else f"{Kind.AMBIGUOUS}: the process died while this request may have been sent"
        for seq, ask, config, spent, age in open_leases:
            lost = Attempt(
                unit=seq, ask=ask, started_at=now, seconds=0.0, config=config, endpoint=endpoint, kind=Kind.AMBIGUOUS,
                sent=Sent.MAYBE, message="the process ended before a reply was stored", origin=Origin.LOST,
            )  # fmt: skip
            batch.outcomes.append(Outcome(unit=seq, state=state, attempt=lost, error=error, ask=ask, spent=spent, age_s=age))
        self.commit(batch)
        return len(open_leases)

    # -- statements

    def _one(self, name: str) -> int:
        with mapped(self.path):
            return int(self._query(name, ()).fetchone()[0])

    def _query(self, name: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        if self._hook is not None:
            self._hook(name)
        return self._db.execute(SQL[name], values)

    def _many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        if self._hook is not None:
            self._hook(name)
        self._db.executemany(SQL[name], rows)

    def _run(self, statement: str) -> None:
        if self._hook is not None:
            self._hook(statement.split(maxsplit=1)[0].lower())
        self._db.execute(statement)

    def _roll_back(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # SQLite has rolled back by itself, or will when the file is next opened


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of numbers that follow each other: leases mostly come so, and one statement serves a run."""
    found: list[tuple[int, int]] = []
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            found.append((first, last))
        first = last = number
    if first is not None and last is not None:
        found.append((first, last))
    return found


def _item_row(item: Item) -> tuple[Any, ...]:
    name = None if item.id is None or item.id == item.number else canon.encode(item.id).decode()
    return (item.seq, item.file, item.offset, item.length, item.number, item.readable, item.notes, name, _text(item.error))


def _attempt_row(number: int, outcome: Outcome, a: Attempt) -> tuple[Any, ...]:
    usage, reply, answer = a.usage, a.reply, outcome.answer
    return (
        number, a.unit, a.ask, a.config, a.endpoint, a.started_at, a.seconds, a.origin,
        None if a.kind is None else a.kind.value, a.sent.value, a.status,
        *((None, None, None, None) if usage is None else (usage.prompt, usage.completion, usage.cached, usage.reasoning)),
        0 if answer is None else to_bits(answer.notes),
        *((None, None) if reply is None else (_text(reply.finish), _text(reply.model))),
        _text(a.message), None if answer is None else _text(answer.value),
        *((None, None, None) if reply is None else (_text(reply.content), _text(reply.reasoning), _text(reply.refusal))),
    )  # fmt: skip


def _text(value: str | None) -> str | bytes | None:
    """Text as SQLite can keep it: one with a lone surrogate goes in as bytes (see `headrace.ledger.reader.as_text`)."""
    if value is None or value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value
