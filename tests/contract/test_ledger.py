"""Every ledger against the one contract, and against each other."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import canon
from headrace.ledger.notes import from_bits
from headrace.ledger.reader import LedgerReader, StoredUnit, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch
from headrace.testing.contracts.batches import Hook, attempt, batch, items, pieces, units_of
from headrace.testing.contracts.ledger import Found, LedgerContract, OpenLedger
from headrace.testing.memory_ledger import MemoryLedger
from headrace.values import (
    Answer,
    Attempt,
    Kind,
    Note,
    Origin,
    Outcome,
    Reply,
    Sample,
    Sent,
    State,
    Unit,
    UnitKind,
    Usage,
)


class TestMemoryLedger(LedgerContract):
    """A place is a folder's name; nothing is written there."""

    @pytest.fixture(autouse=True)
    def no_ledgers_yet(self) -> None:
        self.ledgers: dict[Path, MemoryLedger] = {}

    def open(self, place: Path, hook: Hook | None = None) -> OpenLedger:
        ledger = self.ledgers.setdefault(place, MemoryLedger())
        ledger.hook = hook
        return ledger

    def look(self, place: Path) -> Found:
        return look_into_memory(self.ledgers[place])

    def pending(self, place: Path, after: int, limit: int) -> list[Unit]:
        return self.ledgers[place].pending(after, limit)

    def pending_these(self, place: Path, seqs: list[int]) -> list[Unit]:
        return self.ledgers[place].pending_these(seqs)


class TestSqliteLedger(LedgerContract):
    def open(self, place: Path, hook: Hook | None = None) -> OpenLedger:
        return SqliteLedger(place / "ledger.db", hook)

    def look(self, place: Path) -> Found:
        return look_into_file(place / "ledger.db")

    def pending(self, place: Path, after: int, limit: int) -> list[Unit]:
        return self._units_of(place, lambda reader: reader.pending(after, limit))

    def pending_these(self, place: Path, seqs: list[int]) -> list[Unit]:
        return self._units_of(place, lambda reader: reader.pending_these(seqs))

    def _units_of(self, place: Path, ask: Callable[[LedgerReader], list[StoredUnit]]) -> list[Unit]:
        reader = LedgerReader(place / "ledger.db")
        try:
            found = ask(reader)
            assert [stored.place for stored in found] == [(1, stored.unit.item * 10, 9) for stored in found]
            return [stored.unit for stored in found]
        finally:
            reader.close()


def look_into_memory(ledger: MemoryLedger) -> Found:
    return Found(
        ids={seq: item.number if item.id is None else item.id for seq, item in ledger.items.items()},
        rejects={seq: item.error for seq, item in ledger.items.items()},
        pieces=dict(ledger.pieces), units=dict(ledger.units), states=dict(ledger.states), errors=dict(ledger.errors),
        attempts=list(ledger.attempts),
        answers={
            seq: outcome.answer for seq, outcome in ledger.outcomes.items()
            if ledger.states[seq] is State.DONE and outcome.answer is not None
        },
        samples=list(ledger.samples), meta=dict(ledger.meta),
    )  # fmt: skip


def look_into_file(path: Path) -> Found:
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        attempts = {number: sent for number, sent, _ in map(attempt_of, db.execute(ATTEMPTS))}
        answers = {number: answer for number, _, answer in map(attempt_of, db.execute(ATTEMPTS))}
        units = list(db.execute("SELECT seq, hash, item, n, kind, config, ask, spent, age, state, error, attempt FROM unit"))
        found_items = list(db.execute("SELECT seq, number, id, error FROM item"))
        samples = db.execute(
            "SELECT at, endpoint, window, in_flight, settled, retries, bound_by, paused, lag, waiting, kv_used "
            "FROM sample LEFT JOIN load USING (at, endpoint)"
        )
        return Found(
            ids={seq: number if name is None else canon.decode(name) for seq, number, name, _ in found_items},
            rejects={seq: as_text(error) for seq, _, _, error in found_items},
            pieces={(item, n): unit for item, n, unit in db.execute("SELECT item, n, unit FROM piece")},
            units={
                u[0]: Unit(seq=u[0], hash=u[1], item=u[2], n=u[3], kind=UnitKind(u[4]), config=u[5], ask=u[6], spent=u[7], age_s=u[8])
                for u in units
            },
            states={u[0]: State(u[9]) for u in units},
            errors={u[0]: as_text(u[10]) or "" for u in units if u[10] is not None},
            attempts=[attempts[number] for number in sorted(attempts)],
            answers={u[0]: answers[u[11]] for u in units if u[9] == State.DONE},
            samples=[Sample(*row) for row in samples],
            meta={as_text(key) or "": canon.decode(value) for key, value in db.execute("SELECT key, value FROM meta")},
        )  # fmt: skip
    finally:
        db.close()


ATTEMPTS = """
    SELECT id, unit, ask, started_at, seconds, config, endpoint, kind, sent, message, status, origin, notes, answer,
        content, finish, reasoning, refusal, model, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens
    FROM attempt ORDER BY id"""


def attempt_of(row: tuple[Any, ...]) -> tuple[int, Attempt, Answer]:
    number, unit, ask, started_at, seconds, config, endpoint, kind, sent, message, status, origin, notes, value = row[:14]
    content, finish, reasoning, refusal, model = map(as_text, row[14:19])
    reply = None
    if any(text is not None for text in (content, finish, reasoning, refusal, model)):
        reply = Reply(content=content, finish=finish, reasoning=reasoning, refusal=refusal, model=model)
    usage = None if row[19:] == (None,) * 4 else Usage(*row[19:])
    stored = Attempt(
        unit=unit, ask=ask, started_at=started_at, seconds=seconds, config=config, endpoint=endpoint,
        kind=None if kind is None else Kind(kind), sent=Sent(sent), message=as_text(message), status=status, reply=reply,
        usage=usage, origin=Origin(origin),
    )  # fmt: skip
    return number, stored, Answer(as_text(value), tuple(map(Note, from_bits(notes))))


# -- the two say the same

texts = st.one_of(st.none(), st.text(max_size=5))
counts = st.one_of(st.none(), st.integers(0, 2**53))
kinds = st.one_of(st.none(), st.sampled_from(Kind))


@st.composite
def outcomes(draw: st.DrawFn, unit: int) -> Outcome:
    state = draw(st.sampled_from(State))
    sent = None
    if draw(st.booleans()):
        reply = Reply(draw(texts), draw(texts), draw(texts), draw(texts), None, draw(texts))
        usage = Usage(draw(counts), draw(counts), draw(counts), draw(counts))
        sent = attempt(
            unit, config=draw(st.integers(1, 3)), kind=draw(kinds), sent=draw(st.sampled_from(Sent)), message=draw(texts),
            status=draw(st.one_of(st.none(), st.integers(100, 599))), origin=draw(st.sampled_from(Origin)),
            reply=None if reply == Reply(None) else reply, usage=None if usage == Usage() else usage,
        )  # fmt: skip
    elif state is State.DONE:
        state = State.FAILED
    answer = Answer(draw(texts), tuple(note for note in Note if draw(st.booleans()))) if state is State.DONE else None
    age = draw(st.floats(0, 1e6))
    return Outcome(unit, state, sent, answer, draw(texts), ask=draw(st.integers(0, 3)), spent=draw(st.integers(0, 9)), age_s=age)


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    made: list[Batch] = []
    known = 0
    for _ in range(draw(st.integers(1, 4))):
        new = draw(st.integers(0, 70 if known == 0 else 3))
        one = batch(items=items(new, known), pieces=pieces(new, known), units=units_of(new, known))
        known += new
        if known:
            seqs = st.integers(0, known - 1)
            one.leases = draw(st.lists(seqs, max_size=9, unique=True))
            one.outcomes = [draw(outcomes(seq)) for seq in draw(st.lists(seqs, max_size=9))]
            # A unit's settling without a send comes after its sends.
            one.outcomes.sort(key=lambda outcome: outcome.attempt is None)
            one.released = draw(st.lists(seqs, max_size=3))
            one.reopened = draw(st.lists(seqs, max_size=3))
        one.meta = draw(st.dictionaries(st.text(max_size=3), st.one_of(counts, texts), max_size=2))
        made.append(one)
    return made


@pytest.mark.slow
@settings(deadline=None, max_examples=25)  # each writes a file
@given(history=histories(), retry_ambiguous=st.booleans())
def test_both_ledgers_say_the_same_after_any_history(history: list[Batch], retry_ambiguous: bool) -> None:
    memory = MemoryLedger()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "ledger.db"
        durable = SqliteLedger(path)
        for one in history:
            memory.commit(one)
            durable.commit(one)
        assert comparable(look_into_file(path)) == comparable(look_into_memory(memory))
        assert durable.unsettled() == memory.unsettled()
        assert durable.next_numbers() == memory.next_numbers()
        closed = [ledger.recover(1, 5.0, retry_ambiguous=retry_ambiguous) for ledger in (memory, durable)]
        assert closed[0] == closed[1]
        assert comparable(look_into_file(path)) == comparable(look_into_memory(memory))
        durable.close()


def comparable(found: Found) -> Found:
    """Reopening a unit that is done forgets what its answer was in one of them only: it is asked for no more."""
    return msgspec.structs.replace(found, answers={})
