"""The seam between the event loop and blocking work: a thread in production, a virtual delay in simulated lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs a blocking function off the loop. Calls on one Offload run one after the other, in order."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]: ...


INLINE_S = 0.005


class ShortOffload:
    """For work that is mostly short: runs it inline while it is, in a thread of its own once it takes long.

    A hand-over to a thread and the fight for the interpreter that follows cost more than the work itself where a
    record is parsed and rendered in microseconds. A call that took longer than `most_s` (a slow disk, a heavy template) sends
    the next ones to the thread, until one takes less than two fifths of that there.
    """

    def __init__(
        self, name: str, timer: Callable[[], float] = time.perf_counter, *, inline: bool = True, most_s: float = INLINE_S
    ) -> None:
        self._thread = ThreadOffload(name)
        self._timer = timer
        self._inline = inline
        self._most_s = most_s

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        if not self._inline:
            return self._thread(lambda: self._timed(function, 0.4 * self._most_s))
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self._timed(function, self._most_s))
        except Exception as error:  # noqa: BLE001  handed to whoever waits, as a thread pool does
            done.set_exception(error)
        return done

    def _timed(self, function: Callable[[], T], limit_s: float) -> T:
        started = self._timer()
        try:
            return function()
        finally:
            self._inline = self._timer() - started < limit_s

    def close(self) -> None:
        self._thread.close()


class ThreadOffload:
    """One thread of its own. `close` waits for what runs."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
