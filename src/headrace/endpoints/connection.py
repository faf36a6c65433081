"""One connection over which HTTP/1.1 is spoken on the event loop: a request is written in one piece, its reply is read whole."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Mapping
from functools import partial
from typing import cast

import httptools

from headrace.endpoints.deadlines import Deadlines
from headrace.endpoints.encodings import decoded
from headrace.endpoints.outbox import Outbox
from headrace.endpoints.transport import Limits, Reason, Response, TransportError, too_large
from headrace.values import Sent

# What the parser may hold before it hands anything over: a head, a trailer, the extensions of a chunk.
_MOST_HELD = 128 * 1024
# A connection that was idle for longer is looked at before it is used: nothing may have come, its end least of all.
_FRESH_S = 0.02


class Pool:
    """The connections to one place. As many are open as requests were in flight at once; idle ones close after a while."""

    def __init__(self) -> None:
        self.open: dict[Connection, None] = {}
        self.idle: list[Connection] = []  # newest last
        self.outbox = Outbox()

    def take(self) -> Connection | None:
        """The newest that can be used again."""
        while self.idle:
            connection = self.idle.pop()
            if connection.is_fit():
                return connection
            connection.lose()
        return None


class Connection(asyncio.Protocol):
    """A socket to one place. It stands in its pool's `idle` exactly while it waits for a request."""

    def __init__(self, pool: Pool, deadlines: Deadlines, limits: Limits) -> None:
        self.due = deadlines.now() + limits.idle_s
        self._pool = pool
        self._deadlines = deadlines
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        # What other clients accept of servers that are out of practice; such a connection is not used again where it matters.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._waiter: asyncio.Future[Response] | None = None
        self._request = b""  # what is to be written, until it is
        self._is_discarded = False  # whoever asked for it is gone before it was made
        self._unsent = False  # part of the request is still here: the server cannot have worked on it
        self._idle_since = 0.0
        self._begin(0.0)

    def _begin(self, deadline: float) -> None:
        self._deadline = deadline
        self._heard_at = 0.0  # 0: nothing yet
        self._held = 0  # bytes that the parser took and has not handed over
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self._ended = self._keeps = False

    # -- used by the transport

    def send(self, request: bytes, now: float, deadline: float) -> asyncio.Future[Response]:
        """Have one request written. The future gives its reply, or TransportError; a caller that gives up calls `abandon`.

        `now` and `deadline` are on the clock of the deadlines.
        """
        if self._socket.is_closing():
            raise TransportError(Reason.CONNECTION, Sent.NO, "no connection: it was closed as soon as it was made")
        self._begin(deadline)
        self.due = min(deadline, now + self._limits.silence_s)
        waiter = self._waiter = self._loop.create_future()
        self._request = request
        self._pool.outbox.put(self, self._loop)
        return waiter

    def write_out(self) -> None:
        """Write the request that waits, unless nobody waits for its reply any more, or its connection is about to end."""
        if self._waiter is not None and not self._socket.is_closing():
            request, self._request = self._request, b""
            self._socket.write(request)

    def is_fit(self) -> bool:
        """Whether an idle connection can be used again."""
        idle_s = time.monotonic() - self._idle_since
        if self._socket.is_closing() or idle_s > self._limits.idle_s:
            return False
        return idle_s < _FRESH_S or not self._has_news()

    def abandon(self, waiter: asyncio.Future[Response]) -> None:
        """Its caller is gone: what is in flight ends with the connection."""
        if self._waiter is waiter:
            self._waiter = None
            self._socket.abort()

    def discard(self) -> None:
        """Whoever asked for it is gone while it was made: the event loop may tell of it still, or never."""
        self._is_discarded = True
        self._deadlines.forget(self)
        self._pool.open.pop(self, None)

    def lose(self) -> None:
        """End it at once, as if the server had."""
        self._socket.abort()

    # -- told by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's inherits from none of asyncio's
        if self._is_discarded:
            self._socket.abort()
            return
        # What is written goes out at once, and whether all of it has gone is told by pause and resume.
        self._socket.set_write_buffer_limits(0)
        self._deadlines.watch(self)
        self._pool.open[self] = None

    def pause_writing(self) -> None:
        self._unsent = True

    def resume_writing(self) -> None:
        self._unsent = False

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # nothing was asked
            self._leave()
            return
        if self._request:
            self._fail(TransportError(Reason.CONNECTION, Sent.NO, "no connection: the server spoke before it was asked"))
            return
        self._heard_at = self._deadlines.now()
        self._held += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps = False
            if not self._ended:
                self._fail(self._fault(error))
                return
        if self._ended:
            self._finish()
        elif self._held > _MOST_HELD:
            self._fail(TransportError(Reason.PROTOCOL, Sent.MAYBE, "the reply is not valid HTTP: its head is too large"))

    def eof_received(self) -> None:
        """The server says no more: the end of a reply that names none, the loss of any other."""
        if self._waiter is not None and self._status and _ends_with_connection(self._headers):
            self._finish()
        else:
            self._on_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadlines.forget(self)
        self._pool.open.pop(self, None)
        self._on_lost(exc)
        del self._parser  # it holds on to this connection

    def on_due(self, now: float) -> None:
        if self._waiter is None:
            self._leave()
            return
        if self._heard_at:
            self.due = min(self._deadline, self._heard_at + self._limits.silence_s)
            if self.due > now:
                return
        what = "the reply did not end" if self._heard_at else "no reply came"
        self._fail(TransportError(Reason.TIMEOUT, self._sent(), f"{what} within the limit"))

    # -- told by the parser

    def on_message_begin(self) -> None:
        if self._ended:  # a reply that nobody asked for
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # else it is in the trailer
            self._headers.setdefault(name.lower(), value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        if self._ended:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:  # something between
            self._headers = {}
            return
        if status < 100:
            raise TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply is not valid HTTP: its status is {status}")
        self._status = status
        length = self._headers.get(b"content-length")
        if length is not None and int(length) > self._limits.max_body and b"transfer-encoding" not in self._headers:
            raise too_large(self._limits.max_body)

    def on_body(self, part: bytes) -> None:
        if self._ended:
            return
        self._held = 0
        if not self._body:
            self._body = part
        elif type(self._body) is bytearray:
            self._body += part
        else:
            self._body = bytearray().join((self._body, part))
        if len(self._body) > self._limits.max_body:
            raise too_large(self._limits.max_body)

    def on_message_complete(self) -> None:
        if self._status and not self._ended:
            self._ended = True
            self._keeps = self._parser.should_keep_alive()

    # -- the ends

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        headers = self._headers
        named_twice = b"transfer-encoding" in headers and b"content-length" in headers
        if self._keeps and not self._unsent and not named_twice:
            self._idle_since = time.monotonic()
            self.due = self._heard_at + self._limits.idle_s
            self._pool.idle.append(self)
        else:
            self._socket.abort()
        if waiter is None or waiter.done():
            return
        header = partial(_look_up, headers)
        body = bytes(self._body)
        if b"content-encoding" in headers:
            try:
                body = decoded(body, header("content-encoding"), self._limits.max_body)
            except TransportError as error:
                waiter.set_exception(error)
                return
        waiter.set_result(Response(self._status, body, header))

    def _on_lost(self, error: Exception | None) -> None:
        if self._waiter is None:
            self._leave()
            return
        why = "" if error is None else f": {error}"
        if self._status:
            self._fail(TransportError(Reason.SHORT_BODY, Sent.MAYBE, f"the connection was lost inside the reply{why}"))
        else:
            self._fail(TransportError(Reason.CONNECTION, self._sent(), f"the connection was lost before a reply{why}"))

    def _fail(self, error: TransportError) -> None:
        waiter, self._waiter = self._waiter, None
        self._socket.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _fault(self, error: Exception) -> TransportError:
        raised = error.__context__
        if isinstance(raised, TransportError):
            return raised
        if isinstance(error, httptools.HttpParserUpgrade):
            error = ValueError("it goes on in another protocol")
        return TransportError(Reason.PROTOCOL, Sent.MAYBE, f"the reply is not valid HTTP: {error}")

    def _sent(self) -> Sent:
        return Sent.NO if (self._request or self._unsent) and not self._heard_at else Sent.MAYBE

    def _leave(self) -> None:
        """It takes no request any more."""
        if self in self._pool.idle:
            self._pool.idle.remove(self)
        self._socket.abort()

    def _has_news(self) -> bool:
        look = select.poll()
        look.register(self._socket.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(look.poll(0))


def _ends_with_connection(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a reply whose head came, and not yet its end, ends where the connection does."""
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        return not coding.lower().rstrip().endswith(b"chunked")
    return b"content-length" not in headers


def _look_up(headers: Mapping[bytes, bytes], name: str) -> str | None:
    value = headers.get(name.encode())
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
