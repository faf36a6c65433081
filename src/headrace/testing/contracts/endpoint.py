"""What every Endpoint keeps, as tests: derive from `EndpointContract`. With it, a transport that is a list of replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.endpoints.transport import Response, TransportError
from headrace.protocols import Endpoint
from headrace.spec import JobSpec
from headrace.values import Failure, Reply, Request

URL = "http://127.0.0.1:9/v1"
ANSWER = b'{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}'


def job(model: Mapping[str, Any] | None = None, /, **endpoint: Any) -> JobSpec:
    """The smallest job with these keys in [model] and [endpoint]."""
    return JobSpec.model_validate(
        {
            "input": {"path": "a.jsonl"},
            "prompt": {"user": "{{ text }}"},
            "model": {"name": "m", **(model or {})},
            "endpoint": {"url": URL, **endpoint},
            "output": {"path": "b.jsonl"},
        }
    )


def request(unit: int = 1, timeout_s: float = 5.0) -> Request:
    return Request(unit, 0, b'[{"role":"user","content":"hi"}]', f"run-{unit}-0", timeout_s)


def response(status: int = 200, body: bytes | Mapping[str, Any] = ANSWER, **headers: str) -> Response:
    """A reply; header names with underscores for hyphens."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, raw, {name.replace("_", "-"): value for name, value in headers.items()}.get)


def refusal(message: str, status: int = 400, **more: Any) -> Response:
    """An error in the usual envelope."""
    return response(status, {"error": {"message": message, **more}})


class ScriptedTransport:
    """A Transport that gives one reply of its script after the other and keeps what was sent. None: never replies."""

    def __init__(self, *script: Response | TransportError | None) -> None:
        self.script = list(script)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.urls: list[str] = []
        self.keys: list[str | None] = []
        self.limits: list[float] = []
        self.closed = False

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        assert method == "POST"
        self.bodies.append(json.loads(body))
        self.headers.append(headers)
        self.urls.append(url)
        self.keys.append(idempotency_key)
        self.limits.append(total_s)
        step = self.script.pop(0)
        if step is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(step, TransportError):
            raise step
        assert step is not None
        return step

    async def close(self) -> None:
        self.closed = True


def open_scripted(
    transport: ScriptedTransport, spec: JobSpec | None = None, environ: Mapping[str, str] | None = None, **options: Any
) -> HttpEndpoint:
    """An HttpEndpoint over a scripted transport."""
    return open_endpoint(
        spec or job(), 0, base=options.pop("base", Path()), environ=environ or {}, transport=transport, **options
    )


class EndpointContract:
    """`answering` gives an endpoint that answers the next send, `failing` one that fails it, `hanging` one that does neither."""

    def answering(self) -> Endpoint:
        raise NotImplementedError

    def failing(self) -> Endpoint:
        raise NotImplementedError

    def hanging(self) -> Endpoint:
        raise NotImplementedError

    def run(self, endpoint: Endpoint, scene: Callable[[Endpoint], Coroutine[Any, Any, None]]) -> None:
        async def play() -> None:
            try:
                await scene(endpoint)
            finally:
                await endpoint.close()

        asyncio.run(play())

    def test_it_has_a_name_and_an_identity_that_stay(self) -> None:
        async def scene(endpoint: Endpoint) -> None:
            before = (endpoint.name, endpoint.identity)
            await endpoint.send(request())
            assert (endpoint.name, endpoint.identity) == before
            assert all(before)

        self.run(self.answering(), scene)

    def test_an_answer_is_a_reply(self) -> None:
        async def scene(endpoint: Endpoint) -> None:
            assert isinstance(await endpoint.send(request()), Reply)

        self.run(self.answering(), scene)

    def test_what_goes_wrong_is_a_failure_on_one_short_line(self) -> None:
        async def scene(endpoint: Endpoint) -> None:
            failure = await endpoint.send(request())
            assert isinstance(failure, Failure)
            assert "\n" not in failure.message
            assert 0 < len(failure.message) <= 300

        self.run(self.failing(), scene)

    def test_a_cancelled_send_raises_cancellation(self) -> None:
        async def scene(endpoint: Endpoint) -> None:
            task = asyncio.get_running_loop().create_task(endpoint.send(request(timeout_s=3600)))
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        self.run(self.hanging(), scene)
