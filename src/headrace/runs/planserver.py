"""What a server tells of the model that it serves, asked over HTTP: Ollama, or an OpenAI-compatible one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlunsplit

from msgspec.structs import replace

from headrace.endpoints.address import split_address
from headrace.endpoints.envelopes import parse, read_error
from headrace.endpoints.proxies import proxy_for
from headrace.endpoints.redact import Redactor
from headrace.endpoints.transport import Limits, Peer, Response, Transport, TransportError, open_transport
from headrace.errors import FetchError, SpecError
from headrace.models.description import Description
from headrace.models.ggufkeys import asks_for_lists, describe_gguf
from headrace.models.served import (
    Served,
    llama_cpp,
    model_context,
    model_names,
    model_size,
    sglang,
    shown_model,
    tgi,
    vllm,
)

_WAIT_S = 15.0
_NAMED = 12
_OLLAMA_NOTE = (
    "Ollama works on OLLAMA_NUM_PARALLEL requests at once (1 unless set) and tells no route how many: set it to what fits"
)


async def ask_server(
    url: str, name: str | None, key: str | None, environ: Mapping[str, str], transport: Transport | None = None
) -> Description | Served:
    """The model's description (Ollama) or the server's own capacity (others). `name`: which of its models.

    Raises SpecError in one line for an address or a name that cannot be used, FetchError where nothing can be asked.
    """
    base = _base(url)
    opened = transport or open_transport(
        Peer(proxy=proxy_for(base, environ), limits=Limits(max_body=64 * 2**20)), environ.get("HEADRACE_TRANSPORT") or "auto"
    )
    asking = _Asking(opened, base, key)
    try:
        version = parse((await asking.get("/api/version")).body)
        if isinstance(version, dict) and isinstance(version.get("version"), str):
            return await _ollama(asking, name)
        return await _open(asking, name)
    finally:
        await opened.close()


def shown_address(url: str) -> str:
    """The address for people."""
    return Redactor()(_base(url))


def _base(url: str) -> str:
    """The server's root: what stands before /v1."""
    allowed = "http://host:port or https://host/v1"
    parts = split_address(url)
    if parts is None:
        raise SpecError(f"--model: an address is {allowed}", key="--model", allowed=allowed)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise SpecError(
            "--model: leave user, query and fragment out of the address; --api-key-env names a key",
            key="--model",
            allowed=allowed,
        )
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path.removesuffix("/v1"), "", ""))


class _Asking:
    """One server, its key, and how what went wrong is said."""

    def __init__(self, transport: Transport, base: str, key: str | None) -> None:
        self._transport = transport
        self._base = base
        self._headers = {"Accept-Encoding": "gzip, deflate"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._json = {**self._headers, "Content-Type": "application/json"}
        self.redact = Redactor([key] if key else [])
        self.shown = self.redact(base)

    async def get(self, path: str) -> Response:
        """Whatever is replied. Raises FetchError where nothing is."""
        return await self._ask("GET", path, self._headers, b"")

    async def post(self, path: str, body: dict[str, Any]) -> Response:
        return await self._ask("POST", path, self._json, json.dumps(body).encode())

    async def json(self, path: str) -> Any:
        """The value of a 200; None for anything else."""
        reply = await self.get(path)
        return parse(reply.body) if reply.status == 200 else None

    def refusal(self, reply: Response) -> FetchError:
        """What a reply that is no 200 says."""
        if reply.status in (401, 403):
            return FetchError(f"--model: {self.shown}: HTTP {reply.status}: it wants a key; --api-key-env names it")
        return FetchError(f"--model: {self.shown}: HTTP {reply.status}: {self.redact(read_error(reply.body).message)}")

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        try:
            return await self._transport.request(method, self._base + path, headers, body, _WAIT_S, None)
        except TransportError as error:
            raise FetchError(f"--model: {self.shown}: {self.redact(str(error))}") from None


async def _ollama(asking: _Asking, name: str | None) -> Description:
    listing = await asking.json("/api/tags")
    name = _one(model_names(listing), name)
    fields = await _show(asking, name, verbose=False)
    if asks_for_lists(fields):
        fields = await _show(asking, name, verbose=True)
    described = describe_gguf(fields)
    weights = model_size(listing, name) or model_size(listing, f"{name}:latest")
    return replace(described, weights=weights, notes=(*described.notes, _OLLAMA_NOTE))


async def _show(asking: _Asking, name: str, *, verbose: bool) -> Mapping[str, Any]:
    reply = await asking.post("/api/show", {"model": name, "verbose": verbose})
    if reply.status != 200:
        raise asking.refusal(reply)
    fields = shown_model(parse(reply.body))
    if fields is None:
        raise FetchError(f"--model: {asking.shown}: what /api/show says is no description of a model")
    return fields


async def _open(asking: _Asking, name: str | None) -> Served:
    reply = await asking.get("/v1/models")
    if reply.status in (401, 403):
        raise asking.refusal(reply)
    listing = parse(reply.body) if reply.status == 200 else None
    names = model_names(listing)
    if name is not None and names:
        _one(names, name)
    told = await _capacity(asking)
    if told is None:
        if not names:
            raise FetchError(f"--model: {asking.shown}: no server that is known here answers there")
        return Served("unknown", context=model_context(listing, name), notes=("this server tells nothing of its memory",))
    return replace(told, context=told.context or model_context(listing, name))


async def _capacity(asking: _Asking) -> Served | None:
    """The first that knows its own reply."""
    metrics = await asking.get("/metrics")
    found = vllm(metrics.body) if metrics.status == 200 else None
    if found is None:
        found = sglang(await asking.json("/server_info")) or sglang(await asking.json("/get_server_info"))
    if found is None:
        found = llama_cpp(await asking.json("/props")) or tgi(await asking.json("/info"))
    return found


def _one(names: list[str], name: str | None) -> str:
    """The model that is meant. Raises SpecError that names what there is."""
    listed = ", ".join(f"{found[:60]!a}" for found in names[:_NAMED]) or "none"
    if name is None:
        if len(names) == 1:
            return names[0]
        raise SpecError(f"--name: say which of the server's models; it has {listed}", key="--name", allowed=listed)
    if names and name not in names and f"{name}:latest" not in names:
        raise SpecError(
            f"--name: found {name[:60]!a}; the server has {listed}", key="--name", found=f"{name[:60]!a}", allowed=listed
        )
    return name
