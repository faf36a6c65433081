"""Where a life keeps what it has paid for: in memory or in a real ledger file, and what either says when it is reopened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.policy.budget import Most, Spent
from headrace.runs.costs import RECORDED, recorded
from headrace.runs.prices import Found
from headrace.runs.spending import spent_of
from headrace.testing.memory_ledger import MemoryLedger
from headrace.values import State, Unit
from soak.plans import PRICES

Hook = Callable[[str], None]
MostOf = Callable[[int], tuple[int, int] | None]
_ANSWERS = "SELECT unit.seq, attempt.content FROM unit JOIN attempt ON attempt.id = unit.attempt WHERE unit.state = 2"


@dataclass
class Facts:
    """What a reopened ledger says. `attempts`: unit, ask, kind, sent, origin, in the order in which they were recorded."""

    states: dict[int, State] = field(default_factory=dict)
    pieces: dict[int, int] = field(default_factory=dict)
    hashes: dict[int, bytes] = field(default_factory=dict)
    answers: dict[int, str | None] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    attempts: list[tuple[int, int, str | None, str, int]] = field(default_factory=list)
    items: int = 0
    read_done: bool = False

    def count(self, *states: State) -> int:
        return sum(state in states for state in self.states.values())


class Store(Protocol):
    def open(self, hook: Hook | None, *, retry_ambiguous: bool, most: MostOf) -> Any:
        """The ledger for one process, recovered; `hook` is its crash point from then on. `most`: what a unit may have taken."""
        ...

    def spent(self, most: Most) -> Spent:
        """What counts against the limits of the run."""
        ...

    def meta(self, key: str) -> Any:
        """A fact of the ledger, None where it is not there. Asked while it is closed."""
        ...

    def pending(self, after: int, limit: int) -> list[Unit]: ...

    def pending_these(self, seqs: list[int]) -> list[Unit]: ...

    def facts(self) -> Facts: ...

    def close(self) -> None:
        """The process is gone; what was committed stays."""
        ...


class InMemory:
    def __init__(self) -> None:
        self._ledger = MemoryLedger()

    def open(self, hook: Hook | None, *, retry_ambiguous: bool, most: MostOf) -> MemoryLedger:
        self._ledger.recover(1, 0.0, retry_ambiguous=retry_ambiguous, most=most)
        self._ledger.hook = hook
        return self._ledger

    def spent(self, most: Most) -> Spent:  # noqa: ARG002 - all that it keeps has a bound
        return self._ledger.spent(PRICES)

    def meta(self, key: str) -> Any:
        return self._ledger.meta.get(key)

    def pending(self, after: int, limit: int) -> list[Unit]:
        return self._ledger.pending(after, limit)

    def pending_these(self, seqs: list[int]) -> list[Unit]:
        return self._ledger.pending_these(seqs)

    def facts(self) -> Facts:
        ledger = self._ledger
        return Facts(
            states=dict(ledger.states),
            pieces={item: unit for (item, _), unit in ledger.pieces.items()},
            hashes={seq: unit.hash for seq, unit in ledger.units.items()},
            answers={
                seq: outcome.attempt.reply.content
                for seq, outcome in ledger.outcomes.items()
                if outcome.state is State.DONE and outcome.attempt is not None and outcome.attempt.reply is not None
            },
            errors=dict(ledger.errors),
            attempts=[
                (a.unit, a.ask, None if a.kind is None else str(a.kind), str(a.sent), int(a.origin)) for a in ledger.attempts
            ],
            items=len(ledger.items),
            read_done=bool(ledger.meta.get("done")),
        )

    def close(self) -> None:
        self._ledger.hook = None


class OnDisk:
    """A ledger file in `folder`, which should be one in memory: what is tried is the order of things, not the disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.db"
        self._ledger: SqliteLedger | None = None
        self._reader: LedgerReader | None = None
        ledger = SqliteLedger(self._path)
        names = [f"fake {number}" for number in (1, 2, 3)]
        ledger.add_config(1.0, {"model": "m"}, {RECORDED: recorded(names, [Found(PRICES)] * len(names))})
        for name in names:
            ledger.add_endpoint(name, name)
        ledger.close()

    def spent(self, most: Most) -> Spent:
        reader = LedgerReader(self._path)
        try:
            return spent_of(reader, most)
        finally:
            reader.close()

    def meta(self, key: str) -> Any:
        reader = LedgerReader(self._path)
        try:
            return reader.meta(key)
        finally:
            reader.close()

    def open(self, hook: Hook | None, *, retry_ambiguous: bool, most: MostOf) -> SqliteLedger:
        self._ledger = SqliteLedger(self._path)
        self._ledger.recover(1, 0.0, retry_ambiguous=retry_ambiguous, most=most)
        self._ledger._hook = hook  # noqa: SLF001 - recovery itself has lives of its own
        self._reader = LedgerReader(self._path)
        return self._ledger

    def pending(self, after: int, limit: int) -> list[Unit]:
        assert self._reader is not None
        return [stored.unit for stored in self._reader.pending(after, limit)]

    def pending_these(self, seqs: list[int]) -> list[Unit]:
        assert self._reader is not None
        return [stored.unit for stored in self._reader.pending_these(seqs)]

    def done(self) -> int:
        """Answered units, without reading their answers."""
        reader = LedgerReader(self._path)
        try:
            return dict(reader.all("count_units")).get(State.DONE, 0)
        finally:
            reader.close()

    def facts(self) -> Facts:
        reader = LedgerReader(self._path)
        try:
            db = reader._db  # noqa: SLF001 - the tables as they are
            units = db.execute("SELECT seq, state, hash, error FROM unit").fetchall()
            return Facts(
                states={row[0]: State(row[1]) for row in units},
                pieces=dict(db.execute("SELECT item, unit FROM piece").fetchall()),
                hashes={row[0]: row[2] for row in units},
                answers=dict(db.execute(_ANSWERS).fetchall()),
                errors={row[0]: row[3] for row in units if row[3] is not None},
                attempts=db.execute("SELECT unit, ask, kind, sent, origin FROM attempt ORDER BY id").fetchall(),
                items=reader.one("count_items")[0],
                read_done=bool(reader.meta("done", default=False)),
            )
        finally:
            reader.close()

    def close(self) -> None:
        for opened in (self._ledger, self._reader):
            if opened is not None:
                opened.close()
        self._ledger = self._reader = None
