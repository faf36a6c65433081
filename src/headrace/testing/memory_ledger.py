"""MemoryLedger: a ledger without a disk, for simulated lives and for tests of whatever commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.protocols import Batch
from headrace.values import Attempt, Item, Kind, Origin, Outcome, Sent, State, Unit

STEPS = ("items", "pieces", "units", "leases", "outcomes", "released", "reopened", "samples", "meta", "commit")


class MemoryLedger:
    """Satisfies `headrace.protocols.Ledger`; keeps what was committed, also after `close`, as a disk would.

    `hook` is called with a step's name before the step, as SqliteLedger calls its own with a statement's: an exception
    there leaves nothing of the batch behind. `units` maps a unit's number to its latest form, `outcomes` to its latest
    outcome; `attempts` are all attempts in order.
    """

    def __init__(self, hook: Callable[[str], None] | None = None) -> None:
        self.hook = hook
        self.commits = 0
        self.items: dict[int, Item] = {}
        self.pieces: dict[tuple[int, int], int] = {}
        self.units: dict[int, Unit] = {}
        self.states: dict[int, State] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.attempts: list[Attempt] = []
        self.meta: dict[str, Any] = {}

    def commit(self, batch: Batch) -> None:
        for step in STEPS:
            if self.hook is not None and (step == "commit" or getattr(batch, step)):
                self.hook(step)
        self.commits += 1
        self.items.update((item.seq, item) for item in batch.items)
        self.pieces.update(((item, n), unit) for item, n, unit in batch.pieces)
        for unit in batch.units:
            self.units[unit.seq] = Unit(seq=unit.seq, hash=unit.hash, item=unit.item, n=unit.n, config=unit.config)
            self.states[unit.seq] = State.PENDING
        for seq in batch.leases:
            if self.states[seq] is State.PENDING:
                self.states[seq] = State.LEASED
        for outcome in batch.outcomes:
            self._settle(outcome)
        for seq in batch.released:
            if self.states[seq] is State.LEASED:
                self.states[seq] = State.PENDING
        for seq in batch.reopened:
            self.states[seq] = State.PENDING
            self._change(seq, ask=0, spent=0, age_s=0.0)
        self.meta.update(batch.meta)

    def _settle(self, outcome: Outcome) -> None:
        if outcome.attempt is not None:
            self.attempts.append(outcome.attempt)
        self.outcomes[outcome.unit] = outcome
        self.states[outcome.unit] = outcome.state
        self._change(outcome.unit, ask=outcome.ask, spent=outcome.spent, age_s=outcome.age_s)

    def _change(self, seq: int, *, ask: int, spent: int, age_s: float) -> None:
        old = self.units[seq]
        self.units[seq] = Unit(
            seq=seq, hash=old.hash, item=old.item, n=old.n, config=old.config, ask=ask, spent=spent, age_s=age_s
        )  # fmt: skip

    def pending(self, after: int, limit: int) -> list[Unit]:
        """Pending units with seq > after, in order of seq, without payload."""
        seqs = [seq for seq in sorted(self.units) if seq > after and self.states[seq] is State.PENDING]
        return [self.units[seq] for seq in seqs[:limit]]

    def recover(self, endpoint: int, now: float, *, retry_ambiguous: bool) -> int:
        """Close the leases that a dead process left open, as SqliteLedger does."""
        batch = Batch()
        for seq in [seq for seq, state in self.states.items() if state is State.LEASED]:
            unit = self.units[seq]
            lost = Attempt(
                unit=seq, ask=unit.ask, started_at=now, seconds=0.0, config=unit.config, endpoint=endpoint, kind=Kind.AMBIGUOUS,
                sent=Sent.MAYBE, origin=Origin.LOST,
            )  # fmt: skip
            state = State.PENDING if retry_ambiguous else State.FAILED
            batch.outcomes.append(
                Outcome(seq, state, lost, error=None if retry_ambiguous else "ambiguous: lost", ask=unit.ask, spent=unit.spent,
                        age_s=unit.age_s)
            )  # fmt: skip
        if batch.outcomes:
            self.commit(batch)
        return len(batch.outcomes)

    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next item and the next unit."""
        return len(self.items), len(self.units)

    def unsettled(self) -> int:
        return sum(state < State.DONE for state in self.states.values())

    def close(self) -> None:
        pass
