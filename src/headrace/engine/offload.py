"""The seam between the event loop and blocking work: a thread in production, a virtual delay in simulated lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs a blocking function off the loop. Calls on one Offload run one after the other, in order."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]: ...


class ThreadOffload:
    """One thread of its own. `close` waits for what runs."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
