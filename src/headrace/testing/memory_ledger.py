"""MemoryLedger: a ledger without a disk, for simulated lives and for tests of whatever commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from headrace.ledger.following import made_units, settled_at_once
from headrace.ledger.reader import as_answer
from headrace.ledger.writer import left_open
from headrace.policy.budget import Spent
from headrace.policy.price import Prices, answered
from headrace.protocols import Batch, Reducer
from headrace.values import FIRST_MADE, Attempt, Item, Origin, Outcome, Reduction, Sample, Sent, Slice, State, Unit

STEPS = (
    "items", "pieces", "units", "slices", "leases", "outcomes", "following", "released", "reopened", "samples", "meta", "commit",
)  # fmt: skip


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
        self.slices: list[Slice] = []
        self.members: dict[int, dict[int, None]] = {}  # a unit's divided items
        self.reductions: dict[int, list[list[tuple[Reduction, int]]]] = {}  # an item's levels, each with its units
        self._counts: dict[int, int] = {}  # an item's pieces
        self._reducer: Reducer | None = None
        self._prepared = Batch()

    def reduce_with(self, reducer: Reducer) -> None:
        """From now on have the answers of divided items joined by this one's requests."""
        self._reducer = reducer

    def commit(self, batch: Batch) -> None:
        """All of the batch, or nothing. Raises LookupError where a lease or an outcome names a unit that was never added."""
        self.prepare(batch)
        self.finish()

    def prepare(self, batch: Batch) -> None:
        self._refuse_unknown(batch)
        for step in STEPS:
            has_some = self._reducer if step == "following" else step != "commit" and getattr(batch, step)
            if self.hook is not None and has_some:
                self.hook(step)
        self._prepared = batch

    def finish(self) -> None:
        if self.hook is not None:
            self.hook("commit")
        self._apply(self._prepared)

    def _apply(self, batch: Batch) -> None:
        self.commits += 1
        self.items.update((item.seq, item) for item in batch.items)
        self.pieces.update(((item, n), unit) for item, n, unit in batch.pieces)
        for unit in batch.units:
            self.units[unit.seq] = Unit(
                seq=unit.seq, hash=unit.hash, item=unit.item, n=unit.n, kind=unit.kind, config=unit.config
            )  # fmt: skip
            self.states[unit.seq] = State.PENDING
        self._divide(batch)
        for seq in batch.leases:
            if self.states[seq] is State.PENDING:
                self.states[seq] = State.LEASED
        for outcome in batch.outcomes:
            self._settle(outcome)
        if self._reducer is not None:
            self._follow(self._reducer, batch)
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

    def _divide(self, batch: Batch) -> None:
        self.slices += batch.slices
        divided = {part.item for part in batch.slices}
        for item, _, unit in batch.pieces:
            if item in divided:
                self.members.setdefault(unit, {})[item] = None
                self._counts[item] = self._counts.get(item, 0) + 1

    def _follow(self, reducer: Reducer, batch: Batch) -> None:
        """Make what joins the answers that are complete now, as SqliteLedger does."""
        batch.made, batch.answered = [], []
        items = list(dict.fromkeys([*sorted({part.item for part in batch.slices}), *self._items_of(batch.outcomes)]))
        for item in items:
            made = self._next_level(reducer, item)
            if not made:
                continue
            first = FIRST_MADE + sum(seq >= FIRST_MADE for seq in self.units)
            numbers, units = made_units(item, made, (first, reducer.config), self._known)
            self.reductions.setdefault(item, []).append(list(zip(made, numbers, strict=True)))
            for number in numbers:
                self.members.setdefault(number, {})[item] = None
            for unit in units:
                self.units[unit.seq] = replace(unit, payload=None, plain=False)
                self.states[unit.seq] = State.PENDING
            outcomes = settled_at_once(reducer, units, made)
            for outcome in outcomes:
                self._settle(outcome)
            items += self._items_of(outcomes) + ([item] if len(units) < len(made) else [])
            batch.made += units
            batch.answered += outcomes

    def _items_of(self, outcomes: list[Outcome]) -> list[int]:
        done = [outcome.unit for outcome in outcomes if outcome.state is State.DONE]
        return [item for seq in done for item in self.members.get(seq, ())]

    def _known(self, value: bytes) -> int | None:
        return next((seq for seq, unit in self.units.items() if seq >= FIRST_MADE and unit.hash == value), None)

    def _next_level(self, reducer: Reducer, item: int) -> list[Reduction]:
        levels = self.reductions.get(item, [])
        if levels and levels[-1][-1][0].is_last:
            return []
        below = self._level(item, len(levels))
        if any(self.states[seq] is not State.DONE for seq in below):
            return []
        return reducer.reduce(self.items[item], len(levels) + 1, [self.answer(seq) for seq in below])

    def _level(self, item: int, level: int) -> list[int]:
        """The units of one of an item's levels, in order; its pieces are level 0."""
        if level:
            return [unit for _, unit in self.reductions[item][level - 1]]
        return [self.pieces[item, n] for n in range(self._counts[item])]

    def answer(self, seq: int) -> str:
        """A done unit's answer, as a reducing prompt shows it."""
        outcome = self.outcomes[seq]
        assert outcome.attempt is not None
        assert outcome.attempt.reply is not None
        return as_answer(outcome.answer.value if outcome.answer is not None else None, outcome.attempt.reply.content)

    def reduction(self, seq: int) -> tuple[int, Reduction, list[str]]:
        """The level of a unit that was made of answers, what it joins, and these."""
        item = self.units[seq].item
        levels = self.reductions[item]
        level, made = next((level, made) for level, some in enumerate(levels, 1) for made, unit in some if unit == seq)
        below = self._level(item, level - 1)
        return level, made, [self.answer(unit) for unit in below[made.first : made.stop]]

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
        seqs = [seq for seq in sorted(self.units) if after < seq < FIRST_MADE and self.states[seq] is State.PENDING]
        return [self.units[seq] for seq in seqs[:limit]]

    def pending_these(self, seqs: list[int]) -> list[Unit]:
        """Those of these units that are pending, in the order asked for, without payload."""
        return [self.units[seq] for seq in seqs if self.states.get(seq) is State.PENDING]

    def pending_made(self) -> list[int]:
        """The numbers of pending units that were made of answers."""
        return [seq for seq in sorted(self.units) if seq >= FIRST_MADE and self.states[seq] is State.PENDING]

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
                tokens += usage.prompt + answered(usage)
                cost += (prices.cost(usage) if prices is not None else None) or 0.0
            elif attempt.most is not None:
                unknown += 1
                tokens += sum(attempt.most)
                at_most += (prices.most(*attempt.most) if prices is not None else None) or 0.0
        return Spent(cost, cost + at_most, tokens, requests, unknown)

    def next_numbers(self) -> tuple[int, int]:
        """The numbers of the next item and the next unit."""
        return len(self.items), sum(seq < FIRST_MADE for seq in self.units)

    def unsettled(self) -> int:
        return sum(state < State.DONE for state in self.states.values())

    def close(self) -> None:
        pass
