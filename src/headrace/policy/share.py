"""How many of ours may be in flight where the server is also others': what they leave idle, and less when they queue up."""

from __future__ import annotations

import math
from collections import deque

from headrace.policy.ceiling import View
from headrace.policy.evidence import Evidence, gain
from headrace.values import Capacity, Gauges

SPARE = 8  # one seat in so many is left free for whoever comes between two polls, at least one
KV_FULL = 0.8  # of the KV cache, with ours: the rest is for others
GROWTH = 1.25  # a poll, where the server does not say its seats
MEMORY_POLLS = 5  # of how many others there were
STAND_BACK_POLLS = 3  # nothing is added so long after others have queued

ROUND = 16  # completions at least, by which a time is judged
SLOWER = 1.08  # against the best seen: somebody queues
CUT = 0.9
FIRST_REST, LONGEST_REST = 4, 32  # rounds before what was too many is tried again
MOST_KEPT = 1000
MOST_ROUNDS = 4  # until a time is judged that is not clear


class Share:
    """Bounds what is in flight of ours at `limit`, which may be 0 where gauges say that others fill the server.

    Where gauges tell how many run and wait, what is not ours is others', and they come first. Without, the time that a
    token takes is held against the best seen: it grows when requests queue or share the server with more of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = 1
        self.rule = "begins"
        self._others: deque[int] = deque(maxlen=MEMORY_POLLS)
        self._stands_back = 0
        self._is_gauged = False
        self._best: Evidence | None = None  # the fastest that was seen
        self._evidence = Evidence()
        self._since = 1  # the first send that counts
        self._climbs = True
        self._too_many: float = math.inf  # with so many of ours it was slower
        self._rest, self._rested = FIRST_REST, 0

    def on_gauges(self, gauges: Gauges, capacity: Capacity, view: View) -> None:
        """A poll. Nothing is learnt where the server does not say how many run."""
        if gauges.running is None:
            return
        self._is_gauged = True
        waiting = gauges.waiting or 0
        others = max(0, gauges.running + waiting - view.in_flight)
        self._others.append(others)
        seats = capacity.requests
        if seats is not None:
            spare = max(1, seats // SPARE)
            self._take(seats - spare - max(self._others), "idle_seats")
        elif self._is_full(gauges):
            self._take(int(view.in_flight * CUT), "cache_full")
        elif not waiting:
            if self._stands_back:
                self._stands_back -= 1
            elif view.in_flight >= self.limit - self.limit // 10:
                self._take(max(self.limit + 1, int(self.limit * GROWTH)), "nobody_waits")
        if waiting and others:
            self._stands_back = STAND_BACK_POLLS
            self._take(min(self.limit, view.in_flight - waiting), "others_wait")

    def on_no_gauges(self) -> None:
        """The server does not say any more how it is loaded."""
        self._is_gauged = False
        self._others.clear()
        self._take(max(1, self.limit), "no_gauges")

    def on_delivered(self, send: int, seconds: float, work: float, in_flight: int, next_send: int) -> None:
        """A reply; `work` is in tokens. Only what was sent since the last change counts."""
        if self._is_gauged or send < self._since:
            return
        evidence = self._evidence
        evidence.add(seconds, work, in_flight)
        if evidence.completions < max(ROUND, self.limit):
            return
        best = self._best
        if best is None:
            self._best = evidence
            self._go_on(in_flight, next_send)
            return
        ratio, error = gain(best, evidence)
        slower = evidence.mean_in_flight / best.mean_in_flight / ratio
        if abs(slower - SLOWER) < 2 * error and evidence.completions < MOST_ROUNDS * max(ROUND, self.limit):
            return  # not clear yet
        if slower > SLOWER:
            self._climbs = False
            self._rest = min(2 * self._rest, LONGEST_REST) if self.limit == self._too_many else FIRST_REST
            self._too_many, self._rested = self.limit, 0
            self._take(max(1, int(min(self.limit - 1, self.limit * CUT / slower))), "slower")
            self._begin(next_send)
            return
        if slower < 1 - 3 * error:
            self._best = evidence
        elif slower <= 1 + 2 * error:
            # The luckiest of many rounds would be a measure that no later one meets.
            best.add_all(evidence)
            if best.completions > MOST_KEPT:
                best.fade()
        self._go_on(in_flight, next_send)

    def _go_on(self, in_flight: int, next_send: int) -> None:
        """As fast as ever: one more, or twice as many before anything was ever slower. What was too many is tried seldom."""
        self._rested += 1
        is_too_many = self.limit + 1 >= self._too_many and self._rested < self._rest
        if in_flight >= self.limit - self.limit // 10 and not is_too_many:
            self._take(self.limit * 2 if self._climbs else self.limit + 1, "as_fast")
        self._begin(next_send)

    def _begin(self, next_send: int) -> None:
        self._evidence = Evidence()
        self._since = next_send

    @staticmethod
    def _is_full(gauges: Gauges) -> bool:
        return gauges.kv_used is not None and gauges.kv_used > KV_FULL

    def _take(self, limit: int, rule: str) -> None:
        self.limit, self.rule = min(max(limit, 0), self._most), rule
