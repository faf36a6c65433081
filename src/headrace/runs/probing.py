"""What an endpoint is and can do, as one document: from its own pages, and where they do not say from a token or two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.endpoints.http import NO_KEY, HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.endpoints.redact import shown_url
from headrace.errors import EndpointError, SpecError
from headrace.runs.jobsecrets import refuse_key_for_name
from headrace.spec import JobSpec
from headrace.values import Capacity, Failure, Kind, Reply, Request

# What these servers are known to do with every model; the others are asked.
_KNOWN = {"vllm": (True, True), "sglang": (True, True), "llama.cpp": (True, True)}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
_PAYLOAD = b'[{"role":"user","content":"Say yes."}]'
ATTEMPT_S = 60.0
_MOST_MENDS = 5
_UNREACHED = frozenset(
    {Kind.AUTH, Kind.QUOTA, Kind.BAD_ENDPOINT, Kind.CONNECTION, Kind.TIMEOUT, Kind.PROTOCOL, Kind.SERVER_ERROR}
)
_OPTIONS = {"endpoint.api_key_env": "--api-key-env", "endpoint.api_key_file": "--api-key-file", "endpoint.url": "the URL"}

Found = TypeVar("Found")


class Asking(Struct, frozen=True):
    """Whom a probe asks: the URL, the model (None: the first that is listed), where the key stands, and how long each of the
    requests is waited for that are asked beside the server's own pages.
    """

    url: str
    model: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    seconds: float = ATTEMPT_S


class Probed(Struct, frozen=True):
    """What was found. `asked` names the features that a request of one token was sent for."""

    capacity: Capacity
    json_schema: bool | None
    logprobs: bool | None
    asked: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As `headrace probe --json` prints it."""
        found = self.capacity
        return {
            "server": found.server,
            "models": list(found.models),
            "context": found.context,
            "capacity": {"requests": found.requests, "tokens": found.tokens, "from": found.told_by or None},
            "json_schema": self.json_schema,
            "logprobs": self.logprobs,
            "gauges": list(found.gauges),
            "asked": list(self.asked),
        }


async def probe(asking: Asking, environ: Mapping[str, str], base: Path) -> Probed:
    """Ask the endpoint for its pages and, of a kind of server that is not known, for a token or two.

    Raises SpecError, and EndpointError where nobody answers or what answers is no endpoint.
    """
    if asking.url == "local":
        raise SpecError("probe: `headrace local status` tells of the embedded model; give http(s)://host/v1", key="URL")
    if asking.api_key_env is not None:
        refuse_key_for_name(asking.api_key_env)
    spec = spec_of(asking)
    capacity = await _with(spec, environ, base, lambda endpoint: endpoint.capacity())
    if capacity is not None and capacity.server in _KNOWN and capacity.models:
        json_schema, logprobs = _KNOWN[capacity.server]
        return Probed(capacity, json_schema, logprobs)
    named = asking.model or next(iter(capacity.models), None) if capacity is not None else asking.model
    if named is not None:
        spec = spec_of(replace(asking, model=named))
    ask = partial(_send_with_schema, asking.seconds)
    came, takes_schema = await _with(spec, environ, base, ask, response_format=_response_format())
    if isinstance(came, Failure) and (capacity is None or came.kind in _UNREACHED):
        raise EndpointError(said_of(came, shown_url(asking.url)))
    if capacity is None:
        capacity = Capacity()
    if named is None:
        return Probed(capacity, None, None)
    likeliest = await _with(spec_of(replace(asking, model=named), scored=True), environ, base, partial(_send, asking.seconds))
    return Probed(capacity, takes_schema, _can_score(likeliest), ("json_schema", "logprobs"))


def _can_score(came: Reply | Failure) -> bool | None:
    if isinstance(came, Reply):
        return True if came.likeliest else None
    return False if came.kind is Kind.MISCONFIGURED else None


def spec_of(asking: Asking, *, scored: bool = False, max_tokens: int = 1) -> JobSpec:
    """A job that asks this endpoint, of which only the endpoint is used."""
    endpoint = {"url": asking.url, "api_key_env": asking.api_key_env, "api_key_file": asking.api_key_file}
    job = {
        "input": {"path": "-"},
        "prompt": {"user": "-"},
        "model": {"name": asking.model or "probe", "max_tokens": max_tokens},
        "endpoint": {key: value for key, value in endpoint.items() if value is not None},
        "answer": {"labels": ["a", "b"], "method": "score"} if scored else {},
        "output": {"path": "-.jsonl"},
    }
    return JobSpec.model_validate(job)


def _response_format() -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": _SCHEMA}}


def opened(spec: JobSpec, environ: Mapping[str, str], base: Path, response_format: dict[str, Any] | None = None) -> HttpEndpoint:
    """The endpoint of such a job, to be closed by the caller. Raises SpecError, in the words of this command's options."""
    try:
        return open_endpoint(spec, 0, base=base, environ=environ, response_format=response_format)
    except SpecError as error:
        words, key = _optioned(str(error)), _optioned(error.key or "")
        raise SpecError(words, key=key, found=error.found, allowed=error.allowed) from error


async def _with(
    spec: JobSpec,
    environ: Mapping[str, str],
    base: Path,
    ask: Callable[[HttpEndpoint], Awaitable[Found]],
    *,
    response_format: dict[str, Any] | None = None,
) -> Found:
    endpoint = opened(spec, environ, base, response_format)
    try:
        return await ask(endpoint)
    finally:
        await endpoint.close()


def said_of(failure: Failure, name: str) -> str:
    """One line that names the endpoint, with the options of this command instead of a job's keys."""
    words = _optioned(failure.message.replace(NO_KEY, "no key was sent: --api-key-env or --api-key-file names one"))
    return words if name in words else f"{name}: {words}"


def _optioned(words: str) -> str:
    """What a job's keys are called here."""
    for key, option in _OPTIONS.items():
        words = words.replace(key, option)
    return words


async def _send_with_schema(seconds: float, endpoint: HttpEndpoint) -> tuple[Reply | Failure, bool | None]:
    """What came, and whether a schema is taken; what the server makes of it is checked in a run, as ever."""
    came = await _send(seconds, endpoint)
    if isinstance(came, Reply):
        return came, endpoint.asks_for_schema
    return came, False if came.kind is Kind.SCHEMA_REFUSED else None


async def _send(seconds: float, endpoint: HttpEndpoint) -> Reply | Failure:
    """One token, and again where only a field of ours was refused that is then written otherwise."""
    for _ in range(_MOST_MENDS):
        came = await endpoint.send(Request(0, 0, _PAYLOAD, "headrace-probe", seconds))
        if isinstance(came, Reply) or not came.mended:
            break
    return came
