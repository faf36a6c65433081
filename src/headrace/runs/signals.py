"""Ctrl-C and SIGTERM: the first asks the engine to drain, the second to stop at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@contextmanager
def handled(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Route both signals to `interrupt(exit_code)`. Outside the main thread the caller's own handling stays."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    for number, code in EXIT_CODES.items():
        loop.add_signal_handler(number, interrupt, code)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


async def unless_signalled(work: Coroutine[Any, Any, T]) -> tuple[T | None, int | None]:
    """What the work gives, or the exit code of the signal that ended it."""
    doing = asyncio.ensure_future(work)
    codes: list[int] = []

    def stop(exit_code: int) -> None:
        codes.append(exit_code)
        doing.cancel()

    with handled(stop):
        try:
            return await doing, None
        except asyncio.CancelledError:
            if not codes:
                raise
            return None, codes[0]
