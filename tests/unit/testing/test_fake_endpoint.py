"""FakeEndpoint: the protocol, the laws in virtual time, scripted and windowed failures, and what it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import orjson
import pytest

from headrace.protocols import Endpoint
from headrace.testing import NEVER, FakeEndpoint, Laws, by_unit, fails_first, run_virtual
from headrace.values import Failure, Kind, Reply, Request, Sent

DOWN = Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True)


def ask(unit: int, text: str = "hello", timeout_s: float = 60.0) -> Request:
    payload = orjson.dumps([{"role": "user", "content": f"{text} {unit}"}])
    return Request(unit, 0, payload, f"run-{unit}-0", timeout_s)


async def ask_all(endpoint: FakeEndpoint, count: int, **more: Any) -> tuple[list[Reply | Failure], float]:
    got = await asyncio.gather(*[endpoint.send(ask(n, **more)) for n in range(count)])
    return got, asyncio.get_running_loop().time()


def settle(work: Coroutine[Any, Any, Any]) -> Any:
    return run_virtual(work, max_time_s=1e6)


def test_it_is_an_endpoint():
    endpoint: Endpoint = FakeEndpoint(name="http://there/v1")
    assert (endpoint.name, endpoint.identity) == ("http://there/v1", "http://there/v1")


def test_answers_come_from_the_payload_of_a_chat_or_a_prompt():
    endpoint = FakeEndpoint()
    chat = settle(endpoint.send(ask(7)))
    assert (chat.content, chat.finish, chat.usage.prompt, chat.usage.completion) == ("hello 7", "stop", 2, 2)
    plain = settle(FakeEndpoint().send(Request(1, 0, b'"a prompt"', "k", 5)))
    assert plain.content == "a prompt"


def test_slots_queue_in_virtual_time():
    endpoint = FakeEndpoint(Laws(slots=4, latency_ms=1000))
    got, took = settle(ask_all(endpoint, 40))
    assert all(isinstance(reply, Reply) for reply in got)
    assert took == pytest.approx(10)
    assert (endpoint.peak_in_flight, endpoint.in_flight, endpoint.answered) == (40, 0, 40)


def test_prefill_is_paid_for_what_no_cache_holds():
    async def life() -> list[float]:
        endpoint, times = FakeEndpoint(Laws(prefill_ms_per_token=1)), []
        for n in range(2):
            before = asyncio.get_running_loop().time()
            reply = await endpoint.send(ask(n, "s" * 4000))
            times.append(asyncio.get_running_loop().time() - before)
        assert isinstance(reply, Reply)
        assert reply.usage is not None
        assert reply.usage.cached == 992
        return times

    assert settle(life()) == pytest.approx([1.001, 0.009])


def test_a_hang_ends_with_the_request_s_own_timeout():
    endpoint = FakeEndpoint(Laws(hang_rate=1))
    got, took = settle(ask_all(endpoint, 3, timeout_s=42))
    assert {(failure.kind, failure.sent) for failure in got} == {(Kind.TIMEOUT, Sent.MAYBE)}
    assert took == pytest.approx(42)
    assert endpoint.failures == {Kind.TIMEOUT: 3}


def test_slow_service_is_a_timeout_and_gives_its_slot_back():
    async def life() -> Reply | Failure:
        endpoint = FakeEndpoint(Laws(slots=1, latency_ms=3000))
        assert isinstance(await endpoint.send(ask(1, timeout_s=1)), Failure)
        return await endpoint.send(ask(1, timeout_s=4))

    assert isinstance(settle(life()), Reply)


@pytest.mark.parametrize(
    ("laws", "kind", "sent", "status"),
    [
        (Laws(error_rate=1), Kind.SERVER_ERROR, Sent.YES, 500),
        (Laws(overload_rate=1), Kind.OVERLOADED, Sent.YES, 503),
        (Laws(reset_rate=1), Kind.CONNECTION, Sent.MAYBE, None),
    ],
)
def test_each_fault_is_a_failure_of_its_kind(laws: Laws, kind: Kind, sent: Sent, status: int | None):
    failure = settle(FakeEndpoint(laws).send(ask(1)))
    assert (failure.kind, failure.sent, failure.status) == (kind, sent, status)


def test_faults_depend_on_the_prompt_and_not_on_the_order():
    async def kinds(order: list[int]) -> dict[int, bool]:
        endpoint = FakeEndpoint(Laws(error_rate=0.4))
        return {n: isinstance(await endpoint.send(ask(n)), Failure) for n in order}

    forward = settle(kinds(list(range(50))))
    assert settle(kinds(list(range(49, -1, -1)))) == forward
    assert 5 < sum(forward.values()) < 40


def test_too_many_at_once_are_turned_away():
    endpoint = FakeEndpoint(Laws(max_in_flight=4, latency_ms=100, overload_status=429, retry_after_s=2))
    got, _ = settle(ask_all(endpoint, 10))
    turned = [reply for reply in got if isinstance(reply, Failure)]
    assert len(turned) == 6
    assert {(failure.kind, failure.wait_s) for failure in turned} == {(Kind.RATE_LIMITED, 2)}


def test_too_many_prompt_tokens_at_once_are_turned_away():
    endpoint = FakeEndpoint(Laws(max_in_flight_tokens=25, latency_ms=100))
    got, _ = settle(ask_all(endpoint, 5, text="x" * 38))
    assert [isinstance(reply, Reply) for reply in got] == [True, True, False, False, False]


def test_the_limit_per_minute_names_its_wait():
    async def life() -> list[Reply | Failure]:
        endpoint = FakeEndpoint(Laws(requests_per_minute=60))
        got = [await endpoint.send(ask(n)) for n in range(61)]
        await asyncio.sleep(1)
        return [*got, await endpoint.send(ask(99))]

    got = settle(life())
    assert [isinstance(reply, Reply) for reply in got] == [True] * 60 + [False, True]
    assert got[60].wait_s == pytest.approx(1)
    assert (got[60].kind, got[60].status) == (Kind.RATE_LIMITED, 429)


def test_an_outage_hits_what_arrives_and_what_would_be_answered_in_it():
    async def life() -> list[bool]:
        endpoint, got = FakeEndpoint(Laws(latency_ms=2000), outages=[(3, 10, DOWN)]), []
        for _ in range(8):
            got.append(await endpoint.send(ask(1)) == DOWN)
            await asyncio.sleep(0.5)
        return got

    assert settle(life())[:3] == [False, True, True]


def test_an_endpoint_may_never_recover():
    async def life() -> Reply | Failure:
        endpoint = FakeEndpoint(outages=[(5, NEVER, DOWN)])
        assert isinstance(await endpoint.send(ask(1)), Reply)
        await asyncio.sleep(500_000)
        return await endpoint.send(ask(1))

    assert settle(life()) == DOWN


def test_scripts_decide_before_the_laws():
    wrong = Failure(Kind.AUTH, "no such key", status=401)

    async def life() -> list[Any]:
        scripted = FakeEndpoint(script=by_unit({3: [wrong, None, Reply("mine")]}))
        got = [await scripted.send(ask(3)) for _ in range(4)] + [await scripted.send(ask(4))]
        first = FakeEndpoint(script=fails_first(2, wrong))
        return got + [await first.send(ask(n)) for n in (1, 1, 1, 2)]

    got = settle(life())
    assert [reply if isinstance(reply, Failure) else reply.content for reply in got] == [
        wrong, "hello 3", "mine", "hello 3", "hello 4", wrong, wrong, "hello 1", wrong,
    ]  # fmt: skip


def test_it_counts_sends_by_unit_and_by_key():
    async def life() -> FakeEndpoint:
        endpoint = FakeEndpoint()
        for unit in (1, 1, 2):
            await endpoint.send(ask(unit))
        await endpoint.close()
        return endpoint

    endpoint = settle(life())
    assert endpoint.requests_seen == 3
    assert endpoint.sends_by_unit == {1: 2, 2: 1}
    assert endpoint.sends_by_key == {"run-1-0": 2, "run-2-0": 1}
    assert endpoint.closed


def test_cancelling_a_send_is_counted_and_leaves_nothing_in_flight():
    async def life() -> FakeEndpoint:
        endpoint = FakeEndpoint(Laws(latency_ms=1000))
        task = asyncio.create_task(endpoint.send(ask(1)))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return endpoint

    endpoint = settle(life())
    assert (endpoint.cancelled, endpoint.in_flight, endpoint.answered) == (1, 0, 0)


@pytest.mark.parametrize("payload", [b"", b"{", b"5", b"[]", b'[{"role": 1}]'])
def test_a_payload_that_is_no_prompt_is_a_bad_request(payload: bytes):
    failure = settle(FakeEndpoint().send(Request(1, 0, payload, "k", 5)))
    assert failure.kind is Kind.BAD_REQUEST


def test_what_no_law_answers_is_a_bad_request():
    failure = settle(FakeEndpoint(Laws(answer="label")).send(ask(1)))
    assert failure.kind is Kind.BAD_REQUEST


def test_schema_and_max_tokens_shape_the_answer():
    schema = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
    reply = settle(FakeEndpoint(Laws(answer="label"), schema=schema).send(ask(1)))
    assert orjson.loads(reply.content)["label"] in ("a", "b")
    cut = settle(FakeEndpoint(max_tokens=1).send(ask(1)))
    assert (cut.content, cut.finish) == ("hell", "length")
