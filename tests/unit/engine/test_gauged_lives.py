"""Lives against servers that say what they hold and how they are loaded, and against some that stop saying it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.engine.knobs import Knobs, Pace
from headrace.testing import FakeEndpoint, Laws, run_virtual
from headrace.testing.life import Life
from headrace.values import Capacity, Gauges, Request, State

AUTO = Pace(6, (1, 512))
KV = Laws(style="vllm", kv_tokens=8_000, prefill_ms_per_token=0.05, decode_ms_per_token=20, answer="echo:400")


def texts(count: int, chars: int = 400) -> list[str]:
    return [f"{n} " + "x" * (chars // 2 + n * 7919 % chars) for n in range(count)]


def lived(endpoint: FakeEndpoint, asked: list[str], pace: Pace = AUTO) -> tuple[Life, float]:
    """The life, and the units that were settled a second."""
    life = Life(
        asked, endpoint, knobs=Knobs("life", 1, unit_deadline_s=1e6, attempt_timeout=1e5), pace=pace, max_steps=20_000_000
    )
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    assert life.count(State.DONE) == len(asked)
    return life, len(asked) / max(1.0, life.ledger.samples[-1].at - life.ledger.samples[0].at)


def test_slots_that_are_told_are_filled_at_once_and_never_exceeded() -> None:
    endpoint = FakeEndpoint(Laws(style="llama.cpp", slots=24, latency_ms=500, jitter=0.3))
    life, pace = lived(endpoint, texts(1000))
    assert endpoint.peak_in_flight == 24
    assert pace >= 0.97 * 24 / 0.5
    assert life.ledger.samples[0].window == 24
    assert {sample.bound_by for sample in life.ledger.samples} <= {"endpoint", None}


def test_a_table_bounds_what_is_told() -> None:
    endpoint = FakeEndpoint(Laws(style="llama.cpp", slots=24, latency_ms=500))
    lived(endpoint, texts(300), Pace(6, (1, 10)))
    assert endpoint.peak_in_flight == 10


def test_a_number_is_kept_and_nobody_asks_for_gauges() -> None:
    endpoint = FakeEndpoint(Laws(style="llama.cpp", slots=24, latency_ms=500))
    lived(endpoint, texts(300), Pace(5))
    assert (endpoint.peak_in_flight, endpoint.gauges_asked) == (5, 0)


def test_a_cache_is_filled_and_hardly_anything_is_computed_twice() -> None:
    endpoint = FakeEndpoint(KV)
    _, pace = lived(endpoint, texts(3000))
    assert endpoint.batching is not None
    assert endpoint.batching.recomputed <= 0.01 * (endpoint.prompt_tokens + endpoint.completion_tokens)
    fixed = FakeEndpoint(KV)
    _, by_number = lived(fixed, texts(3000), Pace(48))
    assert pace >= 0.97 * by_number


def test_a_few_long_units_do_not_overflow_a_cache_that_fails_them() -> None:
    laws = Laws(style="llama.cpp", slots=4, kv_tokens=4000, prefill_ms_per_token=0.05, decode_ms_per_token=20, answer="echo:40")

    class Shared(FakeEndpoint):
        peak = 0

        async def capacity(self) -> Capacity | None:
            return Capacity("llama.cpp", requests=4, tokens=1000, context=1000, gauges=("running", "waiting"))

        async def send(self, request: Request) -> Any:
            self.held = getattr(self, "held", 0) + len(request.payload) // 4
            self.peak = max(self.peak, self.held)
            try:
                return await super().send(request)
            finally:
                self.held -= len(request.payload) // 4

    endpoint = Shared(laws)
    lived(endpoint, [f"{n} " + "x" * (2800 if n % 3 == 0 else 300) for n in range(200)])
    assert endpoint.peak <= 1100
    assert endpoint.peak_in_flight > 1


class Silent(FakeEndpoint):
    """Hangs, or says nothing any more, after so many looks."""

    hangs = False
    says = 0
    knows = True

    async def capacity(self) -> Capacity | None:
        if not self.knows:
            await asyncio.Event().wait()
        return await super().capacity()

    async def gauges(self) -> Gauges | None:
        if self.gauges_asked >= self.says:
            self.gauges_asked += 1
            if self.hangs:
                await asyncio.Event().wait()
            return None
        return await super().gauges()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_server_that_stops_saying_how_it_is_loaded_is_searched_on(hangs: bool) -> None:
    endpoint = Silent(
        Laws(style="vllm", kv_tokens=8_000, slots=12, prefill_ms_per_token=0.05, decode_ms_per_token=20, answer="echo:400")
    )
    endpoint.hangs, endpoint.says = hangs, 10
    _, pace = lived(endpoint, texts(2000))
    best = lived(FakeEndpoint(KV), texts(500), Pace(12))[1]
    assert pace >= 0.9 * best


def test_a_server_that_never_says_what_it_is_costs_nothing() -> None:
    endpoint = Silent(Laws(style="llama.cpp", slots=12, latency_ms=500))
    endpoint.knows = False
    _, pace = lived(endpoint, texts(2000))
    assert pace >= 0.9 * 12 / 0.5


def test_a_server_that_is_not_there_yet_is_asked_again() -> None:
    class Late(FakeEndpoint):
        looks = 0

        async def capacity(self) -> Capacity | None:
            self.looks += 1
            return await super().capacity() if self.looks > 3 else None

    endpoint = Late(Laws(style="llama.cpp", slots=12, latency_ms=500))
    life, _ = lived(endpoint, texts(600))
    assert endpoint.looks == 4
    assert life.ledger.samples[-2].window == 12


def test_a_server_that_was_started_anew_is_asked_what_it_holds_now() -> None:
    class Restarted(Silent):
        looks = 0

        async def capacity(self) -> Capacity | None:
            self.looks += 1
            self._laws = Laws(style="llama.cpp", slots=12 if self.looks == 1 else 20, latency_ms=500)
            self._load.laws = self._laws
            return await super().capacity()

        async def gauges(self) -> Gauges | None:
            self.gauges_asked += 1
            return None if self.gauges_asked == 5 else Gauges(running=self.in_flight, waiting=0)

    endpoint = Restarted(Laws(style="llama.cpp", slots=20, latency_ms=500))
    life, _ = lived(endpoint, texts(600))
    windows = [sample.window for sample in life.ledger.samples]
    assert (windows[2], windows[-2]) == (12, 20)


def test_refusals_come_before_what_is_told() -> None:
    endpoint = FakeEndpoint(Laws(style="llama.cpp", slots=60, max_in_flight=20, overload_status=429, latency_ms=500, jitter=0.5))
    life, _ = lived(endpoint, texts(3000))
    assert sum(endpoint.failures.values()) <= 200
    assert max(sample.window for sample in life.ledger.samples[20:]) <= 60


# Where others come first


def alone(laws: Laws, seconds: float) -> float:
    """How long their requests take without us."""

    async def scene() -> list[float]:
        endpoint = FakeEndpoint(laws)
        endpoint._first = 0.0
        endpoint.others.start()
        await asyncio.sleep(seconds)
        return endpoint.others.seconds

    theirs = run_virtual(scene())
    return sum(theirs) / len(theirs)


BACKGROUND = Pace(6, (1, 512), background=True)


@pytest.mark.parametrize(("style", "slower", "used"), [("llama.cpp", 1.01, 2.7), ("none", 1.06, 2.2)])
def test_seats_that_others_leave_idle_are_used_and_theirs_take_no_longer(style: str, slower: float, used: float) -> None:
    laws = Laws(style=style, slots=8, latency_ms=1000, jitter=0.2, background=((0.0, 4.0),))
    endpoint = FakeEndpoint(laws)
    _, pace = lived(endpoint, texts(1500), BACKGROUND)
    theirs = endpoint.others.seconds
    assert sum(theirs) / len(theirs) <= slower * alone(laws, 200.0)
    assert pace >= used / 1.0


@pytest.mark.parametrize(("style", "slower"), [("vllm", 1.03), ("none", 1.05)])
def test_a_cache_that_others_leave_empty_is_used_and_theirs_take_no_longer(style: str, slower: float) -> None:
    laws = Laws(
        style=style, kv_tokens=8000, prefill_ms_per_token=0.002, decode_ms_per_token=20, answer="echo:200",
        background=((0.0, 10.0), (60.0, 30.0), (100.0, 5.0)), background_prompt=200, background_answer=100,
    )  # fmt: skip
    endpoint = FakeEndpoint(laws)
    life, _ = lived(endpoint, texts(2500), BACKGROUND)
    theirs = endpoint.others.seconds
    seconds = life.ledger.samples[-1].at - life.ledger.samples[0].at
    assert sum(theirs) / len(theirs) <= slower * alone(laws, seconds)
    assert seconds <= 400


def test_a_server_that_others_fill_is_left_to_them_and_ours_go_on_when_they_have_gone() -> None:
    laws = Laws(style="llama.cpp", slots=8, latency_ms=1000, background=((5.0, 12.0), (60.0, 0.0)))
    endpoint = FakeEndpoint(laws)
    life, _ = lived(endpoint, texts(200), BACKGROUND)
    in_flight = [sample.in_flight for sample in life.ledger.samples]
    assert in_flight[3] == 7
    assert set(in_flight[15:55]) == {0}
    assert {sample.bound_by for sample in life.ledger.samples[15:55]} == {"endpoint"}
    assert max(in_flight[65:]) == 7


def test_a_number_is_an_upper_bound_where_others_come_first() -> None:
    laws = Laws(style="llama.cpp", slots=8, latency_ms=1000, background=((0.0, 2.0),))
    endpoint = FakeEndpoint(laws)
    lived(endpoint, texts(200), Pace(4, background=True))
    assert endpoint.peak_in_flight == 4
    assert endpoint.gauges_asked > 0
