"""When a configuration counts as wrong: identical failures on distinct units, and no success yet."""

from __future__ import annotations

import re

from headrace.values import Failure, Kind

ENOUGH = 10
FEWEST = 3
SUSPECT = frozenset({Kind.BAD_REQUEST, Kind.SERVER_ERROR, Kind.PROTOCOL})
_DIGITS = re.compile(r"[0-9]+")


class WrongConfiguration:
    """Counts distinct units by the shape of their failure until the endpoint's first success.

    Ten identical failures (digits masked) on distinct units make a wrong configuration; where the whole job has fewer
    units, all of them, but at least three: one or two say too little. Failures of overload, of single long or filtered
    prompts, and of a connection do not count: these have their own rules.
    """

    def __init__(self) -> None:
        self._units: dict[str, dict[int, None]] = {}
        self._over = False

    def on_success(self) -> None:
        self._over = True
        self._units.clear()

    def on_failure(self, unit: int, failure: Failure, total_units: int | None) -> bool:
        """True when this failure completes the proof. `total_units` is None while the input is still read."""
        if self._over or failure.kind not in SUSPECT:
            return False
        shape = f"{failure.kind} {failure.status} {_DIGITS.sub('#', failure.message)}"
        units = self._units.setdefault(shape, {})
        if len(units) < ENOUGH:
            units[unit] = None
        needed = ENOUGH if total_units is None else min(ENOUGH, max(FEWEST, total_units))
        return len(units) >= needed

    @property
    def suspects(self) -> list[int]:
        """The units that failed so far without any success: they go back to pending once the proof is complete."""
        return list(dict.fromkeys(unit for units in self._units.values() for unit in units))
