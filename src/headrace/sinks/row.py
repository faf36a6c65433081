"""One output record, and the names that our fields get in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct


class OutputRow(Struct, frozen=True):
    """What every sink writes: the input record as it was, and our fields.

    `raw` is the input record's own JSON object, its bytes exactly as read; None for an unreadable record. `answers` are
    our fields in order, under the names that `clash_free` gave them, with JSON-ready values. `answer_json`, where it is
    given, is JSON text (UTF-8, trusted to be valid) that stands for the value of the first field of `answers`: a stored
    answer reaches the output without being parsed.
    """

    raw: bytes | None
    answers: dict[str, Any]
    answer_json: bytes | None = None


def clash_free(names: Iterable[str], ours: Sequence[str]) -> dict[str, str]:
    """The name in the output for each of our fields, given the input's field names: decided once for a whole output.

    The input's fields keep their names; ours gets trailing underscores until it is free. Keys are in the order of `ours`.
    """
    taken = set(names)
    chosen: dict[str, str] = {}
    for name in ours:
        free = name
        while free in taken:
            free += "_"
        taken.add(free)
        chosen[name] = free
    return chosen
