"""MemoryLedger: a ledger without a disk, for simulated lives and for tests of whatever commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from headrace.ledger.writer import left_open
from headrace.policy.budget import Spent
from headrace.policy.price import Prices
from headrace.protocols import Batch
from headrace.values import Attempt, Item, Origin, Outcome, Sample, Sent, State, Unit

STEPS = ("items", "pieces", "units", "leases", "outcomes", "released", "reopened", "samples", "meta", "commit")


def _unknown(_unit: int) -> None:
    """Nothing is known of what a unit may have taken."""


class MemoryLedger:
    """Satisfies `headrace.protocols.Ledger`; keeps what was committed, also after `close`, as a disk would.

    `hook` is called with a step's name before the step, as SqliteLedger calls its own with a statement's: an exception
    there leaves nothing of the batch behind. `units` maps a unit's number to its latest form, `states` to its state,
    `errors` to why it failed, `outcomes` to its latest outcome; `attempts` are all attempts in order.
    """

    def __init__(self, hook: Callable[[str], None] | None = None) -> None:
        self.hook = hook
        self.commits = 0
        self.items: dict[int, Item] = {}
        self.pieces: dict[tuple[int, int], int] = {}
        self.units: dict[int, Unit] = {}
        self.states: dict[int, State] = {}
        self.errors: dict[int, str] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.attempts: list[Attempt] = []
        self.samples: list[Sample] = []
        self.meta: dict[str, Any] = {}

    def commit(self, batch: Batch) -> None:
        """All of the batch, or nothing. Raises LookupError where a lease or an outcome names a unit that was never added."""
        self._refuse_unknown(batch)
        for step in STEPS:
            if self.hook is not None and (step == "commit" or getattr(batch, step)):
                self.hook(step)
        self.commits += 1
        self.items.update((item.seq, item) for item in batch.items)
        self.pieces.update(((item, n), unit) for item, n, unit in batch.pieces)
        for unit in batch.units:
            self.units[unit.seq] = Unit(
                seq=unit.seq, hash=unit.hash, item=unit.item, n=unit.n, kind=unit.kind, config=unit.config
            )  # fmt: skip
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
            self.errors.pop(seq, None)
            self.units[seq] = replace(self.units[seq], ask=0, spent=0, age_s=0.0)
        self.samples += batch.samples
        self.meta.update(batch.meta)

    def _refuse_unknown(self, batch: Batch) -> None:
        new = {unit.seq for unit in batch.units}
        for seq in (*batch.leases, *(outcome.unit for outcome in batch.outcomes)):
            if seq not in self.units and seq not in new:
                raise LookupError(f"unit {seq} is not in the ledger")

    def _settle(self, outcome: Outcome) -> None:
        seq, attempt = outcome.unit, outcome.attempt
        unit = replace(self.units[seq], ask=outcome.ask, spent=outcome.spent, age_s=outcome.age_s)
        if attempt is not None:
            self.attempts.append(attempt)
            unit = replace(unit, config=attempt.config)
        self.units[seq] = unit
        self.states[seq] = outcome.state
        self.outcomes[seq] = outcome
        self.errors.pop(seq, None)
        if outcome.error is not None:
            self.errors[seq] = outcome.error

    def pending(self, after: int, limit: int) -> list[Unit]:
        """Pending units with seq > after, in order of seq, without payload."""
        seqs = [seq for seq in sorted(self.units) if seq > after and self.states[seq] is State.PENDING]
        return [self.units[seq] for seq in seqs[:limit]]

    def pending_these(self, seqs: list[int]) -> list[Unit]:
        """Those of these units that are pending, in the order asked for, without payload."""
        return [self.units[seq] for seq in seqs if self.states.get(seq) is State.PENDING]

    def recover(
        self, endpoint: int, now: float, *, retry_ambiguous: bool, most: Callable[[int], tuple[int, int] | None] = _unknown
    ) -> int:
        """Close the leases that a dead process left open, as SqliteLedger does."""
        batch = Batch()
        for seq in sorted(seq for seq, state in self.states.items() if state is State.LEASED):
            unit = self.units[seq]
            progress, asked = (unit.ask, unit.spent, unit.age_s), (unit.config, endpoint)
            batch.outcomes.append(left_open(seq, progress, asked, now, retry_ambiguous=retry_ambiguous, most=most(seq)))
        if batch.outcomes:
            self.commit(batch)
        return len(batch.outcomes)

    def spent(self, prices: Prices | None) -> Spent:
        """What its attempts count against the limits of a run, where all endpoints have these prices."""
        cost = at_most = tokens = 0.0
        requests = unknown = 0
        for attempt in self.attempts:
            if attempt.origin is Origin.REUSED or attempt.sent is Sent.NO:
                continue
            requests += 1
            usage = attempt.usage
            if usage is not None and usage.prompt is not None and usage.completion is not None:
                tokens += usage.prompt + usage.completion
                cost += (prices.cost(usage) if prices is not None else None) or 0.0
            elif attempt.most is not None:
                unknown += 1
                tokens += sum(attempt.most)
                at_most += (prices.most(*attempt.most) if prices is not None else None) or 0.0
        return Spent(cost, cost + at_most, tokens, requests, unknown)

    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next item and the next unit."""
        return len(self.items), len(self.units)

    def unsettled(self) -> int:
        return sum(state < State.DONE for state in self.states.values())

    def close(self) -> None:
        pass
