"""VirtualLoop: an asyncio event loop in which time passes only when everybody waits, and then at once."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

MAX_STEPS = 10_000_000
CLEANUP_STEPS = 100_000

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class Deadlock(RuntimeError):  # noqa: N818 - the word for what happened; an "error" would be the code's, this may be the test's
    """Nothing is ready and nothing is scheduled: whoever waits now waits for ever. The message names the tasks."""


class RunawayError(RuntimeError):
    """The loop passed `max_time_s` or `max_steps`: something goes round without getting anywhere."""


class ThreadRefusedError(RuntimeError):
    """A thread was asked for, or called in: with real threads virtual time means nothing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop with virtual time: it starts at 0 and jumps to the next timer whenever nothing is ready.

    An hour of sleeping costs microseconds and happens in the same order every time. Without `seed` ready callbacks run
    first in, first out, as in every asyncio loop; with a seed any ready callback may be next, chosen by that seed, so
    that different seeds explore different interleavings and an equal seed repeats one exactly.

    Raises Deadlock when nothing can ever happen again, RunawayError past `max_time_s` (virtual seconds) or `max_steps`
    (rounds of the loop), ThreadRefusedError for executors and for calls from other threads. There are no sockets, no
    child processes and no signals on it. The caller closes it; `run_virtual` does both.

    `on_callback` is called with each ready handle before it runs, on a loop with a seed: what it raises ends the loop, as
    if the process died between two steps. `places_of` says what was about to go on.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        max_time_s: float | None = None,
        max_steps: int | None = MAX_STEPS,
        on_callback: Callable[[asyncio.Handle], None] | None = None,
    ) -> None:
        super().__init__()
        self._now = 0.0
        self._steps = 0
        self._max_time_s = max_time_s
        self._max_steps = max_steps
        self._selector = _Waiter(self)
        if seed is not None:
            self._ready: deque[Any] = _SeededQueue(random.Random(seed), on_callback)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def limit(self, *, steps: int, time_s: float | None = None) -> None:
        """Allow so many rounds and seconds more, counted from now."""
        self._max_steps = self._steps + steps
        self._max_time_s = None if time_s is None else self._now + time_s

    def advance(self, timeout: float | None) -> None:
        """What a real loop does by waiting. Called by the loop itself once a round."""
        self._steps += 1
        if self._max_steps is not None and self._steps > self._max_steps:
            raise RunawayError(f"more than {self._max_steps} rounds of the loop by {self._now:.3f} s of virtual time")
        if timeout is None:
            raise Deadlock(f"at {self._now:.3f} s nothing is ready and nothing is scheduled; waiting: {self._waiting()}")
        if timeout > 0:
            self._now += timeout
            # past 2**23 s two neighbouring times are further apart than asyncio's nanosecond, and a due timer would never fire
            self._clock_resolution = max(1e-9, 2 * math.ulp(self._now))
            if self._max_time_s is not None and self._now > self._max_time_s:
                raise RunawayError(f"virtual time passed {self._max_time_s:.3f} s; waiting: {self._waiting()}")

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`; from another thread: ThreadRefusedError."""
        if self.is_running() and self._thread_id != threading.get_ident():
            raise ThreadRefusedError("a virtual loop takes no calls from other threads")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self,
        executor: Any,  # noqa: ARG002 - the signature is asyncio's
        func: Callable[[*_Ts], _T],
        *args: *_Ts,  # noqa: ARG002 - the signature is asyncio's
    ) -> asyncio.Future[_T]:
        """Always ThreadRefusedError."""
        raise ThreadRefusedError(f"a virtual loop runs no threads: {getattr(func, '__qualname__', func)!s} was to run in one")

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets, hence no events."""

    def _waiting(self) -> str:
        names = sorted(f"{task.get_name()} ({_place(task)})" for task in asyncio.all_tasks(self))
        return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "no task"

    _thread_id: int | None
    _clock_resolution: float


class _Waiter:
    """Stands where a loop keeps its selector: waiting is advancing."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        self._loop.advance(timeout)
        return []

    def close(self) -> None:
        """Nothing is held."""


class _SeededQueue(deque[Any]):
    """A queue of ready callbacks whose next one is drawn."""

    def __init__(self, rng: random.Random, on_callback: Callable[[asyncio.Handle], None] | None) -> None:
        super().__init__()
        self._rng = rng
        self._on_callback = on_callback

    def popleft(self) -> Any:
        if len(self) > 1:
            self.rotate(-self._rng.randrange(len(self)))
        if self._on_callback is not None:
            self._on_callback(self[0])  # still in the queue: what ends the loop here leaves it able to clean up
        return super().popleft()


def run_virtual(
    main: Coroutine[Any, Any, _T],
    *,
    seed: int | None = None,
    max_time_s: float | None = None,
    max_steps: int | None = MAX_STEPS,
    on_callback: Callable[[asyncio.Handle], None] | None = None,
) -> _T:
    """Run a coroutine to its end on a VirtualLoop of its own and close the loop, whatever happens.

    Tasks left behind are cancelled and run to their end, as `asyncio.run` does. Raises what the coroutine raises, and
    Deadlock, RunawayError, ThreadRefusedError as VirtualLoop does; RuntimeError inside a running loop.
    """
    try:
        loop = VirtualLoop(seed=seed, max_time_s=max_time_s, max_steps=max_steps, on_callback=on_callback)
        try:
            return loop.run_until_complete(main)
        finally:
            _end(loop)
    finally:
        main.close()


def _end(loop: VirtualLoop) -> None:
    loop.limit(steps=CLEANUP_STEPS)
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left and not _inside_a_loop():
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
    except (Deadlock, RunawayError):
        pass  # a task that cannot be cancelled: the first error tells what happened, this one would hide it
    finally:
        loop.close()


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def places_of(handle: asyncio.Handle) -> list[tuple[str, int]]:
    """Files and lines of the awaits at which the task that this handle takes further has waited, outermost first.

    Empty for a handle that is no task's. Places of this test kit are left out.
    """
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio itself tells a handle's task so
    awaited: Any = getattr(getattr(callback, "__self__", None), "get_coro", lambda: None)()
    places = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        if "headrace" in frame.f_code.co_filename and "testing" not in frame.f_code.co_filename:
            places.append((frame.f_code.co_filename, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None)
    return places


def _place(task: asyncio.Task[Any]) -> str:
    """Where a task waits: the innermost functions that await one another, with their lines."""
    places: list[str] = []
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = getattr(awaited, "cr_await", None)
    return " > ".join(places[-4:]) or "ended"
