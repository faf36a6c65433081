"""The transport for plain http:// addresses: HTTP/1.1 on the event loop itself, at a third of any other's cost."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection

from headrace.endpoints.connection import Connection, Pool
from headrace.endpoints.deadlines import Deadlines
from headrace.endpoints.transport import Limits, Peer, Reason, Response, TransportError, checked_total, unresolved
from headrace.errors import SpecError
from headrace.values import Sent

_NEXT_ADDRESS_S = 0.25  # where a name has several addresses, the next is tried beside the first after so long
_CLOSING_ROUNDS = 1000  # of the event loop; a few are enough
_RESOLVED_S = 60.0  # how long the addresses of a name are kept
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})
_KEPT = "!$%&'()*+,/:;=@[]|~"  # of a path, beside letters, digits and -._ as they are; all else is percent-encoded


class Site:
    """Who listens under one host and port."""

    def __init__(self, host: str, port: int) -> None:
        self.pool = Pool()
        self._host = host
        self._port = port
        self._addresses: Sequence[AddrInfoType] = ()
        self._resolved_at = 0.0

    async def open_socket(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """Connect. Raises OSError, and UnicodeError for what can be no name."""
        now = loop.time()
        if not self._addresses or now > self._resolved_at + _RESOLVED_S:
            self._addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._resolved_at = now
        try:
            opened = await start_connection(self._addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=loop)
        except OSError:
            self._addresses = ()
            raise
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return opened


class PlainTransport:
    """Implements Transport for http:// addresses that need no proxy. Lives in the event loop that first uses it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadlines: Deadlines | None = None
        self._sites: dict[tuple[str, int], Site] = {}
        self._is_closed = False
        # What the last request was made of, and its head as far as that says: the next one seldom differs in it.
        self._method = self._url = ""
        self._headers: Mapping[str, str] = {}
        self._site = Site("", 0)
        self._head = b""

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        if headers is not self._headers or url != self._url or method != self._method:
            self._encode(method, url, headers)
        if idempotency_key is None:
            request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        else:
            if not (idempotency_key.isascii() and idempotency_key.isprintable()):
                raise _unbuildable("an idempotency key holds what no header can carry")
            key = idempotency_key.encode()
            request = b"%b%d\r\nIdempotency-Key: %b\r\n\r\n%b" % (self._head, len(body), key, body)
        deadlines, site = self._deadlines or self._begin(), self._site
        now = deadlines.now()
        deadline = now + checked_total(total_s)
        connection = site.pool.take()
        if connection is None:
            connection = await self._connect(site, deadlines, deadline)
            now = deadlines.now()
        reply = connection.send(request, now, deadline)
        try:
            return await reply
        finally:
            connection.abandon(reply)

    async def close(self) -> None:
        self._is_closed = True
        for site in self._sites.values():
            for connection in list(site.pool.open):
                connection.lose()
        for _ in range(_CLOSING_ROUNDS):  # the loop's own next rounds close them
            if not any(site.pool.open for site in self._sites.values()):
                break
            await asyncio.sleep(0)

    def _begin(self) -> Deadlines:
        self._deadlines = Deadlines(asyncio.get_running_loop())
        return self._deadlines

    def _encode(self, method: str, url: str, headers: Mapping[str, str]) -> None:
        place = _Place(url)
        lines = [b"%b %b HTTP/1.1\r\n" % (method.encode(), place.target), _line("Host", place.authority)]
        if not _OURS.isdisjoint(name.lower() for name in headers):
            raise _unbuildable("a header is the transport's own to write")
        lines += [_line(name, value) for name, value in headers.items()]
        self._head = b"".join((*lines, b"Content-Length: "))
        self._site = self._sites.setdefault((place.host, place.port), Site(place.host, place.port))
        self._method, self._url, self._headers = method, url, headers

    async def _connect(self, site: Site, deadlines: Deadlines, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with deadlines.limit(min(self._limits.connect_s, deadline - deadlines.now())):
                opened = await site.open_socket(loop)
                connection = Connection(site.pool, deadlines, self._limits)
                try:
                    await loop.create_connection(lambda: connection, sock=opened)
                except BaseException:
                    connection.discard()
                    opened.close()
                    raise
        except (OSError, UnicodeError) as error:
            raise _not_connected(error) from error
        if self._is_closed:
            connection.lose()
            raise TransportError(Reason.CONNECTION, Sent.NO, "no connection: the transport was closed meanwhile")
        return connection


def open_client(peer: Peer) -> PlainTransport:
    """Raises SpecError for a proxy: requests through one are another transport's work."""
    if peer.proxy is not None:
        raise SpecError("HEADRACE_TRANSPORT=plain speaks to no proxy; NO_PROXY names hosts that need none")
    return PlainTransport(peer.limits)


class _Place:
    """The parts of a URL that a request is made of. Raises TransportError where it cannot be one of ours."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _unbuildable("the address cannot be read") from None
        host = parts.hostname or ""
        if parts.scheme != "http" or not host or not (host.isascii() and host.isprintable()):
            raise _unbuildable("the plain transport serves http:// and hosts in ASCII")
        self.host = host
        self.port = 80 if port is None else port
        shown = f"[{host}]" if ":" in host else host
        self.authority = shown if self.port == 80 else f"{shown}:{self.port}"
        query = f"?{quote(parts.query, _KEPT + '?')}" if parts.query else ""
        self.target = (quote(parts.path, _KEPT) or "/").encode() + query.encode()


def _line(name: str, value: str) -> bytes:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise _unbuildable("a header holds what no header can carry")
    return f"{name}: {value}\r\n".encode()


def _unbuildable(why: str) -> TransportError:
    return TransportError(Reason.PROTOCOL, Sent.NO, f"the request cannot be built: {why}")


def _not_connected(error: OSError | UnicodeError) -> TransportError:
    if isinstance(error, TimeoutError):
        return TransportError(Reason.CONNECTION, Sent.NO, "no connection within the limit")
    if isinstance(error, socket.gaierror | UnicodeError):
        return unresolved(str(error))
    if error.errno == errno.ECONNREFUSED or "refused" in str(error).lower():
        return TransportError(Reason.REFUSED, Sent.NO, "connection refused")
    return TransportError(Reason.CONNECTION, Sent.NO, f"no connection: {error}")
