"""Tokens in flight, against what the server's KV cache holds of them."""

from __future__ import annotations

import math


class Room:
    """What units in flight are expected to hold, prompt and answer together, is kept below `budget`.

    `is_open`: one more may go, as far as is known. A unit for which there is no room closes it until there is; one that is
    larger than all of it goes alone.
    """

    __slots__ = ("_wanted", "budget", "held", "is_open", "units")

    def __init__(self) -> None:
        self.budget = math.inf
        self.held = 0.0
        self.units = 0
        self.is_open = True
        self._wanted = 0.0  # tokens of the unit that waits for room

    def takes(self, tokens: float) -> bool:
        """Whether a unit of so many tokens may go now. If not, the room is closed until it may."""
        self._wanted = tokens
        self._look()
        return self.is_open

    def take(self, tokens: float) -> None:
        self.held += tokens
        self.units += 1
        self._wanted = 0.0
        self.is_open = self.held < self.budget

    def give_back(self, tokens: float) -> None:
        self.units -= 1
        self.held = self.held - tokens if self.units else 0.0  # no rest of rounding is kept for ever
        self._look()

    def allow(self, budget: float) -> None:
        """The budget as it is from now on."""
        self.budget = budget
        self._look()

    def _look(self) -> None:
        self.is_open = not self.units or (self.held + self._wanted <= self.budget and self.held < self.budget)
