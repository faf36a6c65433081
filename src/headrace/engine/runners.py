"""The tasks that send: as many as there are units in flight, each taking one unit after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.engine.work import Work

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine


class Runners:
    """Has every unit sent that the engine gives out, and gives back one that it took and could not send.

    Where no unit is ready, a task waits to be handed one: cheaper than a new task each time.
    """

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[None], Work] = {}  # each with the first unit that it was given
        self._parked: list[asyncio.Future[Work | None]] = []

    @property
    def can_start(self) -> bool:
        return self._group is not None

    def open(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def close(self) -> None:
        """A group that has failed takes no more tasks, and must not hide its first error."""
        self._group = None

    def start(self, work: Work) -> None:
        """Send this unit, whose slot is taken."""
        if self._parked:
            self._parked.pop().set_result(work)
            return
        assert self._group is not None
        task = self._group.create_task(self._run(work))
        self._running[task] = work
        task.add_done_callback(self._on_done)

    def release(self) -> None:
        """Whoever waits for a unit gets none any more."""
        for handed in self._parked:
            handed.set_result(None)
        self._parked.clear()

    def cancel(self) -> None:
        """End what is in flight."""
        for task in list(self._running):
            task.cancel()

    async def _run(self, work: Work | None) -> None:
        engine = self._engine
        while work is not None:
            await engine.send(work)
            work = engine.next_work()
            if work is None:
                engine.arm()
                work = await self._park()

    async def _park(self) -> Work | None:
        """Wait for the next unit; None: there will be none, or enough wait already."""
        engine = self._engine
        if engine.is_over or len(self._parked) >= engine.lanes.limit:
            return None
        handed: asyncio.Future[Work | None] = asyncio.get_running_loop().create_future()
        self._parked.append(handed)
        try:
            return await handed
        except asyncio.CancelledError:
            work = handed.result() if handed.done() and not handed.cancelled() else None
            if work is not None:
                engine.release_unsent(work)
            raise

    def _on_done(self, task: asyncio.Task[None]) -> None:
        first = self._running.pop(task)
        if task.cancelled() and first.lane is not None and first.seq in first.lane.in_flight:
            self._engine.release_unsent(first)
