"""One step of the ramp, and what it delivered."""

from __future__ import annotations

import math

BACK = 0.8  # the share of what a step of the ramp added that must be back
NOISE = 0.5  # the scatter that is allowed for in a ramp, for one completion


class Climb:
    """What all completions delivered until those that this step added came back."""

    __slots__ = ("added", "back", "began", "completions", "seconds", "work")

    def __init__(self, began: float, added: int) -> None:
        self.began = began
        self.added = added
        self.back = 0
        self.completions = 0
        self.work = 0.0
        self.seconds = 0.0

    def is_back(self, now: float, work: float, *, is_added: bool) -> bool:
        """A completion, of a unit that this step added or of another. Whether enough have come to judge it by."""
        self.completions += 1
        self.work += work
        self.back += is_added
        if self.back < BACK * self.added:
            return False
        self.seconds = max(now - self.began, 1e-9)
        return True

    def ratio(self, before: Climb) -> float:
        """How many times as much it delivered a second: in tokens or in requests, whichever says more."""
        pace = before.seconds / self.seconds
        return pace * max(self.work / max(before.work, 1e-9), self.completions / max(before.completions, 1))

    def likely(self, ratio: float) -> float:
        """The ratio, with the scatter of so few completions allowed for."""
        return ratio * (1 + NOISE / math.sqrt(self.completions))
