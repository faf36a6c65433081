"""From the input to units: read, filter, slice, render, hash, dedupe; and from the ledger back to requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from headrace.errors import InputError, RecordError
from headrace.ledger.dedupe import DedupeIndex
from headrace.ledger.notes import to_bits
from headrace.ledger.reader import LedgerReader
from headrace.runs.making import Making
from headrace.runs.pieces import Dividing
from headrace.runs.recall import Recall
from headrace.runs.reuse import Reuse
from headrace.runs.savings import ALIKE, LOOKED_AT, Beginnings
from headrace.runs.shapes import shape_of
from headrace.sources.open import OpenedSource
from headrace.sources.records import RecordPlaces
from headrace.values import Intaken, Item, Kind, Note, Outcome, Piece, Record, Slice, Unit

ALL_ALIKE = 1000  # so many rejects for one reason, and nothing else, are the user's mistake and not the records'
_CUT = to_bits([Note.INPUT_CUT])


class Reading(Struct, frozen=True):
    """How far an input has been read, as the ledger keeps it."""

    position: str | None = None
    items: int = 0
    excluded: int = 0
    records_length: int = 0
    names: list[str] = []
    done: bool = False


class Copies(Protocol):
    """Takes the records that cannot stay where they were read."""

    @property
    def length(self) -> int: ...

    def append(self, raws: Iterable[bytes]) -> list[tuple[int, int]]: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Stores(Struct, frozen=True):
    """Where records and units lie. `source` is None once the input has been read whole.

    Without `places` and `reader` it can only be read on: nothing is recalled.
    """

    source: OpenedSource | None
    records: Copies
    places: RecordPlaces | None
    reader: LedgerReader | None
    index: DedupeIndex

    def close(self) -> None:
        for store in (self.source, self.records, self.places, self.index, self.reader):
            if store is not None:
                store.close()


class InputIntake:
    """Satisfies `headrace.protocols.Intake`: blocking, one caller at a time.

    `reading` is where an earlier process stopped; `next_unit` the number of the next unit.
    """

    def __init__(self, making: Making, stores: Stores, *, reading: Reading, next_unit: int, reuse: Reuse | None = None) -> None:
        self._making = making
        self._stores = stores
        self._source = stores.source
        self._records = stores.records
        self._recall = None if stores.places is None or stores.reader is None else Recall(making, stores.places, stores.reader)
        self._reader = stores.reader
        self._index = stores.index
        self._reading = reading
        self._next_unit = next_unit
        self._reuse = reuse
        self._chunks_hashed = -1
        self._alike: tuple[str, str] | None = None  # shape and text of the one reason, while every record is rejected for it
        self._has_variety = reading.items > 0
        # Where the job keeps the order, what another one would have saved is looked at.
        self._beginnings = Beginnings(making.renderer.shared_bytes) if making.keeps_order else None
        self._has_id = making.id_field is None or reading.items > 0

    # -- reading on

    def take(self, limit: int) -> Intaken:
        assert self._source is not None
        chunk = self._source.read(limit)
        before = self._reading
        made = _Made(before.items, before.excluded)
        done = chunk.done
        places = self._place(chunk.records)
        for record, place in zip(chunk.records, places, strict=True):
            if self._making.limit is not None and made.next_item >= self._making.limit:
                done = True
                break
            self._make(record, place, made)
        if self._making.limit is not None and made.next_item >= self._making.limit:
            done = True
        self._refuse_if_all_alike(made, done=done)
        units = self._number(made)
        outcomes = self._reused(units) if self._reuse is not None else []
        if self._beginnings is not None and len(self._beginnings) < LOOKED_AT:
            self._beginnings.add([unit.payload for unit in units if unit.payload is not None])
        self._reading = Reading(
            position=chunk.position, items=made.next_item, excluded=made.excluded,
            records_length=self._records.length, names=self._source.names, done=done,
        )  # fmt: skip
        return Intaken(
            items=made.items, pieces=made.pieces, units=units, first_unit=self._next_unit - len(units),
            meta=self._facts(), done=done, outcomes=outcomes, rejected=made.rejected, slices=made.slices,
        )  # fmt: skip

    def _place(self, records: Sequence[Record]) -> list[tuple[int, int, int]]:
        """Where each record's bytes are to be found again; those that cannot stay are copied, durably."""
        copied = [record.raw for record in records if record.offset < 0]
        if not copied:
            return [(record.file, record.offset, len(record.raw)) for record in records]
        copies = iter(self._records.append(copied))
        self._records.sync()
        return [(0, *next(copies)) if record.offset < 0 else (record.file, record.offset, len(record.raw)) for record in records]

    def _make(self, record: Record, place: tuple[int, int, int], made: _Made) -> None:
        making, fields = self._making, record.fields
        if fields is None:
            made.reject(record, place, None, record.reason or "unreadable", readable=False)
            return
        name = fields.get(making.id_field) if making.id_field is not None else None
        self._has_id = self._has_id or making.id_field in fields
        try:
            if making.where is not None and not making.where(fields):
                made.excluded += 1
                return
            piece = making.slicer(made.next_item, fields)
            if making.dividing is not None:
                self._divide(making.dividing, piece, made)
            else:
                payload = making.renderer.render(piece)
                salt = b"" if making.dedupe else made.next_item.to_bytes(8, "big")
                made.hashes.append(making.hasher(payload, salt))
                made.payloads.append(payload)
                made.owners.append((made.next_item, 0, False))
        except RecordError as error:
            made.reject(record, place, name, str(error), readable=True)
            return
        made.items.append(Item(made.next_item, *place, record.number, name, notes=_CUT if piece.cut else 0))
        made.next_item += 1

    def _divide(self, dividing: Dividing, whole: Piece, made: _Made) -> None:
        """Add an item's pieces; all of them, or none where one cannot be asked."""
        asked = dividing.asked(whole, dedupe=self._making.dedupe)
        made.hashes += asked.hashes
        made.payloads += asked.payloads
        made.owners += [(piece.item, piece.n, dividing.is_plain(piece)) for piece in asked.pieces]
        made.slices += asked.slices

    def _number(self, made: _Made) -> list[Unit]:
        """Number the new units and point every piece to its unit."""
        units: list[Unit] = []
        if self._making.dedupe:
            seen = self._index.add(made.hashes, self._next_unit).tolist() if made.hashes else []
        else:
            seen = [-1] * len(made.hashes)
        for earlier, (item, n, plain), value, payload in zip(seen, made.owners, made.hashes, made.payloads, strict=True):
            if earlier < 0:
                earlier = self._next_unit
                units.append(Unit(seq=earlier, hash=value, item=item, n=n, payload=payload, plain=plain))
                self._next_unit += 1
            made.pieces.append((item, n, earlier))
        return units

    def _reused(self, units: Sequence[Unit]) -> list[Outcome]:
        assert self._reuse is not None
        making = self._making
        if making.plain_judge is None:
            return self._reuse.outcomes(units, making.judge)
        outcomes = self._reuse.outcomes([unit for unit in units if unit.plain], making.plain_judge)
        return outcomes + self._reuse.outcomes([unit for unit in units if not unit.plain], making.judge)

    def _facts(self) -> dict[str, Any]:
        assert self._source is not None
        reading = self._reading
        facts: dict[str, Any] = {
            "reading": {
                "position": reading.position, "items": reading.items, "excluded": reading.excluded,
                "records_length": reading.records_length, "names": reading.names, "done": reading.done,
            }
        }  # fmt: skip
        fingerprint = self._source.fingerprint()
        hashed = sum(len(file["chunks"]) for file in fingerprint)
        if hashed != self._chunks_hashed or reading.done:
            self._chunks_hashed = hashed
            facts["fingerprint"] = fingerprint
        if reading.done and self._beginnings is not None:
            facts[ALIKE] = self._beginnings.alike()
        return facts

    def _refuse_if_all_alike(self, made: _Made, *, done: bool) -> None:
        """Raises InputError when the first 1,000 records, or all of a smaller input, are rejected for one reason."""
        if not self._has_id and made.items:
            names = _listed(self._source.names if self._source is not None else [])
            raise InputError(f"input.id: no record has the field {self._making.id_field!a}; fields found: {names}.")
        if self._has_variety:
            return
        shapes = {shape_of(reason): reason for reason in made.reasons}
        if made.hashes or made.excluded or len(shapes) > 1 or (self._alike and shapes and self._alike[0] not in shapes):
            self._has_variety = True
            return
        if shapes and self._alike is None:
            self._alike = next(iter(shapes.items()))
        if self._alike is not None and (made.next_item >= ALL_ALIKE or done):
            names = _listed(self._source.names if self._source is not None else [])
            count = "all" if done else "the first"
            raise InputError(f"{count} {made.next_item} records are rejected: {self._alike[1]}; fields found: {names}.")

    def interrupt(self) -> None:
        if self._source is not None:
            self._source.interrupt()

    # -- from the ledger

    def recall(self, after: int, limit: int) -> list[Unit]:
        assert self._reader is not None
        assert self._recall is not None
        return self._recall(self._reader.pending(after, limit))

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        assert self._reader is not None
        assert self._recall is not None
        return self._recall(self._reader.pending_these(seqs))

    def close(self) -> None:
        self._stores.close()
        if self._reuse is not None:
            self._reuse.close()


class _Made:
    """What one step of reading has made so far."""

    def __init__(self, next_item: int, excluded: int) -> None:
        self.next_item = next_item
        self.excluded = excluded
        self.rejected = 0
        self.items: list[Item] = []
        self.pieces: list[tuple[int, int, int]] = []
        self.hashes: list[bytes] = []
        self.payloads: list[bytes] = []
        self.owners: list[tuple[int, int, bool]] = []  # item, n, whether its answer is joined with others
        self.slices: list[Slice] = []
        self.reasons: list[str] = []

    def reject(self, record: Record, place: tuple[int, int, int], name: Any, reason: str, *, readable: bool) -> None:
        self.items.append(
            Item(self.next_item, *place, record.number, name, error=f"{Kind.BAD_INPUT}: {reason}", readable=readable)
        )
        self.reasons.append(reason)
        self.rejected += 1
        self.next_item += 1


def _listed(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(ascii(name) for name in names[:most])
    return (shown + (f" and {len(names) - most} more" if len(names) > most else "")) or "none"
