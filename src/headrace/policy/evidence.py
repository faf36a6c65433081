"""What completions say about a window: delivered work per second, and how sure that is."""

from __future__ import annotations

import math
from typing import NamedTuple

HIDDEN = 0.25  # how much of the work's own variance is held to be hidden in times that do not show it


class Gain(NamedTuple):
    """How many times as much one window delivers as another, and the standard error of that."""

    ratio: float
    error: float


class Evidence:
    """Completions under one window, as sums.

    A window of n that is full delivers n x work / seconds: work and seconds of the same requests, so that a few long ones
    weigh in both, and no edge of a time span cuts any. Work is counted in tokens, or in requests where these scatter less.
    """

    __slots__ = ("completions", "in_flight", "seconds", "seconds_2", "work", "work_2", "work_seconds")

    def __init__(self) -> None:
        self.completions: float = 0
        self.in_flight: float = 0
        self.seconds = 0.0
        self.seconds_2 = 0.0
        self.work = 0.0
        self.work_2 = 0.0
        self.work_seconds = 0.0

    def add(self, seconds: float, work: float, in_flight: int) -> None:
        """One completion; `in_flight` counts it too."""
        self.completions += 1
        self.in_flight += in_flight
        self.seconds += seconds
        self.seconds_2 += seconds * seconds
        self.work += work
        self.work_2 += work * work
        self.work_seconds += work * seconds

    def add_all(self, other: Evidence | None) -> None:
        """What another time under the same window has shown."""
        if other is not None:
            for name in self.__slots__:
                setattr(self, name, getattr(self, name) + getattr(other, name))

    def fade(self) -> None:
        """Let what is older weigh half."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) / 2)

    def by_work(self) -> tuple[float, float]:
        """(tokens per second, relative standard error)."""
        if self.seconds <= 0.0 or self.work <= 0.0:
            return 0.0, math.inf
        per_work = self.seconds / self.work
        rest = self.seconds_2 - 2 * per_work * self.work_seconds + per_work * per_work * self.work_2
        return self.mean_in_flight / per_work, math.sqrt(max(rest, 0.0)) / self.seconds

    def by_count(self) -> tuple[float, float]:
        """(requests per second, relative standard error).

        The scatter of the work counts as well: a queue hides it from the times, and still a longer request takes longer.
        """
        if self.seconds <= 0.0:
            return 0.0, math.inf
        mean = self.seconds / self.completions
        rest = self.seconds_2 - self.completions * mean * mean
        uneven = self.work_2 / self.work**2 - 1 / self.completions if self.work > 0.0 else 0.0
        return self.mean_in_flight / mean, math.sqrt(max(rest, 0.0) / self.seconds**2 + HIDDEN * max(uneven, 0.0))

    @property
    def mean_in_flight(self) -> float:
        return self.in_flight / self.completions


def gain(before: Evidence, after: Evidence) -> Gain:
    """What `after` delivers against `before`, in the measure that scatters less."""
    best = Gain(1.0, math.inf)
    for old, new in ((before.by_work(), after.by_work()), (before.by_count(), after.by_count())):
        error = math.hypot(old[1], new[1])
        if old[0] > 0.0 and error < best.error:
            best = Gain(new[0] / old[0], error)
    return best


def may_equal(before: Evidence, after: Evidence, share: float) -> bool:
    """Whether `after` may deliver that share of what `before` does, in either measure."""
    pairs = ((before.by_work(), after.by_work()), (before.by_count(), after.by_count()))
    return any(new[0] >= old[0] * (share - old[1] - new[1]) for old, new in pairs)


def kink(below: Evidence, middle: Evidence, above: Evidence) -> Gain:
    """How far a server between `middle` and `above` is from what it was between `below` and `middle` to being full.

    0: the time that a request takes still grows with the number in flight as it did (a batch that grows does that); 1: as
    it does where nothing more is delivered. A share, as `ratio`, and its standard error; infinite where nothing can be told.
    """
    n_below, n_middle, n_above = (evidence.in_flight / evidence.completions for evidence in (below, middle, above))
    if not n_below < n_middle < n_above:
        return Gain(0.0, math.inf)
    first, second = gain(below, middle), gain(middle, above)
    time_middle = n_middle / n_below / first.ratio  # of a request, against that below
    time_above = time_middle * n_above / n_middle / second.ratio
    usual = max(0.0, (time_middle - 1) / (n_middle - n_below))
    full = time_middle / n_middle
    if full - usual < full / 4:
        return Gain(0.0, math.inf)  # it has hardly grown before: there is no knee to come
    share = ((time_above - time_middle) / (n_above - n_middle) - usual) / (full - usual)
    error = time_middle * second.error / (n_above - n_middle) + time_middle * first.error / (n_middle - n_below)
    return Gain(share, error / (full - usual))


def is_bent(below: Evidence | None, middle: Evidence, above: Evidence, bent: float) -> bool:
    """Whether the `kink` is clearly larger than that; not where there is nothing below to compare with."""
    if below is None:
        return False
    share, error = kink(below, middle, above)
    return share > bent and share > 1.5 * error
