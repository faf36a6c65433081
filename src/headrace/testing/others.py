"""Other people's requests at a simulated endpoint: so many in flight at given times, each followed by the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from headrace.testing.batching import Batching, Job, Slots
from headrace.testing.laws import Laws

SHORTEST_S = 0.001  # no answer is instant: one after the other without end would let no time pass


class Served(Protocol):
    """What a simulated endpoint serves with: both None where nothing is bounded."""

    @property
    def slots(self) -> Slots | None: ...

    @property
    def batching(self) -> Batching | None: ...


class Others:
    """Keeps as many requests of others in flight as the law says. `seconds`: how long each answered one took, in order.

    Begins with `start` and lives on timers alone, so that it ends with the loop; or with `stop`. Requests that are in
    flight when fewer are to be are not cut, but not followed by others.
    """

    def __init__(self, laws: Laws, served: Served) -> None:
        self._laws = laws
        self._served = served
        self._wanted = 0
        self._timers: set[asyncio.TimerHandle] = set()
        self._ends: dict[_Other, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.seconds: list[float] = []

    @property
    def in_flight(self) -> int:
        return len(self._ends)

    def start(self) -> None:
        """The first request of ours has come: the law's times count from now. Only the first call on a loop counts."""
        if not self._laws.background or (loop := asyncio.get_running_loop()) is self._loop:
            return
        self._loop = loop
        self._ends.clear()
        self._timers.clear()
        for at, count in self._laws.background:
            self.later(at, lambda count=count: self._want(int(count)))  # type: ignore[misc]  # the default binds the value

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._wanted = 0

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        """Call that after so many seconds, unless stopped."""
        assert self._loop is not None

        def fire() -> None:
            self._timers.discard(timer)
            then()

        timer = self._loop.call_later(seconds, fire)
        self._timers.add(timer)

    def ended(self, other: _Other, seconds: float) -> None:
        self.seconds.append(seconds)
        self._ends.pop(other, None)
        self._fill()

    def _want(self, count: int) -> None:
        self._wanted = count
        self._fill()

    def _fill(self) -> None:
        while len(self._ends) < self._wanted:
            other = _Other(self, self._laws, self._served)
            self._ends[other] = None
            other.begin()


class _Other:
    """One request of somebody else."""

    def __init__(self, others: Others, laws: Laws, served: Served) -> None:
        self._others = others
        self._laws = laws
        self._served = served
        self._began = 0.0

    def begin(self) -> None:
        self._began = asyncio.get_running_loop().time()
        batching, slots = self._served.batching, self._served.slots
        if batching is not None:
            laws = self._laws
            batching.enter(
                Job(laws.background_prompt, laws.background_prompt, laws.background_answer, lambda: None, self._served_at_last)
            )
        elif slots is None or slots.take(self):
            self._work()

    def granted(self) -> None:
        """A slot is free."""
        self._others.later(0.0, self._work)

    def _work(self) -> None:
        laws = self._laws
        prefill = laws.latency_ms + laws.prefill_ms_per_token * laws.background_prompt
        self._others.later(max((prefill + laws.decode_ms_per_token * laws.background_answer) / 1000, SHORTEST_S), self._worked)

    def _worked(self) -> None:
        if self._served.slots is not None:
            self._served.slots.give_back()
        self._answered()

    def _served_at_last(self) -> None:
        """By shared steps, which may take no time at all."""
        self._others.later(max(0.0, self._began + SHORTEST_S - asyncio.get_running_loop().time()), self._answered)

    def _answered(self) -> None:
        self._others.ended(self, asyncio.get_running_loop().time() - self._began)
