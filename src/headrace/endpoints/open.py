"""The door: from the job file to an endpoint that can be asked."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.endpoints.address import read_address
from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.keys import Key
from headrace.endpoints.proxies import proxy_for
from headrace.endpoints.transport import Peer, Transport, open_transport
from headrace.endpoints.wire import Wire
from headrace.errors import SpecError
from headrace.spec import JobSpec

_OURS = frozenset(
    {"content-type", "accept-encoding", "content-length", "host", "idempotency-key", "transfer-encoding", "connection"}
)


def open_endpoint(  # noqa: PLR0913 - one door; the keyword arguments are its seams
    spec: JobSpec,
    index: int,
    *,
    base: Path,
    environ: Mapping[str, str],
    response_format: dict[str, Any] | None = None,
    strict_response_format: dict[str, Any] | None = None,
    objections: str = "",
    transport: Transport | None = None,
    now: Callable[[], float] | None = None,
) -> HttpEndpoint:
    """The endpoint number `index` of the job. Nothing is sent. Raises SpecError: address, key, header, CA bundle, proxy.

    `response_format` is the schema as it is asked for first, `strict_response_format` the form to try when the first is
    refused for its schema, `objections` what strict servers have against it, in words. `now` gives Unix time, needed only for
    waits named as a date by a server that sends no Date. HEADRACE_TRANSPORT in `environ` chooses plain, pyreqwest or aiohttp;
    without it the first that can be had.
    """
    chosen = spec.endpoint[index]
    address = read_address(chosen.url, spec.model.route)
    scored = spec.answer.method == "score"
    wire = Wire(spec.model, chosen, response_format, strict_response_format, scored=scored, objections=objections)
    headers = _plain_headers(chosen.headers)
    key = Key(chosen, base, environ)
    if address.userinfo is not None and not any(name.lower() == "authorization" for name in (*headers, *key.headers())):
        headers["Authorization"] = "Basic " + base64.b64encode(address.userinfo.encode()).decode()
    proxy = proxy_for(address.url, environ)
    if transport is None:
        verify = str(base / chosen.verify) if isinstance(chosen.verify, str) else chosen.verify
        transport = open_transport(Peer(verify, proxy), address.url, environ.get("HEADRACE_TRANSPORT") or "auto")
    endpoint = HttpEndpoint(address, chosen.identity, key, wire, transport)
    endpoint.prepare(headers, now, proxy)
    return endpoint


def _plain_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or name.lower() in _OURS:
            raise SpecError(f"endpoint.headers: {name!r} cannot be set", key="endpoint.headers")
        if not value.isascii() or not (value.isprintable() or value == ""):
            raise SpecError(f"endpoint.headers: the value of {name} holds what no HTTP header can carry", key="endpoint.headers")
    return dict(headers)
