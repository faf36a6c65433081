"""Virtual time: it passes only when everybody waits, and nothing real gets in."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import pytest

from headrace.testing import Deadlock, RunawayError, ThreadRefusedError, VirtualLoop, run_virtual


def test_a_year_of_sleeping_ends_at_exactly_a_year():
    async def life() -> float:
        for _ in range(365):
            await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run_virtual(life(), max_steps=2_000) == pytest.approx(365 * 86_400, abs=1e-6)


def test_timers_fire_in_the_order_of_their_times():
    async def life() -> list[int]:
        seen: list[int] = []

        async def nap(n: int) -> None:
            await asyncio.sleep(n)
            seen.append(n)

        await asyncio.gather(*[nap(n) for n in (5, 1, 4, 2, 3)])
        return seen

    assert run_virtual(life()) == [1, 2, 3, 4, 5]


def test_waiting_for_nothing_is_a_deadlock_that_names_who_waits():
    async def waits_in_vain() -> None:
        await asyncio.sleep(7)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 7\.000 s .*waits_in_vain:\d+ > Event\.wait:\d+"):
        run_virtual(waits_in_vain())


def test_a_timeout_is_no_deadlock():
    async def life() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(life()) == pytest.approx(30)


def test_threads_are_refused_both_ways():
    async def life() -> list[str]:
        with pytest.raises(ThreadRefusedError, match="sleep"):
            await asyncio.to_thread(time.sleep, 0)
        loop = asyncio.get_running_loop()
        refused: list[str] = []

        def call_in() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except ThreadRefusedError as error:
                refused.append(str(error))

        thread = threading.Thread(target=call_in)
        thread.start()
        thread.join()
        return refused

    assert run_virtual(life()) == ["a virtual loop takes no calls from other threads"]


def test_the_loop_s_own_thread_may_call_threadsafe():
    async def life() -> bool:
        called = asyncio.Event()
        asyncio.get_running_loop().call_soon_threadsafe(called.set)
        return await called.wait()

    assert run_virtual(life())


async def _interleaving() -> tuple[int, ...]:
    seen: list[int] = []

    async def walker(n: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(n)

    await asyncio.gather(*[walker(n) for n in range(4)])
    return tuple(seen)


def test_a_seed_repeats_its_interleaving_and_seeds_differ():
    by_seed = {seed: run_virtual(_interleaving(), seed=seed) for seed in range(20)}
    assert {seed: run_virtual(_interleaving(), seed=seed) for seed in range(20)} == by_seed
    assert len(set(by_seed.values())) > 10


def test_without_a_seed_callbacks_run_first_in_first_out():
    assert run_virtual(_interleaving()) == (0, 1, 2, 3) * 3


def test_going_round_without_getting_anywhere_is_stopped():
    async def waits(seconds: float) -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(seconds)

    with pytest.raises(RunawayError, match="1000 rounds"):
        run_virtual(waits(0), max_steps=1000)
    with pytest.raises(RunawayError, match=r"3600\.000 s"):
        run_virtual(waits(60), max_time_s=3600)


def test_what_the_coroutine_raises_comes_out():
    async def fails() -> None:
        await asyncio.sleep(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(fails())


def test_tasks_left_behind_are_cancelled_and_may_clean_up():
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            ended.append("cleaned")

    async def life() -> asyncio.Task[None]:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        return task

    task = run_virtual(life())
    assert ended == ["cleaned"]
    assert task.cancelled()


def test_a_virtual_run_inside_a_running_loop_is_refused():
    async def inner() -> None: ...

    async def outer() -> None:
        with pytest.raises(RuntimeError, match="another loop is running"):
            run_virtual(inner())

    run_virtual(outer())


def test_a_closed_loop_is_closed():
    loop = VirtualLoop()
    loop.run_until_complete(asyncio.sleep(10))
    loop.close()
    assert loop.is_closed()
    assert loop.time() == pytest.approx(10)
