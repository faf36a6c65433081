"""All endpoints of a run: who is free, who is left, and when the whole run stands still."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from headrace.engine.knobs import Asked, Knobs
from headrace.engine.lane import Lane
from headrace.policy.budget import Budget, Purse

PROBE_S = 10.0  # what a probe of an endpoint that is down is held to take, where the last units are given out


class Lanes:
    """The lanes of a run, in the job's order. Work is pulled by whoever is free. Times are loop time; nothing here awaits."""

    def __init__(self, asked: Sequence[Asked], knobs: Knobs, rng: random.Random, budget: Budget | None = None) -> None:
        self.all = [Lane(one, knobs, rng, self.stopped_s) for one in asked]
        if budget is not None:
            for lane, one in zip(self.all, asked, strict=True):
                lane.purse = Purse(budget, lane.bound, one.prices)
        self._one = self.all[0] if len(self.all) == 1 else None
        self._stopped_s = 0.0
        self._stopped_until = 0.0  # up to when `_stopped_s` has been counted

    @property
    def left(self) -> list[Lane]:
        """Those that are still asked."""
        return [lane for lane in self.all if lane.gone is None]

    @property
    def in_flight(self) -> int:
        return sum([len(lane.in_flight) for lane in self.all])

    @property
    def limit(self) -> int:
        """How many may be in flight at once, over all that are still asked."""
        return sum([lane.window.limit for lane in self.all if lane.gone is None])

    def has_others(self, lane: Lane) -> bool:
        """Whether another endpoint can take what this one cannot answer."""
        return any(other is not lane and other.gone is None for other in self.all)

    def free(self, now: float, count_unsent: Callable[[], int | None]) -> Lane | None:
        """Who takes the next unit: of those that may send, the one that answers soonest; None: nobody.

        `count_unsent`: how many units are left to send, None while the input is still read. The last of them are not given to
        one who would still be at them when all the others have finished.
        """
        if self._one is not None:
            return self._one if self._one.may_send(now) else None
        free = [lane for lane in self.all if lane.may_send(now)]
        free.sort(key=_seconds)
        unsent = count_unsent() if free else None
        for lane in free:
            if unsent is None or _seconds(lane) <= self._others_need_s(lane, unsent, now):
                return lane
        return None

    def _others_need_s(self, lane: Lane, unsent: int, now: float) -> float:
        """How long the others would take for what is left to send, infinite where there is nobody to rely on."""
        pace, soonest = 0.0, math.inf
        for other in self.all:
            if other is not lane and other.mean_s > 0.0 and other.is_working(now) and not other.is_short:
                pace += other.window.limit / other.mean_s
                soonest = min(soonest, other.mean_s)
        return unsent / pace + soonest if pace else math.inf

    def stopped_s(self, now: float) -> float:
        """Seconds so far in which every endpoint was paused or held to be down: no unit's deadline runs in them.

        Counted up to now under the state as it has been: called before each change of state.
        """
        since = self._stopped_until
        if now > since:
            shortest = now - since
            for lane in self.all:
                if lane.gone is None:
                    shortest = min(shortest, lane.stopped_within(since, now))
                    if not shortest:
                        break
            self._stopped_s += shortest
            self._stopped_until = now
        return self._stopped_s

    def on_stall(self, now: float, seconds: float) -> None:
        """The process did not run for so long, up to now: that is nobody's time, neither a unit's nor an endpoint's."""
        before = self._stopped_s
        counted = self.stopped_s(now) - before  # all may have been paused anyway
        self._stopped_s += max(0.0, seconds - counted)
        for lane in self.all:
            lane.on_stall(now, seconds)

    def next_chance(self, now: float, due: float | None, *, has_supply: bool) -> float | None:
        """When something can be sent by the passing of time alone; `due`: when the next retry is. What comes back by itself
        needs no alarm.
        """
        chances = [lane.next_chance(now, due, has_supply=has_supply) for lane in self.all if lane.gone is None]
        return min((chance for chance in chances if chance is not None), default=None)

    @property
    def in_trouble(self) -> bool:
        """Whether every endpoint is down or overloaded, so that the passing of time may end the run."""
        return all(lane.breaker.is_down or lane.overloaded_since is not None for lane in self.left)


def _seconds(lane: Lane) -> float:
    """How long a unit takes there: a probe may find nobody."""
    return max(lane.mean_s, PROBE_S) if lane.breaker.is_down else lane.mean_s
