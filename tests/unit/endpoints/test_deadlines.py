"""Deadlines, on a loop whose time and business are ours."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from headrace.endpoints.deadlines import Deadlines
from headrace.testing import run_virtual


class Handle:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """As much of an event loop as a heart needs. `pass_time` beats in time; `be_busy` lets time pass without beats."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> Handle:
        self.timers.append(Handle(at, call))
        return self.timers[-1]

    @property
    def next(self) -> Handle | None:
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return min(self.timers, key=lambda timer: timer.at, default=None)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (timer := self.next) is not None and timer.at <= until:
            self.timers.remove(timer)
            self.now = max(self.now, timer.at)
            timer.call()
        self.now = max(self.now, until)

    def be_busy(self, seconds: float) -> None:
        self.now += seconds


class Thing:
    def __init__(self, due: float) -> None:
        self.due = due
        self.told: list[float] = []

    def on_due(self, now: float) -> None:
        self.told.append(now)
        self.due = math.inf


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def deadlines(loop: Any) -> Deadlines:
    return Deadlines(loop)


def watched(deadlines: Deadlines, seconds: float) -> Thing:
    thing = Thing(deadlines.now() + seconds)
    deadlines.watch(thing)
    return thing


def test_what_is_due_is_told_once_and_soon(loop: Loop, deadlines: Deadlines) -> None:
    thing, other = watched(deadlines, 1.0), watched(deadlines, 2.0)
    loop.pass_time(0.99)
    assert not thing.told
    loop.pass_time(0.1)
    assert len(thing.told) == 1
    assert not other.told
    loop.pass_time(5.0)
    assert (len(thing.told), len(other.told)) == (1, 1)


def test_a_due_that_was_moved_counts_as_it_is_now(loop: Loop, deadlines: Deadlines) -> None:
    thing = watched(deadlines, 1.0)
    loop.pass_time(0.5)
    thing.due += 1.0
    loop.pass_time(1.0)
    assert not thing.told
    loop.pass_time(0.6)
    assert thing.told


def test_net_12_time_in_which_the_loop_was_busy_does_not_count(loop: Loop, deadlines: Deadlines) -> None:
    thing = watched(deadlines, 1.0)
    loop.pass_time(0.5)
    loop.be_busy(10.0)
    loop.pass_time(0.4)
    assert not thing.told
    loop.pass_time(0.2)
    assert thing.told


def test_net_12_after_a_busy_time_nobody_is_given_up_before_what_came_could_be_read(loop: Loop, deadlines: Deadlines) -> None:
    thing = watched(deadlines, 0.02)  # due before the next beat
    loop.be_busy(3.0)
    loop.pass_time(0.0)
    assert not thing.told
    loop.pass_time(0.05)
    assert thing.told


def test_a_limit_that_begins_while_the_loop_is_busy_is_whole(loop: Loop, deadlines: Deadlines) -> None:
    watched(deadlines, 60.0)
    loop.be_busy(5.0)
    thing = watched(deadlines, 1.0)
    loop.pass_time(0.9)
    assert not thing.told
    loop.pass_time(0.2)
    assert thing.told


def test_a_heart_that_has_nothing_to_watch_does_not_beat(loop: Loop, deadlines: Deadlines) -> None:
    assert loop.next is None
    thing, other = watched(deadlines, 1.0), watched(deadlines, 1.0)
    deadlines.forget(thing)
    assert loop.next is not None
    deadlines.forget(other)
    deadlines.forget(other)
    assert loop.next is None
    loop.be_busy(100.0)  # idle, not busy
    again = watched(deadlines, 1.0)
    loop.pass_time(1.1)
    assert again.told
    assert not thing.told


def test_what_is_forgotten_while_others_are_told_is_not_told(loop: Loop, deadlines: Deadlines) -> None:
    second = Thing(deadlines.now() + 1.0)

    class Forgetful(Thing):
        def on_due(self, now: float) -> None:
            super().on_due(now)
            deadlines.forget(second)

    first = Forgetful(deadlines.now() + 1.0)
    deadlines.watch(first)
    deadlines.watch(second)
    loop.pass_time(2.0)
    assert first.told
    assert not second.told


def test_a_limit_ends_its_body_alone() -> None:
    async def scene() -> None:
        deadlines = Deadlines(asyncio.get_running_loop())
        with pytest.raises(TimeoutError):
            async with deadlines.limit(0.0):
                await asyncio.Event().wait()
        async with deadlines.limit(60.0):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run_virtual(scene())


def test_a_limit_leaves_the_cancellation_of_others_alone() -> None:
    async def scene() -> None:
        deadlines = Deadlines(asyncio.get_running_loop())

        async def work() -> None:
            async with deadlines.limit(60.0):
                await asyncio.Event().wait()

        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(scene())
