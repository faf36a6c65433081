"""Times in which this process did not run: it was stopped, or its event loop was kept by something else."""

from __future__ import annotations

import math
from collections import deque

LEAST_S = 1.0
_KEPT = 64


class Stalls:
    """Knows them by a beat that came late. Times are loop time; less than a second is no stall.

    Whoever wakes first after one asks whether `now` is past `late_at`, and calls `note`.
    """

    def __init__(self) -> None:
        self.late_at = math.inf
        self.last = -math.inf  # when the last one ended
        self._spans: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def expect(self, due: float) -> None:
        """The next beat is due then."""
        self.late_at = due + LEAST_S

    def note(self, now: float) -> float:
        """A beat, or what came before it. Returns the seconds of a stall that has just ended, else 0."""
        due = self.late_at - LEAST_S
        if now <= self.late_at:
            return 0.0
        self._spans.append((due, now))
        self.last = now
        self.expect(now)
        return now - due

    def within(self, since: float) -> float:
        """Seconds stalled from then on."""
        if since >= self.last:
            return 0.0
        return sum([end - max(begin, since) for begin, end in self._spans if end > since])
