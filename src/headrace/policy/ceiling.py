"""How much may be in flight by what the server itself says: its slots, its KV cache, who waits, who was put back."""

from __future__ import annotations

import math
from collections import deque

from msgspec import Struct

from headrace.values import Capacity, Gauges

FULL = 0.97  # the KV cache is used up to here: what is generated in the next second has to fit as well
NEARLY = 0.9  # of the budget in flight: less says nothing about what more would do
MOST_GROWTH = 1.15
HALF_EMPTY, MOST_GROWTH_EMPTY = 0.7, 1.5
LEAST_CUT, MOST_CUT = 0.02, 0.15
STANDING = 0.03  # a queue of this share of what is in flight keeps the server fed
BACK_OFF = 0.985  # how near the fill that was too much is approached again
FIRST_REST, LONGEST_REST = 16, 256  # in requests' times: after so long what was too much is tried again
LEAST_FILL = 0.01
TELLING = 0.3  # from this share on, use tells the size of a cache that is not told
PART_TO_COME = 0.4  # of an answer in flight, on average, with something to spare
FEW_POLLS = 3
QUEUE_POLLS = 2
LEVEL_POLLS = 6
LEVEL = 0.02
FOREIGN_POLLS = 5
FOREIGN_SHARE = 0.6
_REFUSES_MORE = frozenset({"tgi", "tei"})


class View(Struct, frozen=True):
    """Our side at the time of a poll. The means are those of a request of late, `mean_s` 0 before the first reply."""

    now: float
    in_flight: int
    held: float  # tokens expected in flight
    mean_s: float
    mean_tokens: float
    mean_answer: float


class Ceiling:
    """Follows one server's own figures. `requests` and `tokens` may be in flight: None and infinite where it does not say.

    Slots are taken as said. Of a KV cache the first budget is what it holds, all answers counted whole; since few answers are
    whole at a time, the budget grows while the fullest that the cache was seen stays below `FULL`, and is cut for requests that
    were put back or wait for room, once for what is in flight. Where seats are not told, the budget is approached from
    `start` by doubling, a poll each, while nobody waits. A page that tells of less than what is in flight is that of one
    server out of several: then nothing is known.
    """

    def __init__(self, capacity: Capacity, start: int) -> None:
        self._capacity = capacity
        self._tokens: float | None = capacity.tokens
        # Slots of llama.cpp that share a cache fail a request for which there is no room, instead of putting it back.
        self._is_hard = capacity.server == "llama.cpp"
        # Slots that have a cache each need no budget together.
        slots, context = capacity.requests or 0, capacity.context or 0
        self._is_divided = self._is_hard and 0 < slots * context <= (capacity.tokens or 0)
        self.fill = 1.0
        self.rule = "told"
        self._reach = start
        self._reached = False  # with the last poll
        self._seats: int | None = None  # learnt: so many ran while others waited, and the cache was not full
        self._peak = 0.0
        self._polls = 0
        self._changed_at = -math.inf
        self._preemptions: int | None = None
        self._too_much = math.inf
        self._rest = FIRST_REST
        self._retry_at = 0.0
        self._foreign = 0
        self._queued = 0  # polls in a row at which requests waited
        self._plateau: deque[int] = deque(maxlen=LEVEL_POLLS)  # how many ran while others waited

    @property
    def is_known(self) -> bool:
        """Whether the server's figures bound anything."""
        return self.tokens < math.inf or self.requests is not None

    @property
    def is_whole(self) -> bool:
        """Whether the page tells of the whole of who answers."""
        return self._foreign < FOREIGN_POLLS

    @property
    def is_queueing(self) -> bool:
        """Whether the server keeps requests waiting, so that more of them would only wait as well."""
        return self.is_whole and self._queued >= QUEUE_POLLS

    @property
    def most(self) -> int | None:
        """So many are refused, or fewer: a bound that says nothing about how many are worked on at once."""
        return self._capacity.requests if self._capacity.server in _REFUSES_MORE and self.is_whole else None

    @property
    def requests(self) -> int | None:
        told = self._capacity.requests if self._capacity.server not in _REFUSES_MORE else None
        if not self.is_whole or (told is None and self.tokens == math.inf):
            return None
        if told is not None:
            return told
        return self._reach if self._seats is None else min(self._reach, self._seats)

    @property
    def is_reaching(self) -> bool:
        """Whether the next poll may allow more already."""
        return self._reached

    @property
    def tokens(self) -> float:
        if self._tokens is None or not self.is_whole or self._is_divided:
            return math.inf
        return self._tokens * self.fill

    def on_gauges(self, gauges: Gauges, view: View) -> None:
        """A poll. Cuts at most once, and grows at most once, in the time that a request takes."""
        self._judge_whole(gauges, view)
        preempted = self._preempted(gauges)
        if self._tokens is None and gauges.kv_used is not None and gauges.kv_used >= TELLING and view.mean_s > 0.0:
            self._tokens = view.held / gauges.kv_used  # it does not say what it holds, but how much of it this is
            self._reach = max(self._reach, view.in_flight)
        self._peak = max(self._peak, self._used(gauges, view))
        self._polls += 1
        waiting = _waiting(gauges)
        is_queue = waiting > 1 + STANDING * view.in_flight
        self._queued = self._queued + 1 if is_queue else 0
        self._learn_seats(gauges, view)
        self._extend_reach(gauges, view, is_queue=is_queue)
        if view.mean_s <= 0.0 or self._is_hard:
            return
        if view.now - self._changed_at < view.mean_s:
            return
        if preempted or (is_queue and (gauges.kv_used is None or gauges.kv_used >= NEARLY)):
            self._cut(preempted, waiting, view)
        elif not is_queue and self._polls >= FEW_POLLS and view.held >= NEARLY * self.tokens:
            self._grow(view)

    def _extend_reach(self, gauges: Gauges, view: View, *, is_queue: bool) -> None:
        """As far as the server has been asked for, it has taken in, and nobody waits. A busy server's page may lag behind."""
        seen = (gauges.running or 0) + (gauges.waiting or 0)
        self._reached = not is_queue and NEARLY * self._reach <= view.in_flight and NEARLY * view.in_flight <= seen
        if self._reached:
            self._reach *= 2

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
        if self._peak < HALF_EMPTY:  # what was too much once is not too much now: others have gone, or answers are shorter
            self._too_much, self._rest = math.inf, FIRST_REST
        most = MOST_GROWTH if self._peak >= HALF_EMPTY else MOST_GROWTH_EMPTY
        wanted = self.fill * min(FULL / max(self._peak, 0.01), most)
        if wanted > self._too_much * BACK_OFF:
            if view.now >= self._retry_at:
                self._too_much = math.inf
            wanted = max(self.fill, min(wanted, self._too_much * BACK_OFF))
        self._change(wanted, "room_left", view.now)

    def _learn_seats(self, gauges: Gauges, view: View) -> None:
        """Requests wait although the cache has room, and the same number runs all the time: there are no more seats.

        Where prompts wait to be computed, how many run goes up and down.
        """
        running, waiting = gauges.running, _waiting(gauges)
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
        self.fill, self.rule, self._changed_at = max(fill, LEAST_FILL), rule, now
        self._peak, self._polls = 0.0, 0

    def _used(self, gauges: Gauges, view: View) -> float:
        """The share of the cache that is used: as told, or else as expected where about half of each answer is there."""
        if gauges.kv_used is not None or self._tokens is None or view.mean_tokens <= 0.0:
            return gauges.kv_used or 0.0
        return view.held / self._tokens * (1 - PART_TO_COME * view.mean_answer / view.mean_tokens)

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


def _waiting(gauges: Gauges) -> int:
    """Those that wait for room; others wait for something of their own."""
    for_room = gauges.waiting_for_capacity
    return for_room if for_room is not None else gauges.waiting or 0
