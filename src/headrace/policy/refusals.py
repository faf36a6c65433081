"""Refusals of late: which share of them is usual, and whether those since the last change are more than that."""

from __future__ import annotations

import math

RARE = 0.005  # a usual share below this: one is news
MEMORY = 100.0  # completions over which the usual share is kept


class Refusals:
    """`count` since the last change of the window; `usual` is the share of all."""

    __slots__ = ("answers", "count", "usual")

    def __init__(self) -> None:
        self.count = self.answers = 0
        self.usual = 0.0

    def on_answer(self, *, counts: bool) -> None:
        """`counts`: it was sent since the last change."""
        if self.usual:
            self.usual -= self.usual / MEMORY
        self.answers += counts

    def on_refusal(self, *, counts: bool) -> bool:
        """Whether those since the last change are more than is usual."""
        usual = self.usual
        self.usual += (1.0 - usual) / MEMORY
        if not counts:
            return False
        self.count += 1
        seen = self.count + self.answers
        return self.count > (usual > RARE) + 2 * usual * seen + 3 * math.sqrt(usual * seen)

    def forget(self) -> None:
        """The window has changed."""
        self.count = self.answers = 0

    @property
    def are_usual(self) -> bool:
        return self.usual > RARE
