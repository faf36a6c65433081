"""When a configuration counts as wrong: identical failures on distinct units, and no success yet."""

from __future__ import annotations

import re

from headrace.values import Failure, Kind

ENOUGH = 10
FEWEST = 3
MOST_SHAPES = 256  # a server may put something new into every message
SUSPECT = frozenset({Kind.BAD_REQUEST, Kind.SERVER_ERROR, Kind.PROTOCOL})
_DIGITS = re.compile(r"[0-9]+")


class WrongConfiguration:
    """Counts distinct units by the shape of their failure until the endpoint's first success.

    Ten identical failures (digits masked) on distinct units make a wrong configuration; where the whole job has fewer
    units, all of them, but at least three: one or two say too little. Failures of overload, of single long or filtered
    prompts, and of a connection do not count: these have their own rules. Of shapes only the latest 256 are held.
    """

    def __init__(self) -> None:
        self._units: dict[str, dict[int, None]] = {}  # by shape, the latest seen last
        self._over = False
        self._proven = False

    def on_success(self) -> None:
        self._over = True
        self._units.clear()

    def on_failure(self, unit: int, failure: Failure, total_units: int | None) -> bool:
        """True when the proof is complete: with this failure, or before it and this one was still on its way.

        `total_units` is None while the input is still read.
        """
        if self._over or failure.mended or failure.kind not in SUSPECT:
            return False
        shape = f"{failure.kind} {failure.status} {_DIGITS.sub('#', failure.message)}"
        units = self._units.pop(shape, {})
        units[unit] = None
        self._units[shape] = units
        if len(units) >= _needed(total_units):
            self._proven = True
        elif not self._proven and len(self._units) > MOST_SHAPES:
            del self._units[next(iter(self._units))]
        return self._proven

    def on_input_read(self, total_units: int) -> bool:
        """The job's size is known: True when all of a small job's units have failed alike already."""
        if not self._over and any(len(units) >= _needed(total_units) for units in self._units.values()):
            self._proven = True
        return self._proven

    def forget(self, unit: int) -> None:
        """A unit has failed for good for a reason of its own: it is not taken back with the others."""
        for units in self._units.values():
            units.pop(unit, None)

    @property
    def suspects(self) -> list[int]:
        """The units that failed so far without any success: they go back to pending once the proof is complete."""
        return list(dict.fromkeys(unit for units in self._units.values() for unit in units))


def _needed(total_units: int | None) -> int:
    return ENOUGH if total_units is None else min(ENOUGH, max(FEWEST, total_units))
