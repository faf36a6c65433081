"""Tokens in flight, against what the server's KV cache holds of them."""

from __future__ import annotations

import math


class Room:
    """What units in flight are expected to hold, prompt and answer together, is kept below `budget`.

    A unit that is larger than all of it may go alone.
    """

    __slots__ = ("budget", "held", "units")

    def __init__(self) -> None:
        self.budget = math.inf
        self.held = 0.0
        self.units = 0

    def takes(self, tokens: float) -> bool:
        """Whether a unit of so many tokens may go now."""
        return self.held + tokens <= self.budget or not self.units

    def take(self, tokens: float) -> None:
        self.held += tokens
        self.units += 1

    def give_back(self, tokens: float) -> None:
        self.units -= 1
        self.held = self.held - tokens if self.units else 0.0  # no rest of rounding is kept for ever
