"""The one writer of a run's ledger: group commits, leases, recovery after a crash."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.errors import DiskError
from headrace.ledger.connection import Hook, connect_writer, mapped
from headrace.ledger.following import Following
from headrace.ledger.notes import to_bits
from headrace.ledger.rows import (
    attempt_row,
    bound_row,
    item_row,
    made_storable,
    sample_row,
    score_row,
    settled_row,
    slice_row,
    unit_row,
    unsent_row,
)
from headrace.ledger.statements import PROCESSES, SQL, WIDE, WIDTHS
from headrace.protocols import Batch, Reducer
from headrace.values import FIRST_MADE, Attempt, Kind, Note, Origin, Outcome, Reduction, Sent, Slice, State, Unit, UnitKind

_LARGE = 4_000_000  # characters of one batch's replies


def _unknown(_unit: int) -> None:
    """Nothing is known of what a unit may have taken."""


class Revived(Struct, frozen=True):
    """A rejected item that has become requests after all."""

    seq: int
    notes: int
    units: list[Unit]
    slices: list[Slice]


class SqliteLedger:
    """Satisfies `headrace.protocols.Ledger`. Used by one thread at a time.

    `hook` is called with a statement's name before it runs: the crash point of simulated lives. `reduce_with` sets who joins the
    answers of divided items.
    """

    def __init__(self, path: Path, hook: Hook | None = None) -> None:
        self.path = path
        self._hook = hook
        self._db = connect_writer(path)
        self._inode = path.stat().st_ino
        self._next_attempt, self._next_unit = self._one("next_attempt"), self._one("next_unit")
        self._next_made = self._one("next_made")
        self._prepared = (self._next_attempt, self._next_unit, self._next_made)  # what follows from an open transaction
        self._following: Following | None = None

    def reduce_with(self, reducer: Reducer) -> None:
        """From now on have the answers of divided items joined by this one's requests."""
        self._following = Following(reducer, self._query)

    def close(self) -> None:
        """Checkpoints and closes. Harmless when called twice."""
        with mapped(self.path):
            self._db.close()

    # -- writing

    def commit(self, batch: Batch) -> None:
        """One transaction. After an error none of it is durable, and the same batch may be tried again.

        Raises DiskError, LedgerError; LookupError where a lease or an outcome names a unit that was never added.
        """
        self.prepare(batch)
        self.finish()

    def prepare(self, batch: Batch) -> None:
        self._insist_on_file()
        try:
            with mapped(self.path):
                self._prepared = self._write(batch)
        except BaseException:
            self._roll_back()
            raise

    def finish(self) -> None:
        try:
            with mapped(self.path):
                self._run("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self._next_attempt, self._next_unit, self._next_made = self._prepared

    def _insist_on_file(self) -> None:
        """SQLite writes on into a file that was removed: whatever is paid for from then on would be gone with the process."""
        try:
            found = self.path.stat().st_ino
        except OSError:
            found = None
        if found != self._inode:
            raise DiskError(f"{self.path}: the ledger was removed or replaced while the run works; nothing more can be kept.")

    def _write(self, batch: Batch) -> tuple[int, int, int]:
        """Returns the numbers of the next attempt, unit and unit that is made, as they are once this is committed."""
        next_unit = max(self._next_unit, batch.units[-1].seq + 1) if batch.units else self._next_unit
        self._run("BEGIN IMMEDIATE")
        if batch.items:
            self._put_rows("insert_item", [item_row(item) for item in batch.items])
        if batch.pieces:
            self._put_rows("insert_piece", batch.pieces)
        if batch.units:
            self._put_rows("insert_unit", [unit_row(unit, unit.config) for unit in batch.units])
        if batch.slices:
            self._write_slices(batch)
        if batch.leases:
            leases = sorted(batch.leases)
            for last in {leases[-1], leases[bisect_left(leases, FIRST_MADE) - 1]}:
                self._refuse_unknown(last, next_unit)
            self._put_rows("lease_range", ranges(leases))
        next_attempt, next_made = self._next_attempt, self._next_made
        if batch.outcomes:
            next_attempt = self._write_outcomes(batch.outcomes, next_attempt, next_unit)
        if self._following is not None:
            next_attempt, next_made = self._follow(self._following, batch, next_attempt)
        if batch.released:
            self._many("release", ((seq,) for seq in batch.released))
        if batch.reopened:
            self._many("reopen", ((seq,) for seq in batch.reopened))
        if batch.samples:
            self._put_rows("insert_sample", [sample_row(sample) for sample in batch.samples])
            loads = [(one.at, one.endpoint, one.waiting, one.kv_used) for one in batch.samples if one.says_load]
            self._put_rows("insert_load", loads)
        if batch.meta:
            self._put_rows("put_meta", [(key, canon.encode(value).decode()) for key, value in batch.meta.items()])
        return next_attempt, next_unit, next_made

    def _write_slices(self, batch: Batch) -> None:
        self._put_rows("insert_slice", [slice_row(part) for part in batch.slices])
        divided = {part.item for part in batch.slices}
        self._put_rows("insert_member", [(unit, item) for item, _, unit in batch.pieces if item in divided])

    def _follow(self, following: Following, batch: Batch, next_attempt: int) -> tuple[int, int]:
        """Make what joins the answers that are complete now; where those answers are there already, also what joins them."""
        batch.made, batch.answered = [], []  # an earlier try at this batch may have filled them
        next_made = self._next_made
        items = following.candidates(batch)
        for item in items:
            level, reductions = following.next_level(item)
            if not reductions:
                continue
            numbers, units = following.units(item, reductions, next_made)
            next_made += len(units)
            self._write_reductions((item, level), reductions, numbers, units)
            outcomes = following.settled(units, reductions)
            if outcomes:
                next_attempt = self._write_outcomes(outcomes, next_attempt, self._next_unit, next_made)
                items += following.items_of(outcomes)
            if len(units) < len(reductions):
                items.append(item)  # what it shares with another may have its answer already
            batch.made += units
            batch.answered += outcomes
        return next_attempt, next_made

    def _write_reductions(
        self, level: tuple[int, int], reductions: Sequence[Reduction], numbers: Sequence[int], units: Sequence[Unit]
    ) -> None:
        """Write an item's level: each reduction under its unit's number, and the units that are new."""
        item, _ = level
        self._put_rows("insert_unit", [unit_row(unit, unit.config) for unit in units])
        self._put_rows("insert_made", [(bytearray(unit.hash), unit.seq) for unit in units])
        self._put_rows("insert_member", [(number, item) for number in numbers])
        rows = [
            (*level, made.n, made.first, made.stop, 1 if made.is_last else 0, number)
            for made, number in zip(reductions, numbers, strict=True)
        ]
        self._put_rows("insert_reduction", rows)

    def _write_outcomes(self, outcomes: Sequence[Outcome], number: int, next_unit: int, next_made: int | None = None) -> int:
        """`number` is the first attempt's; returns that of the next."""
        attempts: list[tuple[Any, ...]] = []
        settled: list[tuple[Any, ...]] = []
        unsent: list[tuple[Any, ...]] = []
        scores: list[tuple[Any, ...]] = []
        bounds: list[tuple[Any, ...]] = []
        timings: list[tuple[Any, ...]] = []
        volume = 0
        for o in outcomes:
            if o.unit >= next_unit:
                self._refuse_unknown(o.unit, next_unit, next_made)
            attempt = o.attempt
            if attempt is None:
                unsent.append(unsent_row(o))
                continue
            reply = attempt.reply
            if reply is not None:
                if reply.content is not None:
                    volume += len(reply.content)
                if reply.likeliest is not None:
                    scores.append(score_row(number, o, reply.likeliest))
                if reply.timing is not None:
                    timings.append((number, *reply.timing))
            if attempt.most is not None:
                bounds.append(bound_row(number, attempt.most))
            attempts.append(attempt_row(number, o, attempt))
            settled.append(settled_row(number, o, attempt))
            number += 1
        if attempts:
            # SQLite copies what a statement is given: large replies go in one by one.
            self._put_rows("insert_attempt", attempts, widest=1 if volume > _LARGE else WIDTHS[0])
            self._put_rows("settle", settled)
        if scores:
            self._put_rows("insert_score", scores)
        if bounds:
            self._put_rows("insert_bound", bounds)
        if timings:
            self._put_rows("insert_timing", timings)
        if unsent:
            self._many("settle_unsent", unsent)
        return number

    def _refuse_unknown(self, unit: int, next_unit: int, next_made: int | None = None) -> None:
        end = next_unit if unit < FIRST_MADE else self._next_made if next_made is None else next_made
        if unit >= end:
            raise LookupError(f"unit {unit} is not in the ledger, which ends before {end}")

    # -- facts about the run

    def put_meta(self, **facts: Any) -> None:
        batch = Batch()
        batch.meta = facts
        self.commit(batch)

    def get_meta(self, key: str, default: Any = None) -> Any:
        with mapped(self.path):
            row = self._query("get_meta", (key,)).fetchone()
        return default if row is None else canon.decode(row[0])

    def put_grades(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Replace what the eval set came to: rows of the table `grade`."""
        with mapped(self.path):
            try:
                self._run("BEGIN IMMEDIATE")
                self._query("forget_grades", ())
                self._put_rows("insert_grade", rows)
                self._run("COMMIT")
            except BaseException:
                self._roll_back()
                raise

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

    def askings(self) -> dict[int, tuple[str, list[str | None]]]:
        """What is asked under each configuration: the hash of its content keys, and the names that endpoints give its model."""
        with mapped(self.path):
            known = self._query("configs", ()).fetchall()
        endpoints = {int(row[0]): canon.decode(row[4]).get("endpoint") or [] for row in known}
        return {int(row[0]): (row[2], [one.get("model") for one in endpoints[int(row[0])]]) for row in known}

    def add_endpoint(self, identity: str, name: str) -> int:
        with mapped(self.path):
            self._query("put_endpoint", (_printable(identity), _printable(name)))
            return int(self._query("get_endpoint", (_printable(identity),)).fetchone()[0])

    def requeue(self, config: int, units: Sequence[tuple[int, bytes]], items: Sequence[Revived]) -> None:
        """Settled units go back to pending under a new hash and configuration; rejected items get units (and notes)."""
        revived = Batch()
        for item in items:
            revived.units += item.units
            revived.pieces += [(unit.item, unit.n, unit.seq) for unit in item.units]
            revived.slices += item.slices
        try:
            with mapped(self.path):
                self._run("BEGIN IMMEDIATE")
                self._many("requeue", ((bytearray(value), config, seq) for seq, value in units))
                self._many("requeue_item", ((item.notes, item.seq) for item in items))
                self._put_rows("insert_piece", revived.pieces)
                self._put_rows("insert_unit", [unit_row(unit, config) for unit in revived.units])
                if revived.slices:
                    self._write_slices(revived)
                self._run("COMMIT")
                self._next_unit = max([self._next_unit, *(unit.seq + 1 for unit in revived.units)])
        except BaseException:
            self._roll_back()
            raise

    def answering(self, config: int) -> set[int]:
        """The numbers of those who have answered under this configuration, as far as the latest sends tell."""
        with mapped(self.path):
            return {int(number) for (number,) in self._query("answering", (config,)).fetchall()}

    def mark_capped(self) -> None:
        """Note on each answer to a prompt that was cut where its endpoint is known to cut that it was, also on early ones."""
        if not self._one("suspects"):
            return
        try:
            with mapped(self.path):
                self._run("BEGIN IMMEDIATE")
                self._many("mark_capped", [(to_bits([Note.INPUT_TRUNCATION_SUSPECTED]),) * 2])
                self._run("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    # -- where it stands

    def begin_process(self) -> None:
        """Note that the attempts from here on are another process's: between two nobody was at work."""
        noted = self.get_meta(PROCESSES, [])
        if noted[-1:] != [self._next_attempt]:
            self.put_meta(**{PROCESSES: [*noted, self._next_attempt]})

    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next item and the next unit."""
        return self._one("next_item"), self._one("next_unit")

    def unsettled(self) -> int:
        """Units of the job itself that are not settled."""
        return self._one("unsettled")

    def unsettled_of(self, kind: UnitKind) -> int:
        """Units of one of the run's own kinds that are not settled."""
        return int(self._query("unsettled_of_kind", (int(kind),)).fetchone()[0])

    # -- recovery

    def recover(
        self, endpoint: int, now: float, *, retry_ambiguous: bool, most: Callable[[int], tuple[int, int] | None] = _unknown
    ) -> int:
        """Close the leases that a dead process left open; returns how many there were.

        Each is kept as a lost attempt (possibly sent, its cost unknown; `most` says of a unit what it may have taken). The
        unit goes back to pending, or fails as `ambiguous` where what may have been billed is not sent again.
        """
        with mapped(self.path):
            open_leases = self._query("leased", ()).fetchall()
        if not open_leases:
            return 0
        batch = Batch()
        batch.outcomes = [
            left_open(seq, (ask, spent, age), (config, endpoint), now, retry_ambiguous=retry_ambiguous, most=most(seq))
            for seq, ask, config, spent, age in open_leases
        ]
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
        for row in rows:
            self._put(SQL[name], row)

    def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]], widest: int = WIDTHS[0]) -> None:
        """Write rows, as many a statement as there are statements for."""
        if self._hook is not None:
            self._hook(name)
        at = 0
        for width, statement in WIDE[name]:
            while width <= widest and at + width <= len(rows):
                self._put(statement, list(chain.from_iterable(rows[at : at + width])))
                at += width

    def _put(self, statement: str, values: Sequence[Any]) -> None:
        try:
            self._db.execute(statement, values)
        except (UnicodeEncodeError, OverflowError):  # raised in binding: nothing of the statement has run
            self._db.execute(statement, made_storable(values))

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


def left_open(
    unit: int,
    progress: tuple[int, int, float],
    asked: tuple[int, int],
    now: float,
    *,
    retry_ambiguous: bool,
    most: tuple[int, int] | None = None,
) -> Outcome:
    """What becomes of a leased unit whose process died. `progress`: ask, spent, age; `asked`: configuration, endpoint; `most`:
    the tokens that it may have taken.
    """
    ask, spent, age_s = progress
    config, endpoint = asked
    lost = Attempt(
        unit=unit, ask=ask, started_at=now, seconds=0.0, config=config, endpoint=endpoint, kind=Kind.AMBIGUOUS,
        sent=Sent.MAYBE, message="the process ended before a reply was stored", origin=Origin.LOST, most=most,
    )  # fmt: skip
    state = State.PENDING if retry_ambiguous else State.FAILED
    error = None if retry_ambiguous else f"{Kind.AMBIGUOUS}: the process died while this request may have been sent"
    return Outcome(unit=unit, state=state, attempt=lost, error=error, ask=ask, spent=spent, age_s=age_s)


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


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
