"""Equal lines are said once and counted, so that ten thousand failures are a few lines."""

from __future__ import annotations

import re

DISTINCT = 12
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

    def say(self, line: str) -> str | None:
        """The line to print now, or None."""
        key = _DIGITS.sub("0", line)
        if key not in self._counts and len(self._counts) >= DISTINCT:
            self._beyond += 1
            return "further messages of other kinds are only counted" if self._beyond == 1 else None
        count = self._counts[key] = self._counts.get(key, 0) + 1
        self._last[key] = line
        if not _is_power_of_hundred(count):
            return None
        self._said[key] = count
        return line if count == 1 else f"{line} ({count:,} times)"

    def closing(self) -> list[str]:
        """The counts that were not said yet, at the end."""
        lines = [
            f"{self._last[key]} ({count:,} times in all)" for key, count in self._counts.items() if count > self._said.get(key, 0)
        ]
        if self._beyond > 1:
            lines.append(f"{self._beyond:,} messages of other kinds were not shown")
        return lines


def _is_power_of_hundred(count: int) -> bool:
    while count % 100 == 0:
        count //= 100
    return count == 1
