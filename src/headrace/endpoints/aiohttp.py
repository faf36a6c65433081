"""The fallback transport, chosen where pyreqwest has no wheel."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping

import aiohttp

from headrace.endpoints.transport import Limits, Peer, Reason, Response, TransportError, checked_total, unresolved
from headrace.errors import SpecError
from headrace.values import Sent

_MAX_HEADER = 64 * 1024
_BEAT_S = 0.05
# The loop was so busy with other things that a reply may be waiting unread, or the request unsent.
_LAG_S = 0.05
_GRACE_S = 0.25  # the least that a limit is put off then


class AiohttpTransport:
    """Implements Transport. Opened on first use, inside the loop that uses it."""

    def __init__(self, context: ssl.SSLContext | bool, proxy: str | None, limits: Limits) -> None:
        self._context = context
        self._proxy = proxy
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._lag = _Lag()

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        sent_headers = dict(headers) if idempotency_key is None else {**headers, "idempotency-key": idempotency_key}
        session = self._session or self._open()
        watch = _Watch(checked_total(total_s), self._lag)
        try:
            async with (
                watch,
                session.request(
                    method, url, headers=sent_headers, data=body, allow_redirects=False, proxy=self._proxy
                ) as response,
            ):
                raw = await self._read(response)
                status, found = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _mapped(error) from error
        encoding = found.get("content-encoding", "").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate") and raw:
            raw = _decoded(raw, encoding, self._limits.max_body)
        return Response(status, raw, _lookup(found))

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
                raise _too_large(limit)
            chunks.append(chunk)
        return b"".join(chunks)


class _Lag:
    """How long the loop has been kept by other things while requests were in flight, in all: a heart that beats late."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._users = 0
        self._due = 0.0
        self._beat: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._users += 1
        if self._beat is None:
            self._arm(loop)

    def end(self) -> None:
        self._users -= 1
        if not self._users and self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def until(self, now: float) -> float:
        """The seconds so far; of two moments the difference counts."""
        return self._total_s + max(now - self._due, 0.0)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _BEAT_S
        self._beat = loop.call_at(self._due, self._on_beat, loop)

    def _on_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._total_s = self.until(loop.time())
        self._arm(loop)


class _Watch:
    """The total limit, which forgives the loop's own lag: it is put off by what other things took meanwhile."""

    def __init__(self, total_s: float, lag: _Lag) -> None:
        self._total_s = total_s
        self._lag = lag
        self._fired = False

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._loop, self._task = loop, task
        self._lag.begin(loop)
        self._forgiven = self._lag.until(loop.time())
        self._timer = loop.call_later(self._total_s, self._fire)

    def _fire(self) -> None:
        lag = self._lag.until(self._loop.time())
        if lag - self._forgiven > _LAG_S:
            self._timer = self._loop.call_later(max(lag - self._forgiven, _GRACE_S), self._fire)
            self._forgiven = lag
            return
        self._fired = True
        self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, _error: BaseException | None, _trace: object) -> None:
        self._timer.cancel()
        self._lag.end()
        if self._fired and self._task.uncancel() <= 0 and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise _timed_out()


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


def _lookup(headers: Mapping[str, str]) -> Callable[[str], str | None]:
    return headers.get


def _decoded(raw: bytes, encoding: str, limit: int) -> bytes:
    for window in (31,) if encoding != "deflate" else (15, -15):  # some servers send deflate without its zlib frame
        machine = zlib.decompressobj(window)
        try:
            content = machine.decompress(raw, limit + 1)
        except zlib.error:
            continue
        if len(content) > limit:
            raise _too_large(limit)
        if not machine.eof:
            raise TransportError(Reason.SHORT_BODY, Sent.MAYBE, f"the reply's {encoding} body ends early")
        return content
    raise TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply's body cannot be decoded: it is no {encoding}")


def _too_large(limit: int) -> TransportError:
    return TransportError(Reason.TOO_LARGE, Sent.MAYBE, f"the reply is larger than {limit} bytes")


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
