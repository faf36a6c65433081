"""What an earlier process has learnt, and how much of the budget one that died may have taken with what it left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.engine.bounds import KEPT, kept, learnt_before
from headrace.engine.knobs import Knobs
from headrace.errors import InputBrokenError, RecordError
from headrace.ledger.reader import LedgerReader, StoredUnit
from headrace.ledger.writer import SqliteLedger
from headrace.policy.budget import Learnt, Most
from headrace.runs.making import Making
from headrace.runs.recall import Recall
from headrace.sources.records import RecordPlaces

_SWOLLEN = 6  # bytes that JSON makes of one at most (\u0000), where a record cannot be rendered any more
_INSTRUCTION = 2_000  # bytes that a re-ask adds to the reply that it answers, generously


def lost_bounds(
    ledger: Path, records: Path, files: Sequence[Path], making: Making, most: Most
) -> Callable[[int], tuple[int, int] | None]:
    """The tokens that each unit whose lease was left open may have taken; asked before the leases are closed, and before another
    process has learnt anything.

    A unit of the run itself (calibration) has no record: it counts as the shared part of the prompt and a page of text.
    """
    reader = LedgerReader(ledger)
    places = RecordPlaces(records, files)
    of_size = kept(reader.meta, [number for number, _ in reader.all("endpoints")], most)
    recall = Recall(making, places, reader)
    try:
        sizes = {stored.unit.seq: _size(stored, recall, making, reader) for stored in reader.leased()}
    finally:
        places.close()
        reader.close()
    without_record = making.renderer.shared_bytes + _INSTRUCTION
    return lambda seq: of_size(sizes.get(seq, without_record))


def known_bound(ledger: SqliteLedger, endpoint: int, knobs: Knobs) -> Learnt | None:
    """What the run has learnt of an endpoint's requests, as long as it asks the same of it."""
    askings = ledger.askings()
    return learnt_before(ledger.get_meta(f"{KEPT}{endpoint}"), knobs.most, lambda n: askings.get(n) == askings[knobs.config])


def _size(stored: StoredUnit, recall: Recall, making: Making, reader: LedgerReader) -> int:
    """The bytes of the payload that was sent, or more."""
    unit, place = stored.unit, stored.place
    try:
        size = len(recall.payload(stored))
    except (RecordError, InputBrokenError):
        size = making.renderer.shared_bytes + _SWOLLEN * place[2]
    if unit.ask and stored.attempt is not None:
        reply = reader.last_reply(stored.attempt)
        size += _SWOLLEN * len((reply.content if reply is not None else None) or "") + _INSTRUCTION
    return size
