"""The simulated endpoint over loopback: statuses, headers, what it does to sockets, and what it counts."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import jsonschema_rs
import orjson
import pytest
import uvloop

from headrace.errors import SpecError
from headrace.testing.sim import Rule, SimOptions, SimServer

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]

SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": ["red", "green"]}, "why": {"type": "string", "minLength": 3}},
    "required": ["label", "why"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}


class Client:
    """A client of one simulated endpoint."""

    def __init__(self, sim: SimServer, http: aiohttp.ClientSession) -> None:
        self.sim = sim
        self.http = http

    async def chat(self, text: str = "hello there", headers: dict[str, str] | None = None, **body: Any) -> aiohttp.ClientResponse:
        asked = {"model": "m", "messages": [{"role": "user", "content": text}], **body}
        async with self.http.post(f"{self.sim.url}/chat/completions", json=asked, headers=headers) as reply:
            await reply.read()
            return reply

    async def said(self, text: str = "hello there", **body: Any) -> str:
        reply = await self.chat(text, **body)
        assert reply.status == 200, await reply.text()
        return str((await reply.json())["choices"][0]["message"]["content"])

    async def error(self, text: str = "hello there", **body: Any) -> tuple[int, str]:
        reply = await self.chat(text, **body)
        return reply.status, (await reply.json())["error"]["code"]

    async def get(self, path: str) -> Any:
        async with self.http.get(self.sim.url.removesuffix("/v1") + path) as reply:
            return await reply.json()


def with_sim(use: Callable[[Client], Awaitable[None]], *, loop: Loop = asyncio.new_event_loop, **options: Any) -> None:
    async def life() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with SimServer(SimOptions(**options)) as sim, aiohttp.ClientSession(connector=connector) as http:
            await use(Client(sim, http))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(life())


def test_a_chat_is_answered_as_openai_does():
    async def use(client: Client) -> None:
        reply = await client.chat("hello there", max_tokens=2)
        assert reply.content_type == "application/json"
        body = await reply.json()
        assert (body["object"], body["model"]) == ("chat.completion", "m")
        assert body["choices"][0]["message"] == {"role": "assistant", "content": "hello th"}
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["usage"] == {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    with_sim(use)


def test_completions_are_answered_too():
    async def use(client: Client) -> None:
        async with client.http.post(f"{client.sim.url}/completions", json={"model": "m", "prompt": "say"}) as reply:
            body = await reply.json()
        assert (body["object"], body["choices"][0]["text"]) == ("text_completion", "say")

    with_sim(use)


def test_json_obeys_the_schema_of_the_request():
    async def use(client: Client) -> None:
        for n in range(5):
            said = await client.said(f"record {n}", response_format=FORMAT)
            jsonschema_rs.validate(SCHEMA, orjson.loads(said))

    with_sim(use, answer="json")


def test_labels_follow_the_table():
    async def use(client: Client) -> None:
        assert orjson.loads(await client.said("a leaf", response_format=FORMAT))["label"] == "green"
        assert await client.said("a rose") == "red"

    with_sim(use, answer="label", table={"rose": "red", "leaf": "green"})


def test_models_health_and_unknown_routes():
    async def use(client: Client) -> None:
        model = {"id": "only", "object": "model", "created": 0, "owned_by": "headrace", "max_model_len": 500}
        assert await client.get("/v1/models") == {"object": "list", "data": [model]}
        assert await client.get("/health") == {"status": "ok"}
        assert (await client.get("/nowhere"))["error"]["code"] == "unknown_url"
        async with client.http.post(f"{client.sim.url}/embeddings", json={}) as reply:
            assert reply.status == 404
        async with client.http.get(f"{client.sim.url}/chat/completions") as reply:
            assert reply.status == 405

    with_sim(use, model="only", context=500)


def test_what_cannot_be_served_is_a_400_404_or_401_with_openai_s_codes():
    async def use(client: Client) -> None:
        key = {"Authorization": "Bearer right"}
        assert await client.error(headers={"Authorization": "Bearer wrong"}) == (401, "invalid_api_key")
        assert await client.error() == (401, "invalid_api_key")
        assert await client.error(headers=key, model="other") == (404, "model_not_found")
        assert await client.error("x" * 500, headers=key) == (400, "context_length_exceeded")
        assert await client.error(headers=key, max_tokens=5) == (400, "unsupported_parameter")
        assert (await client.chat(headers=key, max_completion_tokens=5)).status == 200
        assert await client.error(headers=key, response_format=FORMAT) == (400, "unknown_parameter")
        assert await client.error(headers=key, messages="x") == (400, "invalid_value")
        assert await client.error(headers=key, max_completion_tokens=0) == (400, "invalid_value")
        async with client.http.post(f"{client.sim.url}/chat/completions", data=b"{no", headers=key) as reply:
            assert reply.status == 400
        assert client.sim.stats.by_status == {401: 2, 404: 1, 400: 6, 200: 1}

    with_sim(use, api_key="right", model="m", context=100, max_tokens_field="max_completion_tokens", schema=False)


def test_strict_schemas_may_be_demanded():
    async def use(client: Client) -> None:
        loose = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}
        assert await client.error(response_format=loose) == (400, "invalid_json_schema")
        assert (await client.chat(response_format=FORMAT)).status == 200

    with_sim(use, strict_schema=True)


def test_slots_bound_what_is_served_at_once():
    async def use(client: Client) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.gather(*[client.chat(f"record {n}") for n in range(12)])
        assert loop.time() - before >= 0.119
        assert client.sim.stats.in_flight_peak == 12

    with_sim(use, slots=3, latency_ms=30)


def test_a_long_queue_of_instant_answers_is_worked_off():
    async def use(client: Client) -> None:
        text = "s" * 64
        replies = await asyncio.gather(*[client.chat(text) for _ in range(300)])
        assert {reply.status for reply in replies} == {200}
        assert client.sim.stats.in_flight == 0

    with_sim(use, slots=1, prefill_ms_per_token=10)


def test_a_prompt_seen_before_is_cached():
    async def use(client: Client) -> None:
        await client.chat("s" * 640 + "one")
        usage = (await (await client.chat("s" * 640 + "two")).json())["usage"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 160}
        assert client.sim.stats.cached_tokens == 160

    with_sim(use)


def test_too_many_at_once_are_turned_away_with_the_wait_named():
    async def use(client: Client) -> None:
        replies = await asyncio.gather(*[client.chat(f"record {n}") for n in range(10)])
        turned = [reply for reply in replies if reply.status == 429]
        assert len(turned) == 6
        assert {reply.headers["Retry-After"] for reply in turned} == {"1.5"}
        assert client.sim.stats.by_status == {200: 4, 429: 6}

    with_sim(use, max_in_flight=4, overload_status=429, retry_after_s=1.5, latency_ms=100)


def test_too_many_prompt_tokens_at_once_are_turned_away():
    async def use(client: Client) -> None:
        replies = await asyncio.gather(*[client.chat("x" * 40) for _ in range(5)])
        assert sorted(reply.status for reply in replies) == [200, 200, 503, 503, 503]
        assert (await client.chat("x" * 40)).status == 200

    with_sim(use, max_in_flight_tokens=25, latency_ms=100)


def test_limits_per_minute_show_in_the_headers():
    async def use(client: Client) -> None:
        first = await client.chat("x" * 4)
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        assert first.headers["x-ratelimit-remaining-tokens"] == "998"
        assert first.headers["x-ratelimit-reset-requests"].endswith("s")
        await client.chat()
        third = await client.chat()
        assert third.status == 429
        assert 28 <= int(third.headers["Retry-After"]) <= 30
        assert (await third.json())["error"]["code"] == "rate_limit_exceeded"

    with_sim(use, requests_per_minute=2, tokens_per_minute=1000)


def test_faults_come_at_their_rates():
    async def use(client: Client) -> None:
        replies = await asyncio.gather(*[client.chat(f"record {n}") for n in range(400)])
        statuses = [reply.status for reply in replies]
        assert 40 < statuses.count(500) < 120
        assert 40 < statuses.count(503) < 120
        assert client.sim.stats.by_status == {status: statuses.count(status) for status in set(statuses)}

    with_sim(use, error_rate=0.2, overload_rate=0.2)


def test_a_prompt_that_fails_once_is_answered_the_second_time():
    async def use(client: Client) -> None:
        assert [(await client.chat("a")).status for _ in range(3)] == [503, 200, 200]

    with_sim(use, fail_once_rate=1)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reset_connection_is_reset(loop: Loop):
    async def use(client: Client) -> None:
        with pytest.raises(aiohttp.ClientOSError, match="reset"):
            await client.chat()
        assert client.sim.stats.by_action == {"reset": 1}
        assert (client.sim.stats.in_flight, client.sim.stats.aborted_by_client) == (0, 0)

    with_sim(use, loop=loop, reset_rate=1)


def test_a_request_that_hangs_is_counted_as_aborted_once_the_client_leaves():
    async def use(client: Client) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.chat()
        await until(lambda: client.sim.stats.aborted_by_client == 1)
        assert client.sim.stats.in_flight == 0
        assert client.sim.stats.by_action == {"hang": 1}

    with_sim(use, hang_rate=1)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_leaves_frees_its_slot_and_its_place_in_the_queue(loop: Loop):
    async def use(client: Client) -> None:
        waiting = [asyncio.create_task(client.chat(f"slow {n}")) for n in range(3)]
        await until(lambda: client.sim.stats.in_flight == 3)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await until(lambda: client.sim.stats.in_flight == 0)
        assert client.sim.stats.aborted_by_client == 3
        assert (await client.chat("quick")).status == 200

    with_sim(use, loop=loop, slots=1, decode_ms_per_token=100)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in the server's protocol, which has no event
            await asyncio.sleep(0.005)


def test_scripted_replies_come_before_the_laws():
    rules = (
        Rule(index=1, status=429, headers={"Retry-After": "61"}, body={"error": {"type": "insufficient_quota"}}),
        Rule(match="broken", times=1, body={"choices": None}),
        Rule(match="filter", content="", finish="content_filter"),
        Rule(match="teapot", status=418),
    )

    async def use(client: Client) -> None:
        first = await client.chat()
        assert (first.status, first.headers["Retry-After"]) == (429, "61")
        assert (await first.json()) == {"error": {"type": "insufficient_quota"}}
        assert (await (await client.chat("broken")).json()) == {"choices": None}
        assert await client.said("broken") == "broken"
        choice = (await (await client.chat("filter")).json())["choices"][0]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("content_filter", "")
        assert (await client.chat("teapot")).status == 418

    with_sim(use, script=rules)


async def raw(sim: SimServer, text: str) -> bytes:
    """All that the server sends until it closes."""
    body = orjson.dumps({"messages": [{"role": "user", "content": text}]})
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
    writer.write(head + body)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_actions_spoil_the_reply_on_the_wire():
    actions = ("close", "truncate", "html", "empty", "sse", "gzip")

    async def use(client: Client) -> None:
        got = {action: await raw(client.sim, f"do {action}") for action in actions}
        assert got["close"] == b""
        head, _, body = got["truncate"].partition(b"\r\n\r\n")
        assert 0 < len(body) < int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        assert b"text/html" in got["html"]
        assert b"<h1>" in got["html"]
        assert got["empty"].endswith(b"content-length: 0\r\n\r\n")
        head, _, body = got["sse"].partition(b"\r\n\r\n")
        assert b"text/event-stream" in head
        lines = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
        assert lines[-1] == b"[DONE]"
        parts = [orjson.loads(line) for line in lines[:-1]]
        assert "".join(part["choices"][0]["delta"]["content"] for part in parts if part["choices"]) == "do sse"
        assert parts[-1]["usage"]["completion_tokens"] == 2
        head, _, body = got["gzip"].partition(b"\r\n\r\n")
        assert b"content-encoding: gzip" in head
        assert orjson.loads(gzip.decompress(body))["choices"][0]["message"]["content"] == "do gzip"

    with_sim(use, script=tuple(Rule(match=f"do {action}", action=action) for action in actions))


def test_a_trickle_sends_the_head_and_then_nearly_nothing():
    async def use(client: Client) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.chat()
        await until(lambda: client.sim.stats.aborted_by_client == 1)

    with_sim(use, script=(Rule(action="trickle"),))


def test_a_stream_is_given_where_it_is_asked_for():
    async def use(client: Client) -> None:
        assert (await client.chat(stream=True)).content_type == "text/event-stream"

    with_sim(use)


def test_what_was_asked_is_counted_and_can_be_reset():
    async def use(client: Client) -> None:
        for text, key in (("a", "k1"), ("a", "k1"), ("b", "k2")):
            await client.chat(text, headers={"Idempotency-Key": key})
        stats = await client.get("/stats?prompts=1")
        assert sorted(stats.pop("prompt_counts").values()) == [1, 2]
        assert stats.pop("seconds") > 0
        assert stats == {
            "requests": 3,
            "by_status": {"200": 3},
            "by_action": {},
            "in_flight": {"now": 0, "peak": 1},
            "sockets": {"now": 1, "peak": 1, "total": 1},
            "aborted_by_client": 0,
            "tokens": {"prompt": 3, "completion": 3, "cached": 0},
            "bill": 0.0,
            "keys": 2,
            "duplicates": 1,
            "prompts": 2,
            "repeats": 1,
            "priorities": {},
        }
        async with client.http.post(client.sim.url.removesuffix("/v1") + "/stats/reset") as reply:
            assert reply.status == 200
        assert (await client.get("/stats"))["requests"] == 0

    with_sim(use)


@pytest.mark.parametrize("loop", LOOPS)
def test_connections_above_the_bound_are_reset(loop: Loop):
    async def use(client: Client) -> None:
        results = await asyncio.gather(*[client.chat(f"record {n}") for n in range(10)], return_exceptions=True)
        assert sum(isinstance(result, aiohttp.ClientConnectionError) for result in results) == 6

    with_sim(use, loop=loop, max_sockets=4, latency_ms=100)


def test_bytes_that_are_no_http_get_a_400_and_the_door():
    async def use(client: Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.sim.port)
        writer.write(b"\x16\x03\x01 not http\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()

    with_sim(use)


def test_requests_sent_ahead_are_answered_in_order():
    async def use(client: Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.sim.port)
        body = b'{"prompt": "p%d"}'
        for n in range(3):
            writer.write(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body % n) + body % n)
        got = b""
        while got.count(b'"text":"p') < 3:
            got += await reader.read(65_536)
        assert got.index(b'"p0"') < got.index(b'"p1"') < got.index(b'"p2"')
        writer.close()

    with_sim(use, latency_ms=10)


def test_lone_surrogates_travel_there_and_back():
    async def use(client: Client) -> None:
        data = b'{"messages": [{"role": "user", "content": "a\\ud800b"}]}'
        async with client.http.post(f"{client.sim.url}/chat/completions", data=data) as reply:
            assert b"a\\ud800b" in await reply.read()

    with_sim(use)


def test_a_port_that_is_taken_is_one_line():
    async def life() -> None:
        async with SimServer() as first:
            with pytest.raises(SpecError, match="cannot be opened") as caught:
                async with SimServer(SimOptions(port=first.port)):
                    raise AssertionError("two servers on one port")
        assert "\n" not in str(caught.value)

    asyncio.run(life())


def test_leaving_ends_what_is_still_open():
    async def life() -> None:
        async with aiohttp.ClientSession() as http:
            async with SimServer(SimOptions(hang_rate=1)) as sim:
                task = asyncio.create_task(Client(sim, http).chat())
                await until(lambda: sim.stats.in_flight == 1)
            with pytest.raises(aiohttp.ClientError):
                await task

    asyncio.run(life())
