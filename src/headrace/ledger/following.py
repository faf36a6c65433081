"""What follows from a commit: the answers of an item's level are all there, so the requests that join them are made with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.ledger.reader import as_answer
from headrace.protocols import Batch, Reducer
from headrace.values import Item, Outcome, Reduction, State, Unit, UnitKind

Query = Callable[[str, tuple[Any, ...]], Any]


class Following:
    """Finds, within a transaction, the levels that it completes, and what joins them. Used by the ledger's writer alone.

    `query` runs a named statement on the writing connection, which sees what the transaction has written so far.
    """

    def __init__(self, reducer: Reducer, query: Query) -> None:
        self._reducer = reducer
        self._query = query

    def candidates(self, batch: Batch) -> list[int]:
        """Items of which this batch may complete a level: of units that it settles, and those that it brings divided."""
        return self.items_of(batch.outcomes, {part.item for part in batch.slices})

    def items_of(self, outcomes: Iterable[Outcome], more: Iterable[int] = ()) -> list[int]:
        found = dict.fromkeys(sorted(more))
        for outcome in outcomes:
            if outcome.state is State.DONE:
                found.update(dict.fromkeys(item for (item,) in self._query("members", (outcome.unit,))))
        return list(found)

    def next_level(self, item: int) -> tuple[int, list[Reduction]]:
        """The level that is to be made for an item, and its requests; none while one of the level below is not answered."""
        top = self._query("top_level", (item,)).fetchone()
        level, is_last = top if top is not None else (0, 0)
        still_open = ("open_reduction", (item, level)) if level else ("open_piece", (item,))
        if is_last or self._query(*still_open).fetchone() is not None:
            return 0, []
        everything = (item, 0, 1 << 62)
        wanted = ("level_answers", (*everything, level)) if level else ("piece_answers", everything)
        answers = [as_answer(*row) for row in self._query(*wanted)]
        return level + 1, self._reducer.reduce(self._item(item), level + 1, answers)

    def _item(self, seq: int) -> Item:
        file, offset, length, number = self._query("place_of", (seq,)).fetchone()
        return Item(seq, file, offset, length, number, None)

    def units(self, item: int, reductions: Sequence[Reduction], first: int) -> tuple[list[int], list[Unit]]:
        """As `made_units`, of this ledger."""
        return made_units(item, reductions, (first, self._reducer.config), self._known)

    def _known(self, value: bytes) -> int | None:
        row = self._query("made", (value,)).fetchone()
        return None if row is None else int(row[0])

    def settled(self, units: Sequence[Unit], reductions: Sequence[Reduction]) -> list[Outcome]:
        return settled_at_once(self._reducer, units, reductions)


def made_units(
    item: int, reductions: Sequence[Reduction], numbered: tuple[int, int], known: Callable[[bytes], int | None]
) -> tuple[list[int], list[Unit]]:
    """The number of each reduction's unit, and the units that are new. `numbered`: the next number, and the configuration.

    What is asked already is asked once: `known` tells the number of the unit with a hash.
    """
    following, config = numbered
    numbers: list[int] = []
    units: dict[bytes, Unit] = {}
    for made in reductions:
        number = units[made.hash].seq if made.hash in units else known(made.hash) if made.error is None else None
        if number is None:
            number, key = following, made.hash if made.error is None else b"%d" % following
            units[key] = Unit(
                seq=number, hash=made.hash, item=item, n=made.n, kind=UnitKind.REDUCE, config=config, payload=made.payload,
                plain=not made.is_last,
            )  # fmt: skip
            following += 1
        numbers.append(number)
    return numbers, list(units.values())


def settled_at_once(reducer: Reducer, units: Sequence[Unit], reductions: Sequence[Reduction]) -> list[Outcome]:
    """Outcomes of those of these units that are not to be sent: no request can be made of them, or the answer is there."""
    errors = {made.n: made.error for made in reductions if made.error is not None}
    failed = [Outcome(unit.seq, State.FAILED, None, error=errors[unit.n]) for unit in units if unit.n in errors]
    sound = [unit for unit in units if unit.n not in errors]
    return failed + (reducer.answered(sound) if sound else [])
