"""What a simulated endpoint says of itself is what a client reads out of its pages."""

from __future__ import annotations

import asyncio

import pytest

from headrace.endpoints.gauges import read_gauges, read_loads, read_slots
from headrace.endpoints.serverinfo import Models, read_capacity
from headrace.errors import SpecError
from headrace.testing import FakeEndpoint, Laws, run_virtual
from headrace.testing.life import payload_of
from headrace.testing.load import page_of
from headrace.values import Capacity, Gauges, Request

STYLES = ("vllm", "sglang", "llama.cpp")


def request(n: int, text: str = "word " * 40) -> Request:
    return Request(n, 0, payload_of(f"{n} {text}"), f"k{n}", 1e6)


def looked_at(laws: Laws, at_s: float, sends: int) -> tuple[Capacity, Gauges | None]:
    """The endpoint so many seconds after as many requests were sent at once."""

    async def scene() -> tuple[Capacity, Gauges | None]:
        endpoint = FakeEndpoint(laws)
        tasks = [asyncio.ensure_future(endpoint.send(request(n))) for n in range(sends)]
        await asyncio.sleep(at_s)
        capacity, gauges = await endpoint.capacity(), await endpoint.gauges()
        for task in tasks:
            task.cancel()
        assert capacity is not None
        return capacity, gauges

    return run_virtual(scene())


@pytest.mark.parametrize("style", STYLES)
def test_what_is_said_is_what_is_read_out_of_the_pages(style: str) -> None:
    laws = Laws(style=style, slots=5, kv_tokens=200, decode_ms_per_token=10, answer="text:some words", prefill_ms_per_token=1)
    capacity, gauges = looked_at(laws, 0.05, 6)
    assert gauges is not None
    pages = {name: page_of(path, capacity, gauges) for name, path in PATHS.items()}
    served = {name: page for name, page in pages.items() if page is not None}
    assert read_gauges(style, served["metrics"]) == gauges
    told = read_capacity(style, served, Models())
    assert (told.requests, told.tokens, told.block, told.told_by) == (
        capacity.requests,
        capacity.tokens,
        capacity.block,
        capacity.told_by,
    )
    if style == "llama.cpp":
        assert read_slots(served["slots"]) == Gauges(running=gauges.running)
    if style == "sglang":
        assert read_loads(served["loads"]) == Gauges(gauges.running, gauges.waiting)


PATHS = {
    "metrics": "/metrics",
    "props": "/props",
    "slots": "/slots",
    "server_info": "/server_info",
    "loads": "/v1/loads",
    "x": "/x",
}


def test_slots_that_are_taken_run_and_the_others_wait() -> None:
    capacity, gauges = looked_at(Laws(style="llama.cpp", slots=4, latency_ms=1000), 0.5, 6)
    assert (capacity.requests, capacity.tokens, capacity.context) == (4, 4096, 4096)
    assert gauges == Gauges(4, 2)


def test_a_full_cache_is_seen_and_so_is_what_is_put_back() -> None:
    laws = Laws(style="vllm", kv_tokens=200, decode_ms_per_token=10, answer="echo:200")
    _, early = looked_at(laws, 0.011, 6)
    assert early is not None
    assert early.running is not None
    assert early.kv_used is not None
    assert (early.running, early.waiting) == (3, 3)  # 51 tokens each, and one more a step
    assert 0.75 < early.kv_used <= 1.0
    _, late = looked_at(laws, 0.3, 6)
    assert late is not None
    assert late.preemptions is not None
    assert late.preemptions > 0


def test_an_idle_batch_holds_nothing() -> None:
    _, gauges = looked_at(Laws(style="vllm", kv_tokens=200, decode_ms_per_token=10), 0.1, 0)
    assert gauges == Gauges(0, 0, 0, 0.0, 0, 0.0, 0.0)


def test_without_bounds_what_is_in_flight_runs() -> None:
    assert looked_at(Laws(style="sglang", latency_ms=1000), 0.5, 3)[1] == Gauges(3, 0, None, 0.0, 0, 0.0, 0.0)


def test_without_a_style_nothing_is_said() -> None:
    capacity, gauges = looked_at(Laws(slots=4, latency_ms=1000), 0.5, 3)
    assert (capacity.server, capacity.requests, capacity.gauges, gauges) == ("unknown", None, (), None)
    assert page_of("/metrics", capacity, gauges) is None


@pytest.mark.parametrize(
    "laws",
    [{"style": "triton"}, {"background": ((-1.0, 2.0),)}, {"background": ((0.0, 1e9),)}, {"background_prompt": -1}],
)
def test_impossible_laws_are_refused(laws: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="allowed"):
        Laws(**laws)  # type: ignore[arg-type]


# Others


@pytest.mark.parametrize("laws", [{"slots": 4}, {"kv_tokens": 1000}, {}])
def test_others_take_places_as_the_law_says(laws: dict[str, int]) -> None:
    others = Laws(
        style="vllm",
        decode_ms_per_token=10,
        background=((1.0, 2.0), (17.0, 0.0)),
        background_prompt=50,
        background_answer=100,
        **laws,
    )

    async def scene() -> tuple[list[int], FakeEndpoint]:
        endpoint = FakeEndpoint(others)
        await endpoint.send(request(0, "x"))
        seen = []
        for _ in range(5):
            await asyncio.sleep(5)
            gauges = await endpoint.gauges()
            assert gauges is not None
            seen.append(gauges.running or 0 if laws else endpoint.others.in_flight)
        return seen, endpoint

    seen, endpoint = run_virtual(scene())
    assert seen == [2, 2, 2, 0, 0]
    assert 30 <= len(endpoint.others.seconds) <= 34
    assert max(endpoint.others.seconds) < 1.2
    assert endpoint.gauges_asked == 5


def test_others_queue_behind_ours_and_ours_behind_theirs() -> None:
    laws = Laws(slots=1, latency_ms=1000, background=((0.5, 1.0),), background_prompt=0, background_answer=0)

    async def scene() -> tuple[float, list[float]]:
        endpoint = FakeEndpoint(laws)
        await endpoint.send(request(0))
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        await endpoint.send(request(1))
        return asyncio.get_running_loop().time() - began, endpoint.others.seconds

    seconds, theirs = run_virtual(scene())
    assert seconds == pytest.approx(1.5)
    assert theirs[0] == pytest.approx(1.5)
