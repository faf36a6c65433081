"""From the input and the ledger to the pool: a bounded buffer that is kept full, while the rest waits in the ledger.

Units are buffered with their payload while there is room; the others are recalled when their turn comes. `cursor` is the
next unit to buffer: fresh ones join directly when they are exactly that. Where the order is not the input's, units beyond the
buffer are noted as far as there is time, and then all come by number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from headrace.engine.committer import Committer
from headrace.engine.knobs import Start
from headrace.engine.made import Made
from headrace.engine.offload import Offload
from headrace.engine.pool import Pool
from headrace.errors import HeadraceError
from headrace.protocols import Batch, Intake
from headrace.values import Intaken, Unit

READ_RECORDS = 64
RECALL_UNITS = 512
MOST_UNCOMMITTED = 2048
LEAST_BUFFERED = 1024
MOST_BUFFERED_BYTES = 64_000_000
READ_AHEAD_S = 2.0  # read beyond the buffer only where it lasts so long: reading must not starve sending
FIRST_LOOK_S = 0.5  # so long the first unit waits at most until there is something to order


class Reading(NamedTuple):
    """Who reads, where that runs, and who is told of what was read."""

    intake: Intake
    offload: Offload
    on_intaken: Callable[[Intaken], None]


class Supply:
    """Fills the pool. `on_more` is called when units have come, `on_looked` when the first may go, `on_dry` when all that was
    read has been fed and units may still be made.

    `pace` says how many units a second are used up. `recorded` units that were read are durable, `total` are known. Units that
    are made of answers come beside them, in `made`; where there can be such, supply lasts until it is told that all `is_over`.
    """

    def __init__(
        self,
        reading: Reading,
        committer: Committer,
        pool: Pool,
        *,
        start: Start,
    ) -> None:
        self.read_done = start.read_done
        self.intake_error: HeadraceError | None = None
        self.recorded = recorded = start.recorded
        self.total = recorded + start.made
        self.made = Made(start.pending_made, may_come=start.may_make)
        self.is_over = False
        self.pace: Callable[[], float] = float
        self.on_more: Callable[[], None] = _nobody
        self.on_looked: Callable[[], None] = _nobody
        self.on_dry: Callable[[], None] = _nobody
        self._intake, self._offload, self._on_intaken = reading
        self._committer = committer
        self._pool = pool
        self._cursor = 0
        self._fresh = recorded  # the number of the next unit that reading makes
        self._noted = 0  # units from the cursor to here are noted,
        self._arranged = 0  # and those before this one have been arranged
        self.longest = b""  # the longest payload so far
        self._has_begun = pool.is_input
        self._wake = asyncio.Event()
        self._stopped = False
        self._stop_reading_at = 0.0

    @property
    def is_recorded(self) -> bool:
        """Whether every unit that is known is durable."""
        return self.recorded >= self._fresh

    @property
    def is_behind(self) -> bool:
        """Whether units of the ledger are still to come."""
        return self._cursor < self.recorded or self._pool.planned > 0

    @property
    def has_room(self) -> bool:
        order = self._pool.order
        return len(order) < max(4 * order.window, LEAST_BUFFERED) and order.bytes < MOST_BUFFERED_BYTES

    def on_used(self) -> None:
        """There may be room again."""
        if not self._wake.is_set() and self.has_room:
            self._wake.set()

    def on_landed(self, batch: Batch) -> None:
        if batch.units:
            self.recorded = batch.units[-1].seq + 1
        if batch.made:
            self._on_made(batch)
        self._wake.set()

    def _on_made(self, batch: Batch) -> None:
        self.total += len(batch.made)
        if not self._stopped:
            settled = {outcome.unit for outcome in batch.answered}
            self.made.add(unit for unit in batch.made if unit.seq not in settled)

    def finish(self) -> None:
        """Nothing will be made of answers any more."""
        self.is_over = True
        self._wake.set()

    def stop(self, read_until: float) -> None:
        """Read on, without buffering, until then. At 0.0 the time is over: a reading under way is told to break off."""
        self._stopped = True
        self._stop_reading_at = read_until
        if not read_until:
            self._intake.interrupt()
        self._pool.clear()
        self.made.clear()
        self._wake.set()

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
        if self.read_done and not self.is_behind:
            return True
        return not self.has_room and (self._arranged > 0 or not self._pool.order.has_prefixes)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.on_looked()

    async def _step(self) -> bool:
        """Whatever supply needs next. False: nothing any more."""
        if self._stopped:
            if self.read_done or asyncio.get_running_loop().time() >= self._stop_reading_at:
                return False
            await self._read()
        elif self.made.is_low:
            await self._recall_made()
        elif self.is_behind and self._is_low:
            await self._recall()
        elif not self.read_done and self._may_read():
            await self._beside_sending(self._read)
        elif self._may_note():
            await self._beside_sending(self._note)
        elif self._may_arrange():
            self._arrange()
        elif self.is_behind and self.has_room:
            await self._recall()
        elif self.is_dry and (self.is_over or not self.made.may_come):
            return False
        else:
            if self.is_dry:
                self.on_dry()
            if not self.is_over:
                await self._rest()
        return True

    @property
    def is_dry(self) -> bool:
        """Whether everything that was read has been fed."""
        return self.read_done and not self.is_behind and self.is_recorded

    async def _recall_made(self) -> None:
        numbers = self.made.next_numbers()
        try:
            units = await self._offload(lambda: self._intake.recall_these(numbers))
        except HeadraceError as error:
            self._break_off(error)
            self.made.clear()
            return
        if not self._stopped:
            self.made.on_recalled(units)
            self.on_more()

    async def _rest(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(0.25):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _beside_sending(self, work: Callable[[], Awaitable[None]]) -> None:
        """What goes beyond the buffer takes at most half of the time once units are sent."""
        loop, beyond = asyncio.get_running_loop(), not self.has_room
        before = loop.time()
        await work()
        if beyond:
            await asyncio.sleep(loop.time() - before if self._has_begun else 0.0)

    @property
    def _is_low(self) -> bool:
        """Whether units are to be recalled before anything else is done."""
        if self._pool.is_input or self._pool.planned:
            return self.has_room
        return len(self._pool) < max(2 * self._pool.order.window, LEAST_BUFFERED // 2) and self.has_room

    def _may_read(self) -> bool:
        """For the buffer, which only what follows at once can join; beyond it, to be rendered again, where there is time."""
        if len(self._committer.batch.items) > MOST_UNCOMMITTED:
            return False  # a slow disk slows the feed
        return self._lasts or (self.has_room and self._cursor == self._fresh and not self._pool.planned)

    @property
    def _lasts(self) -> bool:
        """Whether the buffer lasts so long that there is time for what lies beyond it."""
        return len(self._pool) > READ_AHEAD_S * self.pace()

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
        batch.slices += intaken.slices
        batch.units += intaken.units
        batch.outcomes += intaken.outcomes
        batch.meta.update(intaken.meta)
        self._committer.added()
        self._measure(intaken.units)
        self._fresh = intaken.first_unit + len(intaken.units)
        self.total += len(intaken.units)
        self.read_done = intaken.done
        if intaken.done:
            self._pool.finish()
        if self._stopped:
            return
        answered = {outcome.unit for outcome in intaken.outcomes}
        units = [unit for unit in intaken.units if unit.seq not in answered] if answered else intaken.units
        if self._cursor == intaken.first_unit and self.has_room:
            self._pool.add(units)
            self._cursor = self._noted = self._fresh
            self.on_more()
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
            self._cursor = self.recorded
            self._pool.next_planned(self._pool.planned)
            return
        self._measure(units)
        if not self._stopped:
            self._pool.add(units)
            self.on_more()

    def _measure(self, units: Sequence[Unit]) -> None:
        for unit in units:
            if unit.payload is not None and len(unit.payload) > len(self.longest):
                self.longest = unit.payload

    async def _recalled(self, first: int) -> tuple[list[Unit], int]:
        """Pending units from this number on, and the number from which more may follow."""
        until = self.recorded
        units = await self._offload(lambda: self._intake.recall(first - 1, RECALL_UNITS))
        after = units[-1].seq + 1 if units else 0
        return units, after if len(units) == RECALL_UNITS else max(until, after)

    # -- the order of what lies beyond the buffer

    def _may_note(self) -> bool:
        pool = self._pool
        return self._noted < self.recorded and pool.takes_notes and self._lasts

    async def _note(self) -> None:
        """Look at units that an earlier process had read, or that were read while there was no time."""
        try:
            units, self._noted = await self._recalled(self._noted)
        except HeadraceError as error:
            self._break_off(error)
            self._cursor = self._noted = self.recorded
            return
        self._pool.note(units)

    def _may_arrange(self) -> bool:
        """Whether all that wait are known, or as many as are arranged at once; they are recalled, so they must be durable."""
        pool = self._pool
        if pool.is_input or pool.planned or self._noted <= max(self._cursor, self._arranged) or self.recorded < self._noted:
            return False
        return not pool.takes_notes or (self.read_done and self._noted >= self._fresh)

    def _arrange(self) -> None:
        self._arranged = self._noted
        if self._pool.arrange(self._cursor):
            self._cursor = self._noted


def _nobody() -> None:
    """Nobody has asked to be told."""
