"""Priority with the sign that each server wants, what is asked of the server for it, and servers that refuse the field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.endpoints.envelopes import read_error
from headrace.endpoints.priority import Scheduling, priority_field
from headrace.endpoints.refusals import refuses_priority
from headrace.endpoints.transport import Reason, Response, TransportError
from headrace.errors import SpecError
from headrace.testing.contracts.endpoint import ScriptedTransport, job, open_scripted, refusal, request, response
from headrace.values import Failure, Kind, Reply, Sent

URL = "http://127.0.0.1:9"
VLLM = {"/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}}
SGLANG = {"/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "sglang"}]}}
# As SGLang 0.5.23 tells its arguments, shortened.
INFO = {
    "schedule_policy": "fcfs", "enable_priority_scheduling": True, "abort_on_priority_when_disabled": False,
    "schedule_low_priority_values_first": False, "default_priority_value": None, "priority_scheduling_preemption_threshold": 10,
}  # fmt: skip
DISABLED = "Using priority is disabled for this server. Please send a new request without a priority."


class Site(ScriptedTransport):
    """Answers with pages where one is asked for; what it has not is a 404, and None there is nobody."""

    def __init__(self, pages: Mapping[str, Any], *script: Response | TransportError | None) -> None:
        super().__init__(*script)
        self.pages = pages
        self.asked: list[str] = []

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        if method == "POST":
            return await super().request(method, url, headers, body, total_s, idempotency_key)
        path = url.removeprefix(URL)
        self.asked.append(path)
        page = self.pages.get(path, 404)
        if page is None:
            raise TransportError(Reason.REFUSED, Sent.NO, "connection refused")
        return response(page, b"{}") if isinstance(page, int) else response(200, json.dumps(page).encode())


def sent(site: Site, level: str | int | None, times: int = 1) -> tuple[list[Any], str | None]:
    """What bodies carry as priority ("-": nothing), and what people are told."""

    async def play() -> str | None:
        endpoint = open_scripted(site, job(priority=level))
        told = await endpoint.settle_priority(level)
        for unit in range(times):
            await endpoint.send(request(unit))
        return told

    told = asyncio.run(play())
    return [body.get("priority", "-") for body in site.bodies], told


@pytest.mark.parametrize(
    ("scheduling", "low", "high"),
    [
        (Scheduling("vllm"), {"priority": 100}, {"priority": -100}),
        (Scheduling("sglang"), {}, {"priority": 100}),  # who sends none is the last of all there
        (Scheduling("sglang", usual=0), {"priority": -100}, {"priority": 100}),
        (Scheduling("sglang", usual=500), {"priority": 400}, {"priority": 600}),
        (Scheduling("sglang", lower_first=True), {}, {"priority": -100}),
        (Scheduling("sglang", lower_first=True, usual=7), {"priority": 107}, {"priority": -93}),
        (Scheduling("sglang", is_on=False), {}, {}),
        (Scheduling(), {}, {}),
    ],
    ids=str,
)
def test_the_two_servers_want_opposite_signs(scheduling: Scheduling, low: dict[str, int], high: dict[str, int]) -> None:
    assert priority_field("low", scheduling) == low
    assert priority_field("high", scheduling) == high
    assert priority_field(-3, scheduling) == {"priority": -3}


def test_a_job_that_writes_nothing_asks_nothing_and_sends_nothing() -> None:
    site = Site(VLLM, response())
    assert sent(site, None) == (["-"], None)
    assert site.asked == []


def test_a_number_is_sent_as_it_stands_and_nobody_is_asked() -> None:
    site = Site(VLLM, response())
    assert sent(site, -7) == ([-7], None)
    assert site.asked == []


@pytest.mark.parametrize(("level", "priority"), [("low", 100), ("high", -100)])
def test_vllm_is_known_by_its_models(level: str, priority: int) -> None:
    site = Site(VLLM, response(), response())
    assert sent(site, level, 2) == ([priority, priority], None)
    assert sorted(site.asked) == ["/metrics", "/v1/models"]


def test_what_the_server_is_is_asked_for_once() -> None:
    site = Site(VLLM, response())

    async def play() -> None:
        endpoint = open_scripted(site, job(priority="low"))
        await endpoint.settle_priority("low")
        assert await endpoint.capacity() is not None

    asyncio.run(play())
    assert sorted(site.asked) == ["/metrics", "/v1/models"]


def test_sglang_is_asked_how_it_orders() -> None:
    site = Site(SGLANG | {"/server_info": INFO}, response())
    assert sent(site, "high") == ([100], None)
    assert {"/v1/models", "/server_info"} <= set(site.asked)
    assert sent(Site(SGLANG | {"/server_info": INFO | {"default_priority_value": 0}}, response()), "low") == ([-100], None)
    flipped = INFO | {"schedule_low_priority_values_first": True}
    assert sent(Site(SGLANG | {"/get_server_info": flipped}, response()), "high") == ([-100], None)  # an older release
    assert sent(Site(SGLANG, response()), "high") == ([100], None)  # one that tells nothing


def test_sglang_that_orders_by_something_else_is_sent_nothing_and_people_are_told() -> None:
    priorities, told = sent(Site(SGLANG | {"/server_info": INFO | {"enable_priority_scheduling": False}}, response()), "high")
    assert priorities == ["-"]
    assert told == (
        'http://127.0.0.1:9/v1: endpoint.priority = "high" is not sent: '
        "the server was started without --enable-priority-scheduling."
    )


@pytest.mark.parametrize(
    "pages",
    [
        {},
        {"/v1/models": None},
        {"/v1/models": 500},
        {"/v1/models": []},
        {"/v1/models": {"data": {}}},
        {"/v1/models": {"data": []}},
        {"/v1/models": {"data": ["m"]}},
        {"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}},
        {"/v1/models": {"data": [{"id": "m", "owned_by": ["vllm"]}]}},
    ],
    ids=str,
)
def test_to_a_server_that_cannot_be_told_nothing_is_sent_and_people_are_told(pages: dict[str, Any]) -> None:
    priorities, told = sent(Site(pages, response()), "low")
    assert priorities == ["-"]
    assert told is not None
    assert told.startswith('http://127.0.0.1:9/v1: endpoint.priority = "low" is not sent: it cannot be told which server')


@pytest.mark.parametrize("value", [True, "1", 2**63, -(2**63), 1.5, None])
def test_odd_defaults_of_a_server_count_as_none(value: object) -> None:
    site = Site(SGLANG | {"/server_info": INFO | {"default_priority_value": value}}, response())
    assert sent(site, "low") == (["-"], None)


def test_a_priority_beside_the_same_field_of_model_extra_is_refused() -> None:
    with pytest.raises(SpecError, match=r"endpoint\.priority.*model\.extra\.priority"):
        open_scripted(ScriptedTransport(), job({"extra": {"priority": 1}}, priority="low"))


# Refusals, as servers have written them.
REFUSALS = {
    "vLLM, its first engine": (400, {"object": "error", "message": "Got priority 100 but Priority scheduling is not enabled.",
                                     "type": "BadRequestError", "param": None, "code": 400}),
    "OpenAI": (400, {"error": {"message": "Unrecognized request argument supplied: priority", "type": "invalid_request_error",
                               "param": None, "code": None}}),
    "OpenAI, newer": (400, {"error": {"message": "Unknown parameter: 'priority'.", "type": "invalid_request_error",
                                      "param": "priority", "code": "unknown_parameter"}}),
    "Groq": (400, {"error": {"message": "property 'priority' is unsupported", "type": "invalid_request_error"}}),
    "a strict gateway": (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "priority"],
                                           "msg": "Extra inputs are not permitted", "input": 100}]}),
    "SGLang": (503, {"object": "error", "message": DISABLED, "type": "ServiceUnavailable", "param": None, "code": 503}),
    "SGLang, newer": (503, {"error": {"object": "error", "message": DISABLED, "type": "503", "code": 503}}),
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refused_priority_is_learnt_once_and_costs_nothing(said: str) -> None:
    status, body = REFUSALS[said]
    site = Site(VLLM, response(status, body), response(), response())

    async def play() -> list[Reply | Failure]:
        endpoint = open_scripted(site, job(priority="low"))
        await endpoint.settle_priority("low")
        return [await endpoint.send(request(unit)) for unit in range(3)]

    first, *others = asyncio.run(play())
    assert isinstance(first, Failure)
    assert (first.kind, first.mended, first.wait_s) == (Kind.BAD_REQUEST, True, None)
    assert all(isinstance(other, Reply) for other in others)
    assert [body.get("priority", "-") for body in site.bodies] == [100, "-", "-"]


def test_requests_that_were_on_their_way_when_it_was_learnt_are_mended_too() -> None:
    refused = response(503, {"object": "error", "message": DISABLED, "code": 503})

    class Slow(Site):
        async def request(self, *arguments: Any) -> Response:  # type: ignore[override]
            await asyncio.sleep(0)
            return await super().request(*arguments)

    site = Slow(VLLM, refused, refused, response())

    async def play() -> list[Reply | Failure]:
        endpoint = open_scripted(site, job(priority=5))
        both = await asyncio.gather(*(endpoint.send(request(unit)) for unit in range(2)))
        return [*both, await endpoint.send(request(3))]

    *both, last = asyncio.run(play())
    assert [result.mended for result in both if isinstance(result, Failure)] == [True, True]
    assert isinstance(last, Reply)


@pytest.mark.parametrize(
    "message",
    [
        "The request is aborted by a higher priority request.",
        "The request queue is full.",
        "priority must be between 0 and 9",
        "Prioritysomething is not supported",
    ],
)
def test_other_words_about_priority_are_no_refusal_of_it(message: str) -> None:
    assert not refuses_priority(read_error(json.dumps({"error": {"message": message}}).encode()))


def test_where_none_was_sent_the_words_mend_nothing() -> None:
    site = Site(
        {}, response(503, {"object": "error", "message": DISABLED, "code": 503}), refusal("Unknown parameter: 'priority'")
    )

    async def play() -> list[Reply | Failure]:
        endpoint = open_scripted(site, job())
        return [await endpoint.send(request(unit)) for unit in range(2)]

    assert [(one.kind, one.mended) for one in asyncio.run(play()) if isinstance(one, Failure)] == [
        (Kind.OVERLOADED, False), (Kind.BAD_REQUEST, False),
    ]  # fmt: skip
