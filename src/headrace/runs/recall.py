"""From the ledger back to requests: pending units are rendered again from their records, or from the answers that they join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headrace.errors import InputBrokenError, RecordError
from headrace.ledger.reader import LedgerReader, StoredUnit
from headrace.protocols import Judge
from headrace.runs.making import Making
from headrace.runs.pieces import Dividing, salt_of
from headrace.runs.reducing import fields_for, made_again
from headrace.sources.records import RecordPlaces, parse
from headrace.values import Failure, Kind, Piece, Reply, Unit, UnitKind


class _Asked(NamedTuple):
    payload: bytes
    hash: bytes
    plain: bool = False


class Recall:
    """Gives stored units their payload. Raises InputBrokenError where a record is not what it was when it was read.

    Of a job that divides its records the pieces of the latest one are kept: whoever asks for them in the order in which they
    were read has each record read and parsed once.
    """

    def __init__(self, making: Making, places: RecordPlaces, reader: LedgerReader) -> None:
        self._making = making
        self._places = places
        self._reader = reader
        self._latest: tuple[int, list[Piece]] = (-1, [])

    def __call__(self, stored: Sequence[StoredUnit]) -> list[Unit]:
        """The same units, in the same order."""
        if self._making.dividing is not None:
            return self._of_divided(stored)
        raws = self._places.fetch([unit.place for unit in stored])
        return [self._render_again(unit, raw) for unit, raw in zip(stored, raws, strict=True)]

    def hash(self, stored: StoredUnit) -> bytes | None:
        """The unit's hash as it is asked now; None where the rules make no request of it any more."""
        try:
            return self._made(stored).hash
        except RecordError:
            return None

    def payload(self, stored: StoredUnit) -> bytes:
        """What the unit asks, were it sent now for the first time. Raises RecordError, InputBrokenError."""
        return self._made(stored).payload

    def _render_again(self, stored: StoredUnit, raw: bytes) -> Unit:
        try:
            return self._checked(stored, self._whole(stored, raw))
        except RecordError as error:
            raise _changed(stored.unit.item, str(error)) from error

    def _of_divided(self, stored: Sequence[StoredUnit]) -> list[Unit]:
        """Record by record, so that no more than one of them is held, and in the end as they were asked for."""
        found: dict[int, Unit] = {}
        for one in sorted(stored, key=_by_record):
            try:
                found[one.unit.seq] = self._checked(one, self._made(one))
            except RecordError as error:
                raise _changed(one.unit.item, str(error)) from error
        return [found[one.unit.seq] for one in stored]

    def _made(self, stored: StoredUnit) -> _Asked:
        """Raises RecordError."""
        dividing = self._making.dividing
        if dividing is None:
            return self._whole(stored, self._places.fetch([stored.place])[0])
        if stored.unit.kind is UnitKind.REDUCE:
            return self._joining(stored, dividing)
        unit = stored.unit
        piece = self._pieces(stored, dividing)[unit.n]
        payload = dividing.renderer.render(piece)
        salt = salt_of(unit.item, unit.n, dedupe=self._making.dedupe)
        return _Asked(payload, dividing.hash(piece, payload, salt), dividing.is_plain(piece))

    def _whole(self, stored: StoredUnit, raw: bytes) -> _Asked:
        making, item = self._making, stored.unit.item
        payload = making.renderer.render(making.slicer(item, parse(raw)))
        return _Asked(payload, making.hasher(payload, salt_of(item, 0, dedupe=making.dedupe)))

    def _pieces(self, stored: StoredUnit, dividing: Dividing) -> list[Piece]:
        """As they were divided when the record was read, whatever would be done today."""
        item = stored.unit.item
        if self._latest[0] != item:
            (raw,) = self._places.fetch([stored.place])
            whole = self._making.slicer(item, parse(raw))
            self._latest = (item, dividing.pieces(whole, self._reader.slices(item)))
        return self._latest[1]

    def _joining(self, stored: StoredUnit, dividing: Dividing) -> _Asked:
        unit = stored.unit
        reducing, row = dividing.reducing, self._reader.reduction(unit.item, unit.seq)
        if reducing is None:
            raise RecordError("its answers are not joined by a prompt any more")
        fields = fields_for(self._making, dividing, unit.item, lambda: self._places.fetch([stored.place])[0])
        made = made_again(self._making, reducing, unit.item, fields, row)
        return _Asked(made.payload, made.hash, not row.is_last)

    def _checked(self, stored: StoredUnit, asked: _Asked) -> Unit:
        unit = stored.unit
        if asked.hash != unit.hash:
            raise _changed(unit.item)
        corrected = None
        if unit.ask and stored.attempt is not None:
            judge = self._making.plain_judge if asked.plain else self._making.judge
            corrected = self._correction(asked.payload, stored.attempt, judge or self._making.judge)
        return replace(unit, payload=asked.payload, corrected=corrected, plain=asked.plain)

    def _correction(self, payload: bytes, attempt: int, judge: Judge) -> bytes | None:
        """The payload of a re-ask that an earlier process had begun."""
        last = self._reader.last_reply(attempt)
        if last is None or last.kind is None:
            return None
        reply = Reply(content=last.content, finish=last.finish, reasoning=last.reasoning, refusal=last.refusal)
        return judge.reask(payload, reply, Failure(Kind(last.kind), last.message or "not acceptable"))


def _by_record(stored: StoredUnit) -> tuple[int, int]:
    return stored.unit.item, stored.unit.n


def _changed(item: int, why: str | None = None) -> InputBrokenError:
    said = "; the input file was changed" if why is None else f": {why}"
    return InputBrokenError(f"record {item + 1} is not what it was when it was read{said}.")
