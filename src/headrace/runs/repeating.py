"""Units that are asked a second time: how often the same configuration flips an answer by itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.errors import InputBrokenError, RecordError
from headrace.ledger.reader import LedgerReader
from headrace.policy.stats import wilson
from headrace.runs.answertext import answer_json
from headrace.runs.asides import AsideIntake
from headrace.runs.making import Making
from headrace.runs.recall import Recall
from headrace.sources.records import RecordPlaces
from headrace.values import State, UnitKind

KIND = UnitKind.REPEAT
REPEATED = "repeated"  # the ledger's name for what came of it
_SALT = b"repeat"


class Repeated(NamedTuple):
    """A unit that is asked again: what is asked, and the unit that has the first answer."""

    payload: bytes
    first: int


def chosen(making: Making, reader: LedgerReader, places: RecordPlaces, count: int) -> dict[bytes, Repeated]:
    """So many answered units by the hash of their second asking. Hashes are as good as drawn, and the same with each command.

    What can no longer be asked, because its record has changed, is left out.
    """
    recall = Recall(making, places, reader)
    found = {}
    for stored in reader.repeatable(count):
        try:
            payload = recall.payload(stored)
        except (RecordError, InputBrokenError):
            continue
        found[making.hasher(payload, _SALT + stored.unit.seq.to_bytes(8, "big"))] = Repeated(payload, stored.unit.seq)
    return found


def repeat_intake(wanted: dict[bytes, Repeated], making: Making, reader: LedgerReader, next_unit: int) -> AsideIntake:
    payloads = {value: one.payload for value, one in wanted.items()}
    return AsideIntake(KIND, payloads, reader, next_unit, judge=making.judge)


def flipped(wanted: dict[bytes, Repeated], reader: LedgerReader) -> dict[str, Any]:
    """How many were answered twice, and how many of those otherwise the second time; with the share's 95 % interval."""
    answered = changed = 0
    for value, state, _, answer, content in reader.all("answers_of_kind", (int(KIND),)):
        if value not in wanted or State(state) is not State.DONE:
            continue
        first = reader.one("answer_of", (wanted[value].first,))
        answered += 1
        changed += answer_json(*first) != answer_json(answer, content)
    return {
        "asked": len(wanted), "answered": answered, "flipped": changed, "share": changed / answered if answered else None,
        "interval": list(wilson(changed, answered)),
    }  # fmt: skip
