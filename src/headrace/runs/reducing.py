"""The requests that join the answers to an item's pieces, level by level, until one answer is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.errors import InputError, RecordError
from headrace.ledger.reader import StoredReduction
from headrace.runs.making import Making
from headrace.runs.pieces import Dividing, Reducing, salt_of
from headrace.runs.reuse import Reuse
from headrace.slicing.join import groups
from headrace.sources.records import RecordPlaces, parse
from headrace.values import Item, Kind, Outcome, Reduction, Unit


class AnswerReducer:
    """Satisfies `headrace.protocols.Reducer`. It has its own `places` and `reuse`: the thread that writes calls it."""

    def __init__(self, making: Making, places: RecordPlaces, config: int, reuse: Reuse | None = None) -> None:
        assert making.dividing is not None
        assert making.dividing.reducing is not None
        self.config = config
        self._making = making
        self._dividing = making.dividing
        self._reducing = making.dividing.reducing
        self._places = places
        self._reuse = reuse

    def reduce(self, item: Item, level: int, answers: Sequence[str]) -> list[Reduction]:
        reducing = self._reducing
        found = groups([reducing.size.of(answer) for answer in answers], reducing.size.limit)
        try:
            fields = fields_for(self._making, self._dividing, item.seq, lambda: self._fetch(item))
        except (RecordError, InputError) as error:
            return [_failed(n, first, stop, len(found), str(error)) for n, (first, stop) in enumerate(found)]
        return [self._made(item, fields, level, answers, (n, first, stop, len(found))) for n, (first, stop) in enumerate(found)]

    def _made(
        self, item: Item, fields: dict[str, Any], level: int, answers: Sequence[str], place: tuple[int, int, int, int]
    ) -> Reduction:
        n, first, stop, count = place
        row = StoredReduction(level, n, first, stop, count == 1, list(answers[first:stop]))
        try:
            return made_again(self._making, self._reducing, item.seq, fields, row)
        except RecordError as error:
            return _failed(*place, str(error))

    def answered(self, units: Sequence[Unit]) -> list[Outcome]:
        if self._reuse is None:
            return []
        outcomes = self._reuse.outcomes([unit for unit in units if unit.plain], self._reducing.judge)
        return outcomes + self._reuse.outcomes([unit for unit in units if not unit.plain], self._making.judge)

    def _fetch(self, item: Item) -> bytes:
        return self._places.fetch([(item.file, item.offset, item.length)])[0]

    def close(self) -> None:
        self._places.close()
        if self._reuse is not None:
            self._reuse.close()


def fields_for(making: Making, dividing: Dividing, item: int, fetch: Callable[[], bytes]) -> dict[str, Any]:
    """What a reducing prompt may print of the item's record, which is fetched where it prints anything of it at all.

    Raises RecordError, and what `fetch` raises.
    """
    assert dividing.reducing is not None
    if dividing.reducing.prompt.fields is not None and not dividing.reducing.prompt.fields:
        return {}
    return dividing.undivided(making.slicer(item, parse(fetch())).fields)


def made_again(making: Making, reducing: Reducing, item: int, fields: dict[str, Any], row: StoredReduction) -> Reduction:
    """The request that joins these answers. Raises RecordError."""
    payload = reducing.prompt.render(item, fields, row.answers, row.level, last=row.is_last)
    salt = salt_of(item, row.level << 16 | row.n + 1, dedupe=making.dedupe)
    value = (making.hasher if row.is_last else reducing.hasher)(payload, salt)
    return Reduction(row.n, row.first, row.stop, row.is_last, value, payload)


def _failed(n: int, first: int, stop: int, count: int, why: str) -> Reduction:
    return Reduction(n, first, stop, count == 1, bytes(16), error=f"{Kind.BAD_INPUT}: {why}")
