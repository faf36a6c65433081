"""Values as rows of the ledger. Only plain int, float, str and bytearray: sqlite3 binds those at a tenth of the others' cost.

So a missing text goes in as 0, a missing number as the empty text (each a value that its column cannot otherwise have,
turned into null by the statement), an enum as its int or str, and a hash as a bytearray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from headrace import canon
from headrace.ledger.notes import to_bits
from headrace.values import Attempt, Item, Outcome, Sample, Slice, State, Unit

NO_TEXT = 0
NO_NUMBER = ""
_NO_USAGE = (NO_NUMBER,) * 4
_LARGEST = 2**63 - 1


def item_row(item: Item) -> tuple[Any, ...]:
    return (
        item.seq, item.file, item.offset, item.length, item.number, 1 if item.readable else 0, item.notes,
        _name(item), NO_TEXT if item.error is None else item.error,
    )  # fmt: skip


def _name(item: Item) -> Any:
    """The id as JSON; null where it is the number itself. True and 1.0 equal 1 and are not it."""
    value = item.id
    if value is None or (type(value) is int and value == item.number):
        return NO_TEXT
    try:
        return orjson.dumps(value).decode() if type(value) is str else canon.encode(value).decode()
    except TypeError:  # a lone surrogate
        return canon.encode(value).decode()


def unit_row(unit: Unit, config: int) -> tuple[Any, ...]:
    return (unit.seq, bytearray(unit.hash), +unit.kind, config, unit.item, unit.n)


def slice_row(part: Slice) -> tuple[Any, ...]:
    return (part.item, part.n, part.field, part.start, part.stop, part.gap)


def attempt_row(number: int, outcome: Outcome, a: Attempt) -> tuple[Any, ...]:
    usage, reply, answer = a.usage, a.reply, outcome.answer
    finish: Any = NO_TEXT
    model: Any = NO_TEXT
    content: Any = NO_TEXT
    reasoning: Any = NO_TEXT
    refusal: Any = NO_TEXT
    if reply is not None:
        finish = NO_TEXT if reply.finish is None else reply.finish
        model = NO_TEXT if reply.model is None else reply.model
        content = NO_TEXT if reply.content is None else reply.content
        reasoning = NO_TEXT if reply.reasoning is None else reply.reasoning
        refusal = NO_TEXT if reply.refusal is None else reply.refusal
    return (
        number, a.unit, a.ask, a.config, a.endpoint, a.started_at, a.seconds, +a.origin,
        NO_TEXT if a.kind is None else str(a.kind), str(a.sent), NO_NUMBER if a.status is None else a.status,
        *(
            _NO_USAGE
            if usage is None
            else (
                NO_NUMBER if usage.prompt is None else usage.prompt,
                NO_NUMBER if usage.completion is None else usage.completion,
                NO_NUMBER if usage.cached is None else usage.cached,
                NO_NUMBER if usage.reasoning is None else usage.reasoning,
            )
        ),
        to_bits(answer.notes) if answer is not None and answer.notes else 0,
        finish, model, NO_TEXT if a.message is None else a.message,
        NO_TEXT if answer is None or answer.value is None else answer.value, content, reasoning, refusal,
    )  # fmt: skip


def score_row(number: int, outcome: Outcome, likeliest: list[tuple[str, float]]) -> tuple[Any, ...]:
    confidence = outcome.answer.confidence if outcome.answer is not None else None
    return (number, NO_NUMBER if confidence is None else confidence, canon.encode(likeliest).decode())


def bound_row(number: int, most: tuple[int, int]) -> tuple[Any, ...]:
    return (number, *most)


def settled_row(number: int, outcome: Outcome, a: Attempt) -> tuple[Any, ...]:
    """What `settle` takes: a whole row of `unit`, of which a unit that is there keeps its own hash, kind, item and n."""
    error = NO_TEXT if outcome.error is None else outcome.error
    if outcome.ask and a.reply is None and outcome.state < State.DONE:
        number = -number  # the reply that the re-ask answers stays the unit's: another process needs it to ask again
    return (outcome.unit, a.config, +outcome.state, outcome.ask, outcome.spent, outcome.age_s, number, error)


def unsent_row(outcome: Outcome) -> tuple[Any, ...]:
    error = NO_TEXT if outcome.error is None else outcome.error
    return (+outcome.state, outcome.ask, outcome.spent, outcome.age_s, error, outcome.unit)


def sample_row(s: Sample) -> tuple[Any, ...]:
    bound_by = NO_TEXT if s.bound_by is None else s.bound_by
    return (s.at, s.endpoint, s.window, s.in_flight, s.settled, s.retries, 1 if s.paused else 0, s.lag_s, bound_by)


def made_storable(values: Sequence[Any]) -> list[Any]:
    """The same values as SQLite can hold them: a text with a lone surrogate as its bytes (`headrace.ledger.reader.as_text`
    reads it back), an integer within 64 bits.
    """
    return [_storable(value) for value in values]


def _storable(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return min(max(value, -_LARGEST - 1), _LARGEST)
    return value
