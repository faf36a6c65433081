"""The default transport: a Rust client at about 30 µs a request. What it hides is told apart here by its causes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    BodyDecodeError,
    BuilderError,
    DecodeError,
    DetailedPyreqwestError,
    PyreqwestError,
    ReadError,
    ReadTimeoutError,
    RequestTimeoutError,
)
from pyreqwest.http import HeaderMap, Url
from pyreqwest.proxy import ProxyBuilder
from pyreqwest.request import RequestBuilder, StreamRequest
from pyreqwest.response import Response as Streamed

from headrace.endpoints.transport import (
    LONGEST_S,
    Limits,
    Peer,
    Reason,
    Response,
    TransportError,
    checked_total,
    too_large,
    unresolved,
)
from headrace.errors import SpecError
from headrace.values import Sent

# What the causes say when the connection itself failed. Everything else may have reached the server.
_NOT_CONNECTED = "client error (Connect)"
# A reply is handed over when this much of its body has come, or all of it: reading no more than this never waits.
_AT_ONCE = RequestBuilder.default_streamed_read_buffer_limit()


class PyreqwestTransport:
    """Implements Transport. Limits run in the client's own thread, so that a busy event loop fails no request.

    A cancelled caller returns at once; the client itself lets go of that connection when the request's total limit
    passes or the reply comes, because it offers no way to abort a request before its reply has begun.
    """

    def __init__(self, client: Client, limits: Limits) -> None:
        self._client = client
        self._limits = limits
        self._at_once = min(_AT_ONCE, limits.max_body + 1)
        # What the last request was made of, in the client's own forms: the next one seldom differs in them.
        self._url_text = ""
        self._url: Url | str = ""
        self._plain_headers: Mapping[str, str] | None = None
        self._headers = HeaderMap()
        self._total_s, self._total = LONGEST_S, timedelta(seconds=LONGEST_S)

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        try:
            if url != self._url_text:
                self._url, self._url_text = Url(url), url
            if headers is not self._plain_headers or idempotency_key is None:
                self._headers, self._plain_headers = HeaderMap(headers), headers
            if total_s != self._total_s:
                self._total, self._total_s = timedelta(seconds=checked_total(total_s)), total_s
            if idempotency_key is not None:
                self._headers["idempotency-key"] = idempotency_key  # the builder copies them
            builder = self._client.request(method, self._url).headers(self._headers).body_bytes(body).timeout(self._total)
        except ValueError as error:
            raise TransportError(Reason.PROTOCOL, Sent.NO, "the request cannot be built: a header or the address") from error
        try:
            # Streamed costs no more than reading all at once, and a body without end cannot eat the memory. The context
            # is left by `_whole` alone: of a body that is here already nothing is open.
            streamed = builder.build_streamed()
            response = await streamed.__aenter__()
            content = await response.body_reader.read(self._at_once)
            raw = b"" if content is None else content.to_bytes()
            if len(raw) >= self._at_once:
                raw = await self._whole(raw, streamed, response)
        except PyreqwestError as error:
            raise _mapped(error) from error
        return Response(response.status, raw, partial(_look_up, response.get_header))

    async def _whole(self, begun: bytes, streamed: StreamRequest, response: Streamed) -> bytes:
        """A large body that begins so. Raises TransportError where it exceeds the cap."""
        limit = self._limits.max_body
        try:
            content = await response.body_reader.read(limit + 1 - len(begun))
        finally:
            await streamed.__aexit__(None, None, None)
        raw = begun if content is None else b"".join((begun, content))
        if len(raw) > limit:
            raise too_large(limit)
        return raw

    async def close(self) -> None:
        await self._client.close()


def open_client(peer: Peer) -> PyreqwestTransport:
    """Build the client. Raises SpecError for a CA bundle that cannot be used."""
    limits = peer.limits
    builder = (
        ClientBuilder()
        .no_proxy()
        .follow_redirects(enable=False)
        .referer(enable=False)
        .default_cookie_store(enable=False)
        .max_connections(None)
        .gzip(enable=True)
        .deflate(enable=True)
        .brotli(enable=False)
        .zstd(enable=False)
        .http1_only()
        .connect_timeout(timedelta(seconds=limits.connect_s))
        .read_timeout(timedelta(seconds=limits.silence_s))
        .pool_idle_timeout(timedelta(seconds=limits.idle_s))
        .tcp_nodelay(enabled=True)
        .tcp_keepalive(timedelta(seconds=30))
    )
    if peer.proxy is not None:
        builder = builder.proxy(ProxyBuilder.all(peer.proxy))
    try:
        if peer.verify is False:
            builder = builder.danger_accept_invalid_certs(enable=True)
        elif isinstance(peer.verify, str):
            for certificate in _certificates(peer.verify):
                builder = builder.add_root_certificate_pem(certificate)
        return PyreqwestTransport(builder.build(), limits)
    except PyreqwestError as error:
        raise SpecError(
            f"endpoint.verify: {peer.verify} holds a certificate that cannot be used", key="endpoint.verify"
        ) from error


def _look_up(get: Callable[[str], str | None], name: str) -> str | None:
    try:
        return get(name)
    except ValueError:  # bytes that are no text
        return None


def _certificates(path: str) -> list[bytes]:
    end = b"-----END CERTIFICATE-----"
    try:
        bundle = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(f"endpoint.verify: {path} cannot be read: {error.strerror}", key="endpoint.verify") from error
    found = [
        part[part.index(b"-----BEGIN CERTIFICATE") :] + end + b"\n" for part in bundle.split(end) if b"-----BEGIN CERT" in part
    ]
    if not found:
        raise SpecError(f"endpoint.verify: {path} holds no PEM certificate", key="endpoint.verify")
    return found


def _mapped(error: PyreqwestError) -> TransportError:
    causes = [cause["message"] for cause in (error.details["causes"] or [])] if isinstance(error, DetailedPyreqwestError) else []
    last = causes[-1] if causes else error.message
    text = " ".join(causes).lower()
    if _NOT_CONNECTED in causes:
        return _not_connected(text, last, timed_out=isinstance(error, RequestTimeoutError))
    if isinstance(error, RequestTimeoutError):
        # While a first byte is awaited the client calls it a connect timeout: its causes name no connect.
        within = "the reply did not end" if isinstance(error, ReadTimeoutError) else "no reply came"
        return TransportError(Reason.TIMEOUT, Sent.MAYBE, f"{within} within the limit")
    if isinstance(error, BuilderError):
        return TransportError(Reason.PROTOCOL, Sent.NO, f"the request cannot be built: {last}")
    if isinstance(error, ReadError) or "end of file" in text:
        return TransportError(Reason.SHORT_BODY, Sent.MAYBE, f"the connection was lost inside the reply: {last}")
    if isinstance(error, BodyDecodeError):
        return TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply's body cannot be decoded: {last}")
    if isinstance(error, DecodeError):
        return TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply is not valid HTTP: {last}")
    return TransportError(Reason.CONNECTION, Sent.MAYBE, f"the connection was lost before a reply: {last}")


def _not_connected(text: str, last: str, *, timed_out: bool) -> TransportError:
    if timed_out:
        return TransportError(Reason.CONNECTION, Sent.NO, "no connection within the limit")
    if "dns error" in text:
        return unresolved(last)
    if "connection refused" in text:
        return TransportError(Reason.REFUSED, Sent.NO, "connection refused")
    if "certificate" in text:
        return TransportError(Reason.CERTIFICATE, Sent.NO, f"the certificate is refused: {last}")
    return TransportError(Reason.CONNECTION, Sent.NO, f"no connection: {last}")
