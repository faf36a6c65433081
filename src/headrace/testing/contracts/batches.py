"""Batches, and what they hold, as tests of a ledger write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.protocols import Batch
from headrace.values import (
    Answer,
    Attempt,
    Item,
    Kind,
    Outcome,
    Reply,
    Sample,
    Sent,
    Slice,
    State,
    Unit,
    Usage,
)

Hook = Callable[[str], None]


class CrashError(Exception):
    """Stands for the end of a process at a statement."""


def batch(**parts: Any) -> Batch:
    made = Batch()
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def hash_of(seq: int) -> bytes:
    return seq.to_bytes(16, "big")


def items(count: int, first: int = 0) -> list[Item]:
    return [Item(seq, 1, seq * 10, 9, seq + 1, f"id {seq}") for seq in range(first, first + count)]


def pieces(count: int, first: int = 0) -> list[tuple[int, int, int]]:
    return [(seq, 0, seq) for seq in range(first, first + count)]


def units_of(count: int, first: int = 0) -> list[Unit]:
    return [Unit(seq=seq, hash=hash_of(seq), item=seq) for seq in range(first, first + count)]


def attempt(unit: int, **changed: Any) -> Attempt:
    """A send that brought a usable reply, unless `changed` says otherwise."""
    usage = changed.pop("usage", Usage(7, 3, 5, 1))
    reply = changed.pop("reply", Reply(content=f"answer {unit}", finish="stop", model="m"))
    given = {"ask": 0, "started_at": 1.5, "seconds": 0.25, "config": 1, "endpoint": 1, "status": 200, **changed}
    return Attempt(unit=unit, reply=reply, usage=usage, **given)


def done(unit: int, usage: Usage | None = None) -> Outcome:
    sent = attempt(unit) if usage is None else attempt(unit, usage=usage)
    return Outcome(unit, State.DONE, sent, Answer(), spent=1, age_s=0.25)


def failed(unit: int) -> Outcome:
    sent = attempt(unit, kind=Kind.BAD_REQUEST, message="no", status=400, reply=None, usage=None)
    return Outcome(unit, State.FAILED, sent, error="bad_request: no", ask=1, spent=2, age_s=0.5)


def quarantined(unit: int) -> Outcome:
    return Outcome(unit, State.QUARANTINED, attempt(unit, kind=Kind.EMPTY, message="empty"), error="empty: empty", spent=1)


def goes_on(unit: int, **progress: Any) -> Outcome:
    sent = attempt(unit, kind=Kind.TIMEOUT, sent=Sent.MAYBE, message="late", status=None, reply=None, usage=None)
    return Outcome(unit, State.LEASED, sent, **progress)


def unsent(unit: int) -> Outcome:
    return Outcome(unit, State.FAILED, None, error="deadline: too late", spent=1, age_s=3600.0)


def full_batch() -> Batch:
    """Something in every part, on top of ten units."""
    return batch(
        items=items(3, 10), pieces=pieces(3, 10), units=units_of(3, 10),
        slices=[Slice(12, 0, "text", 0, 5)], leases=[0, 1, 2, 5, 10],
        outcomes=[done(0), failed(1), goes_on(2), unsent(5)], released=[10], reopened=[1],
        samples=[Sample(1.0, 1, 8, 3, 2, 1, None, paused=False, lag_s=0.01, waiting=3, kv_used=0.5)],
        meta={"reading": {"position": "13"}},
    )  # fmt: skip


def next_batch() -> Batch:
    return batch(leases=[11, 12], outcomes=[done(2), done(11)], meta={"reading": {"position": "14"}})


def crash_at(statement: int) -> Hook:
    """A hook that raises once, at the so-many-th statement of a commit."""
    left: list[int] | None = None

    def hook(name: str) -> None:
        nonlocal left
        if left is None:
            if name not in {"begin", "items", "outcomes"}:
                return  # opening the ledger
            left = list(range(statement + 1))
        if left:
            left.pop()
            if not left:
                raise CrashError(name)

    return hook
