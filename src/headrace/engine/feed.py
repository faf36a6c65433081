"""From the pool to durable leases, and back again what is to be sent once more."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable

from headrace.engine.committer import Committer
from headrace.engine.pool import Pool
from headrace.engine.supply import Supply
from headrace.engine.work import Work
from headrace.errors import HeadraceError
from headrace.protocols import Batch
from headrace.values import Capacity, Failure, Reply

LEASED_AHEAD_S = 0.25  # where each answer may change the order, leases are taken for so long ahead
# What goes in so long is leased at once, however small the window: less would be gone before more can be durable.
COMMITTED_WITHIN_S = 0.1


class Feed:
    """Supplies leased units in the pool's order; retries come back through it when they are due."""

    def __init__(self, supply: Supply, committer: Committer, pool: Pool) -> None:
        self._supply = supply
        supply.pace, supply.on_more, supply.on_looked = self._pace, self._top_up, self._begin
        self._committer = committer
        self._pool = pool
        self._may_lease = pool.is_input
        self._is_held = False  # leases are wanted, and what there is waits for an answer
        self._leasing: deque[Work] = deque()
        self._ready: deque[Work] = deque()
        self._waiting: list[tuple[float, int, Work]] = []
        self._holding: dict[int, Work] = {}
        self._order = 0
        self._out = 0  # units that were taken and are not back
        self._aim = 0  # leases that were wanted when last looked,
        self._taken = 0  # and units taken since
        self._answers = 0
        self._began = math.inf  # when the first was taken
        self.made = supply.made
        self.window = 1
        self._stopped = False
        self.rate = math.inf  # units settled per second, lately; not known yet: do not read ahead

    # -- what is there

    @property
    def read_done(self) -> bool:
        return self._supply.read_done

    @property
    def intake_error(self) -> HeadraceError | None:
        return self._supply.intake_error

    @property
    def longest(self) -> bytes:
        """The longest payload that has been seen."""
        return self._supply.longest

    @property
    def total(self) -> int:
        """Units known, this process and before."""
        return self._supply.total

    async def run(self) -> None:
        """Read and recall until everything has been fed, or reading is over after a stop."""
        await self._supply.run()

    @property
    def starved_by(self) -> str | None:
        """What keeps a free slot empty. None: everything is on its way or waits for its next try."""
        if self._leasing or not self._supply.is_recorded:
            return "ledger"
        if not self.read_done or self._supply.is_behind:
            return "source"
        return "endpoint" if self.waiting or len(self._pool) or len(self.made) else None

    @property
    def waiting(self) -> int:
        """Units that wait for their next try."""
        return len(self._waiting) + len(self._holding)

    @property
    def has_ready(self) -> bool:
        """Whether units wait that may be sent at once."""
        return bool(self._ready)

    @property
    def has_supply(self) -> bool:
        return bool(self._ready or self._leasing or len(self._pool) or len(self.made))

    def on_dry(self, callback: Callable[[], None]) -> None:
        """Call back once everything that was read has been fed, where `run` lasts longer than that."""
        self._supply.on_dry = callback

    def on_capacity(self, capacity: Capacity) -> None:
        """A server has said what it is."""
        self._pool.order.has_own_caches |= capacity.server == "llama.cpp"

    def finish(self) -> None:
        """Let `run` come to its end: nothing will be made of answers any more."""
        self._supply.finish()

    @property
    def next_due(self) -> float | None:
        """When something may be sent by the passing of time alone."""
        due, held = self._waiting[0][0] if self._waiting else None, self._pool.order.release_at
        return due if held is None or not self._is_held else held if due is None else min(due, held)

    # -- taking

    def take(self, now: float, *, prefer_fresh: bool) -> Work | None:
        """The next unit to send: a retry that is due, else the next in order. None when there is none now."""
        due = bool(self._waiting) and self._waiting[0][0] <= now
        if self._is_held and not self._ready:
            self._top_up()
        if self._ready and (prefer_fresh or not due) and (due or self.waiting < max(4 * self.window, 1024)):
            work = self._ready.popleft()
            self._out += 1
            if not self._answers:
                self._began = min(self._began, now)
            self._taken += 1
            # A few at a time, where each look at the order has its price.
            left = len(self._ready)
            if self._taken * 8 >= self._aim or not left or left + 1 == self._aim // 2:
                self._top_up()
            return work
        if due:
            self._out += 1
            return heapq.heappop(self._waiting)[2]
        return None

    def put_back(self, work: Work, now: float) -> None:
        """Nobody has room for the unit that was taken: it is the next one to be taken again."""
        self._out -= 1
        if work.first_sent is None:
            self._ready.appendleft(work)
        else:
            self._order += 1
            heapq.heappush(self._waiting, (now, self._order, work))

    def on_back(self, work: Work, result: Reply | Failure | None) -> None:
        """A unit that was taken is back. None: it was not sent."""
        self._out -= 1
        self._answers += isinstance(result, Reply)
        if not self._pool.is_input:
            self._pool.on_back(work.seq, result)
            if self._is_held:
                self._top_up()

    def retry_at(self, due: float, work: Work) -> None:
        """The unit is to be sent again at `due`, once its last attempt is durable."""
        self._holding[work.seq] = work
        self._committer.then(lambda: self._release_hold(due, work))
        self._committer.added()

    def _release_hold(self, due: float, work: Work) -> None:
        if self._holding.pop(work.seq, None) is not None:
            self._order += 1
            heapq.heappush(self._waiting, (due, self._order, work))

    def reopen(self, work: Work) -> None:
        """The unit failed only for its endpoint's sake, and the batch takes that back: it is leased anew and sent to another."""
        work.on_reopened()
        self._committer.then(lambda: self._lease_again(work))
        self._committer.hurry()

    def _lease_again(self, work: Work) -> None:
        if not self._stopped:
            self._leasing.append(work)
            self._committer.batch.leases.append(work.seq)
            self._committer.hurry()

    def on_window(self, limit: int) -> None:
        if limit != self.window:
            self.window = self._pool.order.window = limit
            self._top_up()

    def _top_up(self) -> None:
        """Keep leases ahead; commit at once when fewer than half of them are durable and unsent.

        Leases are refilled one by one as they are used, so that each commit carries what was used during the one before.
        """
        ahead = self._aim = self._ahead()
        self._taken = 0
        ready, leasing, pool = self._ready, self._leasing, self._pool
        if self._stopped or not self._may_lease:
            return
        room = ahead - len(ready) - len(leasing)
        if self.made.ready and room > 0:
            room -= self._lease_made(room)
        if len(pool) and room > 0 and (room * 8 >= ahead or not ready or pool.is_input):
            before = len(leasing)
            self._lease(room)
            if len(leasing) > before:
                self._committer.added()
            self._supply.on_used()
        if (leasing and len(ready) < ahead // 2) or not (ready or self._is_held):
            self._committer.hurry()

    def _lease_made(self, room: int) -> int:
        """Lease at most so many of those that were made of answers; returns how many."""
        for count in range(room):
            unit = self.made.take()
            if unit is None:
                return count
            self._leasing.append(Work(unit))
            self._committer.batch.leases.append(unit.seq)
            self._committer.added()
        return room

    def _lease(self, room: int) -> None:
        """Lease at most so many units, as far as the order lets them go."""
        leasing, order = self._leasing, self._pool.order
        leases = self._committer.batch.leases
        now = asyncio.get_running_loop().time()
        free = self.window - self._out - len(self._ready) - len(leasing)
        for _ in range(min(room, len(order))):
            unit = order.take(now, free)
            if unit is None:
                self._is_held = True
                return
            leasing.append(Work(unit))
            leases.append(unit.seq)
            free -= 1
        self._is_held = False

    def _begin(self) -> None:
        """The first may go."""
        self._may_lease = True
        self._top_up()

    def _ahead(self) -> int:
        """How many leases are to be there, durable or soon: a window; or what is free and what goes in a quarter of a second."""
        at_once = int(COMMITTED_WITHIN_S * self._pace()) if self._answers >= 4 * self.window else 0
        if self._pool.is_input:
            return max(self.window, 2, at_once)
        free = max(self.window - self._out, 0)
        if self._pool.order.has_own_caches and self._pool.order.has_prefixes:
            return free  # which of them suits a slot is known once it is empty
        return free + max(min(self.window, 2 + int(LEASED_AHEAD_S * self._pace())), at_once)

    def _pace(self) -> float:
        """Units a second, to decide how far ahead work is prepared."""
        if self.rate < math.inf:
            return self.rate
        if not self._answers:
            return math.inf if self._pool.is_input else 0.0
        return self._answers / max(asyncio.get_running_loop().time() - self._began, 1e-3)

    def on_landed(self, batch: Batch) -> None:
        """Leases and units of this batch are durable."""
        self._supply.on_landed(batch)
        for _ in batch.leases:
            if self._leasing:
                self._ready.append(self._leasing.popleft())
        self._top_up()

    # -- stopping

    def stop(self, read_until: float) -> list[int]:
        """Give nothing out any more; read on, without buffering, until `read_until`. Returns the leased units to release.

        At 0.0 the time is over: a reading under way is told to break off.
        """
        self._stopped = True
        self._supply.stop(read_until)
        leased = [work.seq for work in (*self._leasing, *self._ready, *self._holding.values())]
        leased += [work.seq for _, _, work in self._waiting]
        for waiting in (self._leasing, self._ready, self._holding, self._waiting):
            waiting.clear()
        return leased
