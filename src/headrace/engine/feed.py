"""From the input and the ledger to durable leases: a small bounded buffer that is kept full.

Units are buffered with their payload while there is room; the others wait in the ledger and are recalled when their
turn comes. `cursor` is the next unit to buffer: fresh ones join directly when they are exactly that. Where the order is
not the input's, units beyond the buffer are noted as far as there is time, and then all come by number.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Awaitable, Callable

from headrace.engine.committer import Committer
from headrace.engine.offload import Offload
from headrace.engine.pool import Pool
from headrace.engine.work import Work
from headrace.errors import HeadraceError
from headrace.protocols import Batch, Intake
from headrace.values import Failure, Intaken, Reply, Unit

READ_RECORDS = 64
RECALL_UNITS = 512
MOST_UNCOMMITTED = 2048
LEAST_BUFFERED = 1024
MOST_BUFFERED_BYTES = 64_000_000
READ_AHEAD_S = 2.0  # read beyond the buffer only where it lasts so long: reading must not starve sending
LEASED_AHEAD_S = 0.25  # where each answer may change the order, leases are taken for so long ahead
FIRST_LOOK_S = 0.5  # so long the first unit waits at most until there is something to order


class Feed:
    """Supplies leased units in the pool's order; retries come back through it when they are due."""

    def __init__(
        self,
        intake: Intake,
        offload: Offload,
        committer: Committer,
        on_intaken: Callable[[Intaken], None],
        pool: Pool,
        *,
        recorded: int,
        read_done: bool,
    ) -> None:
        self.read_done = read_done
        self.intake_error: HeadraceError | None = None
        self.total = recorded  # units known, this process and before
        self._intake = intake
        self._offload = offload
        self._committer = committer
        self._on_intaken = on_intaken
        self._pool = pool
        self._cursor = 0
        self._recorded = recorded  # units with a smaller number are durable
        self._fresh = recorded  # the number of the next unit that reading makes
        self._noted = 0  # units from the cursor to here are noted,
        self._arranged = 0  # and those before this one have been arranged
        self._may_lease = pool.is_input
        self._is_held = False  # leases are wanted, and what there is waits for an answer
        self._leasing: deque[Work] = deque()
        self._ready: deque[Work] = deque()
        self._waiting: list[tuple[float, int, Work]] = []
        self._holding: dict[int, Work] = {}
        self._order = 0
        self._out = 0  # units that were taken and are not back
        self._answers = 0
        self._began = math.inf  # when the first was taken
        self._wake = asyncio.Event()
        self.window = 1
        self._stopped = False
        self._stop_reading_at: float | None = None
        self.rate = math.inf  # units settled per second, lately; not known yet: do not read ahead

    # -- what is there

    @property
    def starved_by(self) -> str | None:
        """What keeps a free slot empty. None: everything is on its way or waits for its next try."""
        if self._leasing or self._recorded < self._fresh:
            return "ledger"
        if not self.read_done or self._is_behind:
            return "source"
        return "endpoint" if self.waiting or len(self._pool) else None

    @property
    def waiting(self) -> int:
        """Units that wait for their next try."""
        return len(self._waiting) + len(self._holding)

    @property
    def has_supply(self) -> bool:
        return bool(self._ready or self._leasing or len(self._pool))

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
            self._began = min(self._began, now)
            self._top_up()
            return work
        if due:
            self._out += 1
            return heapq.heappop(self._waiting)[2]
        return None

    def on_back(self, work: Work, result: Reply | Failure | None) -> None:
        """A unit that was taken is back. None: it was not sent."""
        self._out -= 1
        if not self._pool.is_input:
            self._answers += isinstance(result, Reply)
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
        ahead = self._ahead()
        ready, leasing, pool = self._ready, self._leasing, self._pool
        room = ahead - len(ready) - len(leasing)
        if room <= 0 or self._stopped or not self._may_lease:
            return
        if len(pool):
            before = len(leasing)
            self._lease(room)
            if len(leasing) > before:
                self._committer.added()
            if not self._wake.is_set() and self._has_room:
                self._wake.set()
        if (leasing and len(ready) < ahead // 2) or not (ready or self._is_held):
            self._committer.hurry()

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

    def _ahead(self) -> int:
        """How many leases are to be there, durable or soon: a window; or what is free and what goes in a quarter of a second."""
        if self._pool.is_input:
            return max(self.window, 2)
        return max(self.window - self._out, 0) + min(self.window, 2 + int(LEASED_AHEAD_S * self._pace()))

    def _pace(self) -> float:
        """Units a second, to decide how far ahead work is prepared."""
        if self.rate < math.inf or self._pool.is_input:
            return self.rate
        if not self._answers:
            return 0.0
        return self._answers / max(asyncio.get_running_loop().time() - self._began, 1e-3)

    def on_landed(self, batch: Batch) -> None:
        """Leases and units of this batch are durable."""
        if batch.units:
            self._recorded = batch.units[-1].seq + 1
        for _ in batch.leases:
            if self._leasing:
                self._ready.append(self._leasing.popleft())
        self._top_up()
        self._wake.set()

    # -- supply

    async def run(self) -> None:
        """Read and recall until everything has been fed, or reading is over after a stop."""
        first_look = asyncio.get_running_loop().call_later(FIRST_LOOK_S, self._begin)
        if self.read_done:
            self._pool.finish()
        try:
            while await self._step():
                self._pool.tell_left(self._fresh - self._cursor)
                if self._has_looked:
                    self._begin()
        finally:
            first_look.cancel()
        self._begin()

    @property
    def _has_looked(self) -> bool:
        """Whether nothing is won by a longer look before the first unit goes."""
        if self.read_done and not self._is_behind:
            return True
        return not self._has_room and (self._arranged > 0 or not self._pool.order.has_prefixes)

    def _begin(self) -> None:
        if not self._may_lease:
            self._may_lease = True
            self._top_up()

    async def _step(self) -> bool:
        """Whatever supply needs next. False: nothing any more."""
        if self._stopped:
            if self.read_done or asyncio.get_running_loop().time() >= (self._stop_reading_at or 0.0):
                return False
            await self._read()
        elif self._is_behind and self._is_low:
            await self._recall()
        elif not self.read_done and self._may_read():
            await self._beside_sending(self._read)
        elif self._may_note():
            await self._beside_sending(self._note)
        elif self._may_arrange():
            self._arrange()
        elif self._is_behind and self._has_room:
            await self._recall()
        elif self.read_done and not self._is_behind and self._recorded >= self._fresh:
            return False
        else:
            await self._rest()
        return True

    async def _rest(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(0.25):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _beside_sending(self, work: Callable[[], Awaitable[None]]) -> None:
        """What goes beyond the buffer takes at most half of the time once units are sent."""
        loop, beyond = asyncio.get_running_loop(), not self._has_room
        before = loop.time()
        await work()
        if beyond and self._may_lease:
            await asyncio.sleep(loop.time() - before)

    @property
    def _is_behind(self) -> bool:
        return self._cursor < self._recorded or self._pool.planned > 0

    @property
    def _has_room(self) -> bool:
        return len(self._pool) < max(4 * self.window, LEAST_BUFFERED) and self._pool.order.bytes < MOST_BUFFERED_BYTES

    @property
    def _is_low(self) -> bool:
        """Whether units are to be recalled before anything else is done."""
        if self._pool.is_input or self._pool.planned:
            return self._has_room
        return len(self._pool) < max(2 * self.window, LEAST_BUFFERED // 2) and self._has_room

    def _may_read(self) -> bool:
        if len(self._committer.batch.items) > MOST_UNCOMMITTED:
            return False  # a slow disk slows the feed
        return self._has_room or self._lasts

    @property
    def _lasts(self) -> bool:
        """Whether the buffer lasts so long that there is time for what lies beyond it."""
        return len(self._pool) > READ_AHEAD_S * self._pace()

    async def _read(self) -> None:
        try:
            intaken = await self._offload(lambda: self._intake.take(READ_RECORDS))
        except HeadraceError as error:
            self._break_off(error)
            return
        self._on_intaken(intaken)
        self._keep(intaken)

    def _break_off(self, error: HeadraceError) -> None:
        """Nothing more can be read: the engine ends with it once what is in flight is safe."""
        self.intake_error = error
        self.read_done = True
        self._pool.finish()

    def _keep(self, intaken: Intaken) -> None:
        batch = self._committer.batch
        batch.items += intaken.items
        batch.pieces += intaken.pieces
        batch.units += intaken.units
        batch.outcomes += intaken.outcomes
        batch.meta.update(intaken.meta)
        self._committer.added()
        self._fresh = intaken.first_unit + len(intaken.units)
        self.total += len(intaken.units)
        self.read_done = intaken.done
        if intaken.done:
            self._pool.finish()
        if self._stopped:
            return
        answered = {outcome.unit for outcome in intaken.outcomes}
        units = [unit for unit in intaken.units if unit.seq not in answered] if answered else intaken.units
        if self._cursor == intaken.first_unit and self._has_room:
            self._pool.add(units)
            self._cursor = self._noted = self._fresh
            self._top_up()
        elif self._noted == intaken.first_unit and self._pool.takes_notes:
            self._pool.note(units)
            self._noted = self._fresh

    async def _recall(self) -> None:
        try:
            if self._pool.planned:
                numbers = self._pool.next_planned(RECALL_UNITS)
                units = await self._offload(lambda: self._intake.recall_these(numbers))
            else:
                units, self._cursor = await self._recalled(self._cursor)
                self._noted = max(self._noted, self._cursor)
        except HeadraceError as error:
            self._break_off(error)
            self._cursor = self._recorded
            self._pool.next_planned(self._pool.planned)
            return
        if not self._stopped:
            self._pool.add(units)
            self._top_up()

    async def _recalled(self, first: int) -> tuple[list[Unit], int]:
        """Pending units from this number on, and the number from which more may follow."""
        until = self._recorded
        units = await self._offload(lambda: self._intake.recall(first - 1, RECALL_UNITS))
        after = units[-1].seq + 1 if units else 0
        return units, after if len(units) == RECALL_UNITS else max(until, after)

    # -- the order of what lies beyond the buffer

    def _may_note(self) -> bool:
        pool = self._pool
        return self._noted < self._recorded and pool.takes_notes and self._lasts

    async def _note(self) -> None:
        """Look at units that an earlier process had read, or that were read while there was no time."""
        try:
            units, self._noted = await self._recalled(self._noted)
        except HeadraceError as error:
            self._break_off(error)
            self._cursor = self._noted = self._recorded
            return
        self._pool.note(units)

    def _may_arrange(self) -> bool:
        """Whether all that wait are known, or as many as are arranged at once; they are recalled, so they must be durable."""
        pool = self._pool
        if pool.is_input or pool.planned or self._noted <= max(self._cursor, self._arranged) or self._recorded < self._noted:
            return False
        return not pool.takes_notes or (self.read_done and self._noted >= self._fresh)

    def _arrange(self) -> None:
        self._arranged = self._noted
        if self._pool.arrange(self._cursor):
            self._cursor = self._noted

    # -- stopping

    def stop(self, read_until: float) -> list[int]:
        """Give nothing out any more; read on, without buffering, until `read_until`. Returns the leased units to release.

        At 0.0 the time is over: a reading under way is told to break off.
        """
        self._stopped = True
        self._stop_reading_at = read_until
        if not read_until:
            self._intake.interrupt()
        leased = [work.seq for work in (*self._leasing, *self._ready, *self._holding.values())]
        leased += [work.seq for _, _, work in self._waiting]
        self._pool.clear()
        for waiting in (self._leasing, self._ready, self._holding, self._waiting):
            waiting.clear()
        self._wake.set()
        return leased
