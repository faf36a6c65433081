"""The fallback transport, chosen where pyreqwest has no wheel."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import ssl
from collections.abc import Callable, Mapping

import aiohttp

from headrace.endpoints.deadlines import Deadlines
from headrace.endpoints.encodings import decoded
from headrace.endpoints.transport import Limits, Peer, Reason, Response, TransportError, checked_total, too_large, unresolved
from headrace.errors import SpecError
from headrace.values import Sent

_MAX_HEADER = 64 * 1024
_AT_ONCE = 2**20  # a larger body is sent in parts; aiohttp warns of one that is not


class AiohttpTransport:
    """Implements Transport. Opened on first use, inside the loop that uses it."""

    def __init__(self, context: ssl.SSLContext | bool, proxy: str | None, limits: Limits) -> None:
        self._context = context
        self._proxy = proxy
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._deadlines: Deadlines | None = None

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        sent_headers = dict(headers) if idempotency_key is None else {**headers, "idempotency-key": idempotency_key}
        session = self._session or self._open()
        deadlines = self._deadlines = self._deadlines or Deadlines(asyncio.get_running_loop())
        try:
            async with (
                deadlines.limit(checked_total(total_s)),
                session.request(
                    method, url, headers=sent_headers, data=_payload(body), allow_redirects=False, proxy=self._proxy
                ) as response,
            ):
                raw = await self._read(response)
                status, found = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _mapped(error) from error
        return Response(status, decoded(raw, found.get("content-encoding"), self._limits.max_body), _lookup(found))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        limits = self._limits
        connector = aiohttp.TCPConnector(
            limit=0, ssl=self._context, keepalive_timeout=limits.idle_s, socket_factory=_socket, ttl_dns_cache=60
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # ours is bounded, and equal to what the other transport decodes
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_s, sock_read=limits.silence_s),
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._limits.max_body
        if (response.content_length or limit + 1) <= limit:
            return await response.read()
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            chunks.append(chunk)
        return b"".join(chunks)


def open_client(peer: Peer) -> AiohttpTransport:
    """Raises SpecError for a CA bundle that cannot be used."""
    context: ssl.SSLContext | bool = True
    if peer.verify is False:
        context = False
    elif isinstance(peer.verify, str):
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(cafile=peer.verify)
        except ssl.SSLError as error:
            raise SpecError(f"endpoint.verify: {peer.verify} holds no PEM certificate", key="endpoint.verify") from error
        except OSError as error:
            raise SpecError(f"endpoint.verify: {peer.verify} cannot be read: {error.strerror}", key="endpoint.verify") from error
    return AiohttpTransport(context, peer.proxy, peer.limits)


def _socket(address: tuple[object, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)  # type: ignore[arg-type]  # aiohttp passes getaddrinfo's tuple
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def _payload(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) < _AT_ONCE else io.BytesIO(body)


def _lookup(headers: Mapping[str, str]) -> Callable[[str], str | None]:
    return headers.get


def _timed_out() -> TransportError:
    return TransportError(Reason.TIMEOUT, Sent.MAYBE, "no complete reply came within the limit")


def _mapped(error: aiohttp.ClientError | TimeoutError | OSError | ValueError) -> TransportError:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransportError(Reason.CONNECTION, Sent.NO, "no connection within the limit")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return unresolved(str(error.os_error.strerror))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(Reason.CERTIFICATE, Sent.NO, f"the certificate is refused: {error.certificate_error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        if error.os_error.errno == errno.ECONNREFUSED or "refused" in str(error.os_error).lower():
            return TransportError(Reason.REFUSED, Sent.NO, "connection refused")
        return TransportError(Reason.CONNECTION, Sent.NO, f"no connection: {error.os_error}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return TransportError(Reason.CONNECTION, Sent.NO, f"the proxy refused the connection: {error.status}")
    if isinstance(error, TimeoutError):
        return _timed_out()
    if isinstance(error, aiohttp.ClientPayloadError):
        return TransportError(Reason.SHORT_BODY, Sent.MAYBE, "the connection was lost inside the reply")
    if isinstance(error, aiohttp.ClientResponseError):
        return TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply is not valid HTTP: {error.message}")
    if isinstance(error, ValueError):  # also aiohttp.InvalidURL
        return TransportError(Reason.PROTOCOL, Sent.NO, f"the request cannot be built: {error}")
    return TransportError(Reason.CONNECTION, Sent.MAYBE, f"the connection was lost before a reply: {error}")
