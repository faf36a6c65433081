"""THE table: what happens after a failure. Every kind stands in it; there is no default."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headrace.values import STOPPING, Failure, Kind, Sent


class Action(StrEnum):
    RETRY = "retry"  # the same request again, after a back-off that holds no slot
    AGAIN = "again"  # at once: the endpoint has mended how it speaks
    REASK = "reask"  # a new ask with a stricter instruction
    QUARANTINE = "quarantine"  # an answer came and is not acceptable
    FAIL = "fail"  # this unit alone, for good
    STOP = "stop"  # the endpoint or its configuration is wrong: the unit goes back to pending


class Standing(Struct, frozen=True, gc=False):
    """Where a unit stands when its send has failed, that send not counted yet."""

    spent: int
    reasks: int
    max_attempts: int
    retry_invalid: int
    retry_ambiguous: bool
    excused: bool = False  # the endpoint was paused or held to be down: the try does not count


class Verdict(Struct, frozen=True, gc=False):
    """What happens next. `counts`: the send spends one of `max_attempts`. `kind`: what the unit fails as."""

    action: Action
    counts: bool
    kind: Kind


class Row(Struct, frozen=True, gc=False):
    action: Action
    counts: bool


_RETRY_FREE = Row(Action.RETRY, counts=False)
_RETRY = Row(Action.RETRY, counts=True)
_STOP = Row(Action.STOP, counts=False)
_FAIL = Row(Action.FAIL, counts=True)
_REASK = Row(Action.REASK, counts=True)
_QUARANTINE = Row(Action.QUARANTINE, counts=True)

TABLE: dict[Kind, Row] = {
    # time bounds these, not the number of tries
    Kind.RATE_LIMITED: _RETRY_FREE,
    Kind.OVERLOADED: _RETRY_FREE,
    # until the attempts are used up
    Kind.SERVER_ERROR: _RETRY,
    Kind.TIMEOUT: _RETRY,
    Kind.CONNECTION: _RETRY,
    Kind.PROTOCOL: _RETRY,
    # nothing that another unit could do better
    Kind.AUTH: _STOP,
    Kind.QUOTA: _STOP,
    Kind.MODEL_MISSING: _STOP,
    Kind.BAD_ENDPOINT: _STOP,
    Kind.SCHEMA_REFUSED: _STOP,
    Kind.MISCONFIGURED: _STOP,
    # the same request would fail the same way
    Kind.BAD_REQUEST: _FAIL,
    Kind.CONTEXT_TOO_LONG: _FAIL,
    Kind.TOO_LARGE: _FAIL,
    Kind.CONTENT_FILTER: _FAIL,
    Kind.DEADLINE: _FAIL,
    Kind.AMBIGUOUS: _FAIL,
    Kind.BAD_INPUT: _FAIL,
    # an answer came
    Kind.INVALID_JSON: _REASK,
    Kind.SCHEMA_MISMATCH: _REASK,
    Kind.EMPTY: _REASK,
    Kind.TRUNCATED: _QUARANTINE,
    Kind.REFUSAL: _QUARANTINE,
}


def decide(failure: Failure, standing: Standing) -> Verdict:
    """The verdict on one failed send.

    Beyond the table: a mended endpoint is asked again for nothing; what may have been billed is not sent again where
    the job says so; attempts and re-asks run out.
    """
    kind = failure.kind
    row = TABLE[kind]
    if failure.mended:
        return Verdict(Action.AGAIN, counts=False, kind=kind)
    if row.action is Action.RETRY:
        if failure.sent is Sent.MAYBE and not standing.retry_ambiguous:
            return Verdict(Action.FAIL, counts=True, kind=Kind.AMBIGUOUS)
        counts = row.counts and not standing.excused
        if counts and standing.spent + 1 >= standing.max_attempts:
            return Verdict(Action.FAIL, counts=True, kind=kind)
        return Verdict(Action.RETRY, counts=counts, kind=kind)
    if row.action is Action.REASK and standing.reasks >= standing.retry_invalid:
        return Verdict(Action.QUARANTINE, counts=True, kind=kind)
    return Verdict(row.action, row.counts, kind)


def is_server_failure(kind: Kind) -> bool:
    """Kinds that say the endpoint itself is not well: they open the breaker."""
    return kind in _SERVER_FAILURES


_SERVER_FAILURES = frozenset({Kind.SERVER_ERROR, Kind.CONNECTION, Kind.TIMEOUT, Kind.PROTOCOL})
OVERLOAD = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED})

assert set(TABLE) == set(Kind)
assert all(TABLE[kind].action is Action.STOP for kind in STOPPING)
