"""`url = "local"`: the run's own server behind the ordinary HTTP endpoint, started again where it dies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.endpoints.transport import Peer, Response, Transport, open_transport
from headrace.errors import SpecError
from headrace.local.identity import sha256_of, state_of
from headrace.local.server import LocalServer, Serving, default_serving, insist_on_llama_cpp
from headrace.local.weights import Weights, find_weights
from headrace.runs.job import Job
from headrace.runs.registry import state_folder
from headrace.spec import EndpointSpec
from headrace.values import Capacity, Failure, Gauges, Kind, Reply, Request, Sent

# What requests are addressed to; the server's port changes when it is started again.
_PLACE = "http://local"
_KEY_VARIABLE = "HEADRACE_LOCAL_KEY"  # of a mapping that the endpoint alone sees, never of the environment
RESTARTS = 3
_RENEWED_AFTER = 100  # answers since the last restart, after which a death is none of the same row
_NOTICED = (20, 0.05)  # looks, and seconds between: a connection breaks a moment before its process has ended


class SchemaForms(Struct, frozen=True):
    """The schema as it is asked for first, the form to try when that is refused, and what strict servers have against it."""

    wire: dict[str, Any] | None = None
    strict: dict[str, Any] | None = None
    objections: str = ""


class EmbeddedEndpoint:
    """Implements Endpoint. A dead server is started again at the next send, up to `RESTARTS` times in a row; then the run stops.

    `slots`: how many requests it works on at once. `loaded`: the weights' file as it was when they were loaded.
    """

    def __init__(self, server: LocalServer, relay: _Relay, endpoint: HttpEndpoint, loaded: list[int] | None) -> None:
        self._server = server
        self._relay = relay
        self._endpoint = endpoint
        self._restarting = asyncio.Lock()
        self._restarts = 0
        self._answers = 0
        self._dead: Failure | None = None
        self._loaded = loaded  # what the file was when it was hashed: answers are booked under that hash
        self.slots = server.serving.slots
        self.name = f"local ({server.weights.name})"

    @property
    def identity(self) -> str:
        """`endpoint.identity`, else the weights' hash."""
        return self._endpoint.identity

    def __repr__(self) -> str:
        return f"EmbeddedEndpoint({self.name!r})"

    async def send(self, request: Request) -> Reply | Failure:
        if self._server.has_ended:
            dead = await self._restarted()
            if dead is not None:
                return dead
        server = self._server
        result = await self._endpoint.send(request)
        if isinstance(result, Reply):
            self._answers += 1
        elif result.status is None and await _has_died(server):
            return replace(result, message=f"the embedded model's server died: {server.how_it_ended()}")
        return result

    async def ask_beginnings(self, labels: Sequence[str]) -> dict[str, list[str]] | None:
        """As HttpEndpoint's."""
        return await self._endpoint.ask_beginnings(labels)

    async def capacity(self) -> Capacity | None:
        """As HttpEndpoint's; how the cache is divided is known here."""
        serving = self._server.serving
        said = await self._endpoint.capacity() or Capacity("llama.cpp")
        return replace(
            said, requests=serving.slots, tokens=serving.slots * serving.context, context=serving.context,
            told_by=f"the run's own server: {serving.slots} slots of {serving.context:,} tokens",
        )  # fmt: skip

    async def models(self) -> list[Any] | str:
        """Nobody lists what one's own machine costs."""
        return "no list tells what the embedded model costs"

    async def gauges(self) -> Gauges | None:
        """As HttpEndpoint's."""
        return await self._endpoint.gauges()

    async def close(self) -> None:
        """End the server, then the connections to it."""
        await asyncio.shield(asyncio.to_thread(self._server.close))
        await self._endpoint.close()

    async def _restarted(self) -> Failure | None:
        """Start the server again, once for all who wait. A failure: it is not started any more."""
        async with self._restarting:
            if self._dead is not None or not self._server.has_ended:
                return self._dead
            if self._answers >= _RENEWED_AFTER:
                self._restarts = 0
            how = self._server.how_it_ended()
            self._server.close()
            if self._restarts >= RESTARTS:
                self._dead = _given_up(f"died {RESTARTS + 1} times in a row; {how}")
                return self._dead
            self._restarts += 1
            self._answers = 0
            old = self._server
            if state_of(old.weights.path) != self._loaded:
                self._dead = _given_up(
                    f"died, and {old.weights.path} is not the file that it had loaded; run again to go on with it"
                )
                return self._dead
            try:
                new = await ready(LocalServer(old.weights, old.serving, old.api_key))
            except SpecError as error:
                self._dead = _given_up(f"cannot be started again: {error}")
            else:
                self._server = self._relay.server = new  # only now: until it answers, nothing is sent there
            return self._dead


class _Relay:
    """A transport that sends to wherever the server listens now."""

    def __init__(self, transport: Transport, server: LocalServer) -> None:
        self._transport = transport
        self.server = server

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        there = self.server.url + url.removeprefix(_PLACE)
        return await self._transport.request(method, there, headers, body, total_s, idempotency_key)

    async def close(self) -> None:
        await self._transport.close()


async def open_embedded(job: Job, index: int, forms: SchemaForms, environ: Mapping[str, str]) -> EmbeddedEndpoint:
    """The endpoint number `index` of the job: its weights are found, their server runs and answers. Raises SpecError."""
    chosen = job.spec.endpoint[index]
    insist_on_llama_cpp()
    weights = find_weights(environ, chosen=chosen_weights(job), name=job.spec.model.name)
    loaded = state_of(weights.path)
    server = LocalServer(weights, _serving(weights, chosen))
    try:
        identity = chosen.identity or f"local:sha256:{await asyncio.to_thread(sha256_of, weights.path, state_folder(environ))}"
        await ready(server)
        if state_of(weights.path) != loaded:
            raise SpecError(f"{weights.path} was changed while it was loaded; run again", key="model.weights")
        relay = _Relay(open_transport(Peer(), server.url, environ.get("HEADRACE_TRANSPORT") or "auto"), server)
        asked = chosen.model_copy(update={"url": f"{_PLACE}/v1", "api_key_env": _KEY_VARIABLE, "identity": identity})
        endpoint = open_endpoint(
            job.spec.model_copy(update={"endpoint": [asked]}), 0, base=job.base, environ={_KEY_VARIABLE: server.api_key},
            response_format=forms.wire, strict_response_format=forms.strict, transport=relay,
        )  # fmt: skip
    except BaseException:
        server.close()
        raise
    return EmbeddedEndpoint(server, relay, endpoint, loaded)


def chosen_weights(job: Job) -> Path | None:
    """The file that `model.weights` names."""
    named = job.spec.model.weights
    return job.base / Path(named).expanduser() if named is not None else None


async def ready(server: LocalServer) -> LocalServer:
    """Wait until the server answers, in a thread; a caller who is cancelled ends the server. Raises SpecError."""
    try:
        return await asyncio.to_thread(server.wait_ready)
    except asyncio.CancelledError:
        server.close()
        raise


async def _has_died(server: LocalServer) -> bool:
    looks, pause_s = _NOTICED
    for _ in range(looks):
        if server.has_ended:
            return True
        await asyncio.sleep(pause_s)
    return False


def _serving(weights: Weights, endpoint: EndpointSpec) -> Serving:
    """A number that the job names is how many slots there are, as far as the memory for them goes."""
    serving = default_serving(weights.gguf)
    if isinstance(endpoint.concurrency, int) and endpoint.concurrency < serving.slots:
        return replace(serving, slots=endpoint.concurrency)
    return serving


def _given_up(how: str) -> Failure:
    return Failure(Kind.BAD_ENDPOINT, f"the embedded model's server {how}"[:600], Sent.NO)
