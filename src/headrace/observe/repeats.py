"""Equal lines are said once and counted, so that ten thousand failures are a few lines."""

from __future__ import annotations

import re

DISTINCT = 12
BEYOND = "further messages of other kinds are only counted"
_DIGITS = re.compile(r"\d+")


class Repeats:
    """Which lines to say. Lines that differ only in numbers are equal; at most DISTINCT different ones are said.

    A line is said the first, the hundredth, the ten thousandth time and so on, later ones with their count.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._last: dict[str, str] = {}
        self._beyond = 0

    def count(self, line: str) -> int | None:
        """How often the line has come, where it is to be said now; None where it is not, 0 for saying BEYOND instead."""
        key = _DIGITS.sub("0", line)
        if key not in self._counts and len(self._counts) >= DISTINCT:
            self._beyond += 1
            return 0 if self._beyond == 1 else None
        count = self._counts[key] = self._counts.get(key, 0) + 1
        self._last[key] = line
        if not _is_power_of_hundred(count):
            return None
        self._said[key] = count
        return count

    def unsaid(self) -> list[tuple[str, int]]:
        """Lines whose count has grown since they were said last, each with its count."""
        return [(self._last[key], count) for key, count in self._counts.items() if count > self._said.get(key, 0)]

    @property
    def beyond(self) -> int:
        """How many lines of further kinds came, of which none was said."""
        return self._beyond


def _is_power_of_hundred(count: int) -> bool:
    while count % 100 == 0:
        count //= 100
    return count == 1
