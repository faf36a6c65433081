"""How much may be in flight by what the server itself says: its slots, its KV cache, who waits, who was put back."""

from __future__ import annotations

import math
from collections import deque

from msgspec import Struct

from headrace.values import Capacity, Gauges

FULL = 0.97  # the KV cache is used up to here: what is generated in the next second has to fit as well
NEARLY = 0.9  # of the budget in flight: less says nothing about what more would do
MOST_GROWTH = 1.15
LEAST_CUT, MOST_CUT = 0.02, 0.15
STANDING = 0.03  # a queue of this share of what is in flight keeps the server fed
BACK_OFF = 0.985  # how near the fill that was too much is approached again
FIRST_REST, LONGEST_REST = 16, 256  # in requests' times: after so long what was too much is tried again
FEW_POLLS = 3
LEVEL_POLLS = 6
LEVEL = 0.02
FOREIGN_POLLS = 5
FOREIGN_SHARE = 0.6


class View(Struct, frozen=True):
    """Our side at the time of a poll. `mean_s` and `mean_tokens` are those of a request of late, 0 before the first reply."""

    now: float
    in_flight: int
    held: float  # tokens expected in flight
    mean_s: float
    mean_tokens: float


class Ceiling:
    """Follows one server's own figures. `requests` and `tokens` may be in flight: None and infinite where it does not say.

    Slots are taken as said. Of a KV cache the first budget is what it holds, all answers counted whole; since few answers are
    whole at a time, the budget grows while the fullest that the cache was seen stays below `FULL`, and is cut for requests that
    were put back or wait for room, once for what is in flight. A page that tells of less than what is in flight is that of
    one server out of several: then nothing is known.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        # Slots of llama.cpp that share a cache fail a request for which there is no room, instead of putting it back.
        self._is_hard = capacity.server == "llama.cpp"
        self.fill = 1.0
        self.rule = "told"
        self._seats: int | None = None  # learnt: so many ran while others waited, and the cache was not full
        self._peak = 0.0
        self._polls = 0
        self._changed_at = -math.inf
        self._preemptions: int | None = None
        self._too_much = math.inf
        self._rest = FIRST_REST
        self._retry_at = 0.0
        self._foreign = 0
        self._plateau: deque[int] = deque(maxlen=LEVEL_POLLS)  # how many ran while others waited

    @property
    def is_known(self) -> bool:
        """Whether the server's figures bound anything."""
        return self.is_whole and (self._capacity.tokens is not None or self.requests is not None)

    @property
    def is_whole(self) -> bool:
        """Whether the page tells of the whole of who answers."""
        return self._foreign < FOREIGN_POLLS

    @property
    def requests(self) -> int | None:
        told = self._capacity.requests
        if not self.is_whole:
            return None
        return told if self._seats is None else self._seats if told is None else min(told, self._seats)

    @property
    def tokens(self) -> float:
        told = self._capacity.tokens
        return math.inf if told is None or not self.is_whole else told * self.fill

    def on_gauges(self, gauges: Gauges, view: View) -> None:
        """A poll. Cuts at most once, and grows at most once, in the time that a request takes."""
        self._judge_whole(gauges, view)
        preempted = self._preempted(gauges)
        self._peak = max(self._peak, gauges.kv_used or 0.0)
        self._polls += 1
        if view.mean_s <= 0.0 or self._is_hard:
            return
        waiting = self._waiting(gauges)
        is_queue = waiting > 1 + STANDING * view.in_flight
        self._learn_seats(gauges, view)
        if view.now - self._changed_at < view.mean_s:
            return
        if preempted or (is_queue and (gauges.kv_used is None or gauges.kv_used >= NEARLY)):
            self._cut(preempted, waiting, view)
        elif not is_queue and gauges.kv_used is not None and self._polls >= FEW_POLLS and view.held >= NEARLY * self.tokens:
            self._grow(view)

    def _cut(self, preempted: int, waiting: int, view: View) -> None:
        share = min(max((preempted + waiting) / max(view.in_flight, 1), LEAST_CUT), MOST_CUT)
        self._too_much = self.fill
        if preempted:
            self._rest = min(2 * self._rest, LONGEST_REST)
        self._retry_at = view.now + self._rest * view.mean_s
        self._change(self.fill * (1 - share), "preempted" if preempted else "waits_for_room", view.now)

    def _grow(self, view: View) -> None:
        if self._peak >= FULL:
            if self._peak > (1 + FULL) / 2:
                self._change(self.fill * FULL / self._peak, "full", view.now)
            else:
                self._peak, self._polls = 0.0, 0
            return
        wanted = self.fill * min(FULL / max(self._peak, 0.01), MOST_GROWTH)
        if wanted > self._too_much * BACK_OFF:
            if view.now >= self._retry_at:
                self._too_much = math.inf
            wanted = max(self.fill, min(wanted, self._too_much * BACK_OFF))
        self._change(wanted, "room_left", view.now)

    def _learn_seats(self, gauges: Gauges, view: View) -> None:
        """Requests wait although the cache has room, and the same number runs all the time: there are no more seats.

        Where prompts wait to be computed, how many run goes up and down.
        """
        running, waiting = gauges.running, self._waiting(gauges)
        if running is None or gauges.kv_used is None or self._capacity.requests is not None:
            return
        if waiting <= STANDING * view.in_flight or gauges.kv_used >= NEARLY:
            self._plateau.clear()
            if self._seats is not None and waiting == 0 and view.in_flight >= NEARLY * self._seats:
                self._seats += max(1, self._seats // 10)
            return
        self._plateau.append(running)
        if len(self._plateau) == self._plateau.maxlen and max(self._plateau) - min(self._plateau) <= LEVEL * running:
            self._seats = max(1, running + max(1, round(STANDING * running)))
            self._plateau.clear()

    def _change(self, fill: float, rule: str, now: float) -> None:
        self.fill, self.rule, self._changed_at = fill, rule, now
        self._peak, self._polls = 0.0, 0

    def _waiting(self, gauges: Gauges) -> int:
        for_room = gauges.waiting_for_capacity
        return for_room if for_room is not None else gauges.waiting or 0

    def _preempted(self, gauges: Gauges) -> int:
        """How many were put back since the last poll; a count that has gone down began anew."""
        before, self._preemptions = self._preemptions, gauges.preemptions
        return max(0, gauges.preemptions - before) if before is not None and gauges.preemptions is not None else 0

    def _judge_whole(self, gauges: Gauges, view: View) -> None:
        if gauges.running is None:
            return
        seen = gauges.running + (gauges.waiting if gauges.waiting is not None else view.in_flight)
        is_foreign = seen < FOREIGN_SHARE * view.in_flight - 1
        step = 1 if is_foreign else -1
        self._foreign = min(max(self._foreign + step, 0), 2 * FOREIGN_POLLS)
