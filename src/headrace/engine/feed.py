"""From the input and the ledger to durable leases: a small bounded buffer that is kept full.

Units are buffered with their payload while there is room; the others wait in the ledger and are recalled when their
turn comes. `cursor` is the next unit to buffer: fresh ones join directly when they are exactly that.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable

from headrace.engine.committer import Committer
from headrace.engine.offload import Offload
from headrace.engine.work import Work
from headrace.errors import HeadraceError
from headrace.protocols import Batch, Intake
from headrace.values import Intaken, Unit

READ_RECORDS = 64
RECALL_UNITS = 512
MOST_UNCOMMITTED = 2048
LEAST_BUFFERED = 1024
MOST_BUFFERED_BYTES = 64_000_000
READ_AHEAD_S = 2.0  # read beyond the buffer only where it lasts so long: reading must not starve sending


class Feed:
    """Supplies leased units in order; retries come back through it when they are due."""

    def __init__(
        self,
        intake: Intake,
        offload: Offload,
        committer: Committer,
        on_intaken: Callable[[Intaken], None],
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
        self._cursor = 0
        self._recorded = recorded  # units with a smaller number are durable
        self._fresh = recorded  # the number of the next unit that reading makes
        self._buffer: deque[Unit] = deque()
        self._buffered_bytes = 0
        self._leasing: deque[Work] = deque()
        self._ready: deque[Work] = deque()
        self._waiting: list[tuple[float, int, Work]] = []
        self._holding: dict[int, Work] = {}
        self._order = 0
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
        return "endpoint" if self.waiting else None

    @property
    def waiting(self) -> int:
        """Units that wait for their next try."""
        return len(self._waiting) + len(self._holding)

    @property
    def has_supply(self) -> bool:
        return bool(self._ready or self._leasing or self._buffer)

    @property
    def next_due(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None

    # -- taking

    def take(self, now: float, *, prefer_fresh: bool) -> Work | None:
        """The next unit to send: a retry that is due, else the next in order. None when there is none now."""
        due = bool(self._waiting) and self._waiting[0][0] <= now
        if self._ready and (prefer_fresh or not due) and (due or self.waiting < max(4 * self.window, 1024)):
            work = self._ready.popleft()
            self._top_up()
            return work
        if due:
            return heapq.heappop(self._waiting)[2]
        return None

    def put_back(self, work: Work, now: float) -> None:
        """Nobody has room for the unit that was taken: it is the next one to be taken again."""
        if work.first_sent is None:
            self._ready.appendleft(work)
        else:
            self._order += 1
            heapq.heappush(self._waiting, (now, self._order, work))

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
            self.window = limit
            self._top_up()

    def _top_up(self) -> None:
        """Keep one window of leases ahead; commit at once when fewer than half a window of them is durable and unsent.

        Leases are refilled one by one as they are used, so that each commit carries what was used during the one before.
        """
        ahead = max(self.window, 2)
        ready, leasing, buffer = self._ready, self._leasing, self._buffer
        room = ahead - len(ready) - len(leasing)
        if room <= 0 or self._stopped:
            return
        if buffer:
            leases = self._committer.batch.leases
            for _ in range(min(room, len(buffer))):
                unit = buffer.popleft()
                assert unit.payload is not None
                self._buffered_bytes -= len(unit.payload)
                leasing.append(Work(unit))
                leases.append(unit.seq)
            self._committer.added()
            if not self._wake.is_set() and self._has_room:
                self._wake.set()
        if (leasing and len(ready) < ahead // 2) or not ready:
            self._committer.hurry()

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
        loop = asyncio.get_running_loop()
        while True:
            if self._stopped:
                if self.read_done or loop.time() >= (self._stop_reading_at or 0.0):
                    return
                await self._read()
                continue
            if self._is_behind and self._has_room:
                await self._recall()
            elif not self.read_done and self._may_read():
                beyond = not self._has_room
                before = loop.time()
                await self._read()
                if beyond:
                    await asyncio.sleep(loop.time() - before)
            elif self.read_done and not self._is_behind and self._recorded >= self._fresh:
                return
            else:
                await self._rest()

    async def _rest(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(0.25):
                await self._wake.wait()
        except TimeoutError:
            pass

    @property
    def _is_behind(self) -> bool:
        return self._cursor < self._recorded

    @property
    def _has_room(self) -> bool:
        return len(self._buffer) < max(4 * self.window, LEAST_BUFFERED) and self._buffered_bytes < MOST_BUFFERED_BYTES

    def _may_read(self) -> bool:
        if len(self._committer.batch.items) > MOST_UNCOMMITTED:
            return False  # a slow disk slows the feed
        if self._has_room:
            return True
        return len(self._buffer) > READ_AHEAD_S * self.rate

    async def _read(self) -> None:
        try:
            intaken = await self._offload(lambda: self._intake.take(READ_RECORDS))
        except HeadraceError as error:  # the engine ends with it once what is in flight is safe
            self.intake_error = error
            self.read_done = True
            return
        self._on_intaken(intaken)
        self._keep(intaken)

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
        if self._cursor == intaken.first_unit and self._has_room and not self._stopped:
            answered = {outcome.unit for outcome in intaken.outcomes}
            units = [unit for unit in intaken.units if unit.seq not in answered] if answered else intaken.units
            self._buffer.extend(units)
            self._buffered_bytes += sum([len(unit.payload or b"") for unit in units])
            self._cursor = self._fresh
            self._top_up()

    async def _recall(self) -> None:
        after, until = self._cursor - 1, self._recorded
        try:
            units = await self._offload(lambda: self._intake.recall(after, RECALL_UNITS))
        except HeadraceError as error:
            self.intake_error = error
            self.read_done = True
            self._cursor = self._recorded
            return
        if self._stopped:
            return
        self._cursor = units[-1].seq + 1 if len(units) == RECALL_UNITS else max(until, units[-1].seq + 1 if units else 0)
        self._buffer.extend(units)
        self._buffered_bytes += sum(len(unit.payload or b"") for unit in units)
        self._top_up()

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
        for pool in (self._buffer, self._leasing, self._ready, self._holding, self._waiting):
            pool.clear()
        self._buffered_bytes = 0
        self._wake.set()
        return leased
