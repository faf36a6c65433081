"""Continuous batching with a bounded KV cache, slots whose number changes, and both as laws of FakeEndpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.testing import FakeEndpoint, Laws, run_virtual
from headrace.testing.batching import Batching, Job
from headrace.testing.life import payload_of
from headrace.values import Reply, Request


def batch(kv: int, seats: int = 0, prefill_s: float = 0.0) -> Batching:
    return Batching(decode_s=0.01, prefill_s=prefill_s, allowed=lambda: kv, seats=lambda: seats)


def answered(made: Any, jobs: list[tuple[int, int]]) -> list[float]:
    """When each of the jobs (prompt, answer) was done, all entered at once."""

    async def life() -> list[float]:
        loop, ends, batching = asyncio.get_running_loop(), [0.0] * len(jobs), made()
        left = asyncio.Event()

        def done(n: int) -> None:
            ends[n] = loop.time()
            if all(ends):
                left.set()

        for n, (prompt, answer) in enumerate(jobs):
            batching.enter(Job(prompt, prompt, answer, lambda: None, lambda n=n: done(n)))  # type: ignore[misc]
        await left.wait()
        assert (batching.running, batching.waiting) == (0, 0)
        return ends

    return run_virtual(life(), max_time_s=1e5)


def test_requests_in_a_batch_share_its_steps():
    assert answered(lambda: batch(10_000), [(10, 100)] * 20) == [pytest.approx(1.0, abs=0.011)] * 20
    assert answered(lambda: batch(10_000), [(10, 100), (10, 50)]) == [pytest.approx(1.0), pytest.approx(0.51)]


def test_a_prompt_that_is_computed_holds_up_all_of_the_batch():
    ends = answered(lambda: batch(10_000, prefill_s=0.001), [(500, 10), (500, 10)])
    assert ends == [pytest.approx(0.1 + 1.0, abs=0.011)] * 2


def test_seats_bound_the_batch():
    assert answered(lambda: batch(10_000, seats=1), [(10, 100)] * 3) == [
        pytest.approx(1.0),
        pytest.approx(2.0),
        pytest.approx(3.0),
    ]


def test_what_does_not_fit_waits():
    ends = answered(lambda: batch(250), [(100, 100), (100, 100), (100, 100)])
    assert ends[0] == pytest.approx(1.0)
    assert ends[2] > 1.5


def test_what_overflows_is_put_back_and_computed_again():
    made = batch(250)
    ends = answered(lambda: made, [(100, 100), (100, 100)])
    assert made.preemptions == 1
    assert made.recomputed > 100
    assert ends[0] == pytest.approx(1.0)
    assert 1.0 < ends[1] < 2.0


def test_a_request_larger_than_all_there_is_is_served_alone():
    assert answered(lambda: batch(50), [(100, 10)]) == [pytest.approx(0.1)]


def test_whoever_goes_away_frees_its_room():
    async def life() -> tuple[int, int]:
        batching = batch(250)
        jobs = [Job(100, 100, 1000, lambda: None, lambda: None) for _ in range(3)]
        for job in jobs:
            batching.enter(job)
        for job in jobs:
            batching.leave(job)
        await asyncio.sleep(30)
        return batching.running, batching.waiting

    assert run_virtual(life(), max_time_s=1e5) == (0, 0)


def ask(n: int) -> Request:
    return Request(n, 0, payload_of(f"{n} " + "x" * 400), f"k{n}", 1e6)


async def asked(endpoint: FakeEndpoint, count: int, at_once: int) -> float:
    """Units a second with so many in flight."""
    waiting = list(range(count))

    async def client() -> None:
        while waiting:
            assert isinstance(await endpoint.send(ask(waiting.pop())), Reply)

    await asyncio.gather(*[client() for _ in range(at_once)])
    return count / asyncio.get_running_loop().time()


def test_an_endpoint_falls_past_its_knee_and_recomputes():
    laws = Laws(kv_tokens=2000, prefill_ms_per_token=1, decode_ms_per_token=10, answer="echo:200")
    below, above = FakeEndpoint(laws), FakeEndpoint(laws)
    assert run_virtual(asked(below, 300, 12), max_time_s=1e6) > 1.05 * run_virtual(asked(above, 300, 60), max_time_s=1e6)
    assert below.batching is not None
    assert above.batching is not None
    assert below.batching.recomputed < above.batching.recomputed


def test_capacity_changes_when_the_law_says():
    laws = Laws(slots=8, latency_ms=1000, capacity=((10.0, 0.5), (20.0, 2.0)))
    endpoint = FakeEndpoint(laws)
    took = 320 / run_virtual(asked(endpoint, 320, 32), max_time_s=1e6)
    assert took == pytest.approx(10 + 10 + (320 - 80 - 40) / 16, abs=1.5)


def test_capacity_that_is_none_is_refused():
    with pytest.raises(SpecError, match="--capacity"):
        Laws(slots=8, capacity=((10.0, 0.0),))
