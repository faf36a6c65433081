"""`slice.split.join`: the answers to an item's pieces become the item's."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.slicing.gaps import between


class Joined(Struct, frozen=True):
    """An item's answer. After a vote `share` is the part of the pieces that gave it, and `tied` are the answers that as many
    gave and that were not taken.
    """

    value: Any
    share: float | None = None
    tied: list[Any] = []


def join(how: str, answers: Sequence[Any], gaps: Sequence[int]) -> Joined:
    """Join the answers in the order of their pieces. `gaps[n]` is what stood behind the n-th, see `headrace.slicing.gaps`."""
    if how == "vote":
        return vote(answers)
    if how == "concat":
        return Joined(concat(answers, gaps))
    return Joined(list(answers))


def concat(answers: Sequence[Any], gaps: Sequence[int]) -> Any:
    """Texts become one text, lists one list; the one answer of an item that was not divided stays what it is.

    Anything else cannot be put together and is listed.
    """
    if len(answers) == 1:
        return answers[0]
    if all(isinstance(answer, str) for answer in answers):
        parts: list[str] = []
        for n, answer in enumerate(answers):
            if n and answer:
                before = next((part for part in reversed(parts) if part), "")
                if before:
                    parts.append(between(before, gaps[n - 1], answer))
            parts.append(answer)
        return "".join(parts)
    if all(isinstance(answer, list) for answer in answers):
        return [entry for answer in answers for entry in answer]
    return list(answers)


def vote(answers: Sequence[Any]) -> Joined:
    """The answer that most pieces gave; of several the one that came first. 1 and 1.0 are one answer, as JSON has one kind of
    number.
    """
    votes: dict[bytes, int] = {}
    values: dict[bytes, Any] = {}
    for answer in answers:
        key = canon.canonical(_numbered(answer))
        votes[key] = votes.get(key, 0) + 1
        values.setdefault(key, answer)
    most = max(votes.values())
    winner, *tied = [key for key, count in votes.items() if count == most]
    return Joined(values[winner], round(most / len(answers), 6), [values[key] for key in tied])


def _numbered(value: Any) -> Any:
    """The value with each whole number as an integer, whether or not a point or an exponent was written; 1e30 exactly."""
    if isinstance(value, float):
        return int(Decimal(repr(value))) if value.is_integer() else value
    if isinstance(value, list):
        return [_numbered(one) for one in value]
    if isinstance(value, dict):
        return {name: _numbered(one) for name, one in value.items()}
    return value


def levels(count: int, length: float, room: float) -> list[int]:
    """How many requests each level of a reducing prompt has for so many answers, if each of them is about `length` long.

    Where nothing was divided there is none. For whoever wants to know before anything is sent.
    """
    found: list[int] = []
    while count > 1:
        found.append(count := len(groups([length] * count, room)))
    return found


def groups(lengths: Sequence[float], room: float) -> list[tuple[int, int]]:
    """Which answers a reducing prompt is given at a time: neighbours that fit together, and always two at least.

    So each level has at most half as many as the one below. Of one answer there is one group.
    """
    found: list[tuple[int, int]] = []
    first, held = 0, 0.0
    for n, length in enumerate(lengths):
        if n - first >= 2 and held + length > room:
            found.append((first, n))
            first, held = n, 0.0
        held += length
    if found and len(lengths) - first == 1:  # nobody to go with
        first, _ = found.pop()
    found.append((first, len(lengths)))
    return found
