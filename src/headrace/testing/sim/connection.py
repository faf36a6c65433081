"""One client's connection: requests in, replies out, in the time and the manner that their plans say."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from typing import cast

import orjson

from headrace.testing.batching import Job, Slots
from headrace.testing.sim.bodies import Plan, events
from headrace.testing.sim.service import UNCOUNTED, Service
from headrace.testing.sim.wire import CONTINUE, JSON, HttpRequest, Parser, WireError, response

MAX_AHEAD = 1_000_000
TRICKLE_S = 1.0
_NO_LINGER = struct.pack("ii", 1, 0)


class Room:
    """The connections that are open."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def enter(self, connection: Connection) -> None:
        self._open.add(connection)
        self._empty.clear()

    def leave(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def clear(self) -> None:
        """Abort every connection and wait until they are gone."""
        for connection in tuple(self._open):
            connection.abort()
        await self._empty.wait()


class Connection(asyncio.Protocol):
    """Serves one request after the other. Everything timed is one timer, so a client that goes away costs one cancel."""

    def __init__(self, service: Service, slots: Slots, room: Room) -> None:
        self._service = service
        self._stats = service.stats
        self._slots = slots
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._transport: asyncio.Transport
        self._plan: Plan | None = None
        self._busy = False
        self._keep = True
        self._paused = False
        self._continued = False
        self._timer: asyncio.Handle | None = None
        self._in_service = False
        self._job: Job | None = None
        self._cached = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._stats.opened()
        self._room.enter(self)
        most = self._service.options.max_sockets
        if most and self._stats.sockets > most:
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._stats.sockets -= 1
        self._room.leave(self)
        self._stop_timer()
        if self._plan is not None:
            self._stats.aborted_by_client += 1
            self._leave_service()
            self._stats.in_flight -= 1
            self._plan = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        if not self._busy:
            self._go_on()
        elif self._parser.waiting > MAX_AHEAD:
            self._transport.pause_reading()
            self._paused = True

    def reset(self) -> None:
        """End the connection with an RST, as a crashing proxy does."""
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def granted(self) -> None:
        """A slot is free for the request that queued. On its own turn: a chain of instant answers must not nest."""
        self._in_service = True
        self._timer = self._loop.call_soon(self._prefill)

    def abort(self) -> None:
        """End the connection because the server ends."""
        self._transport.abort()

    def _go_on(self) -> None:
        """Take requests while nothing is being served."""
        while not self._busy and not self._transport.is_closing():
            try:
                request = self._parser.take()
            except WireError as error:
                body = orjson.dumps({"error": {"message": str(error), "type": "invalid_request_error"}})
                self._transport.write(response(error.status, body, headers={"connection": "close"}))
                self._transport.close()
                return
            if request is None:
                if self._parser.wants_continue and not self._continued:
                    self._continued = True
                    self._transport.write(CONTINUE)
                return
            self._continued = False
            self._begin(request)

    def _begin(self, request: HttpRequest) -> None:
        self._keep = request.keep_alive
        if request.method == "POST" and request.path not in UNCOUNTED:
            self._stats.began()
            self._busy = True
            self._plan = plan = self._service.plan(request)
            if plan.delay_s:
                self._timer = self._loop.call_later(plan.delay_s, self._queue)
            else:
                self._queue()
            return
        status, body = self._service.side(request)
        wait = self._service.options.models_latency_ms / 1000 if request.path == "/v1/models" else 0
        if wait:
            self._busy = True
            self._timer = self._loop.call_later(wait, self._send_aside, status, body)
        else:
            self._send_aside(status, body)

    def _send_aside(self, status: int, body: bytes) -> None:
        self._write(response(status, body))
        self._freed()

    def _queue(self) -> None:
        assert self._plan is not None
        if self._plan.drawn is None:
            self._deliver()
        else:
            self._service.enter(self._plan)
            if self._service.batching is not None:
                self._timer = self._loop.call_later(self._service.options.latency_ms / 1000, self._join)
            elif self._slots.take(self):
                self._in_service = True
                self._prefill()

    def _join(self) -> None:
        """Take part in the shared batch; the answer comes at the end of one of its steps."""
        plan, service = self._plan, self._service
        assert plan is not None
        assert plan.prompt is not None
        assert plan.drawn is not None
        assert service.batching is not None
        self._cached, _, _ = service.work(plan)
        self._in_service = True
        tokens = plan.prompt.tokens
        self._job = Job(tokens, tokens - self._cached, plan.drawn.tokens, lambda: service.computed(plan), self._answer)
        service.batching.enter(self._job)

    def _prefill(self) -> None:
        assert self._plan is not None
        self._cached, prefill_s, decode_s = self._service.work(self._plan)
        if prefill_s:
            self._timer = self._loop.call_later(prefill_s, self._decode, decode_s)
        else:
            self._decode(decode_s)

    def _decode(self, decode_s: float) -> None:
        assert self._plan is not None
        self._service.computed(self._plan)
        if decode_s:
            self._timer = self._loop.call_later(decode_s, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        assert self._plan is not None
        self._service.finish(self._plan, self._cached)
        self._leave_service()
        self._deliver()

    def _leave_service(self) -> None:
        assert self._plan is not None
        queued = self._slots.leave(self)
        if queued or self._in_service:
            self._service.leave(self._plan)
        if self._job is not None and self._service.batching is not None:
            self._service.batching.leave(self._job)
            self._job, self._in_service = None, False
        if self._in_service:
            self._in_service = False
            self._slots.give_back()

    def _deliver(self) -> None:
        plan = self._plan
        assert plan is not None
        action = plan.action
        if action is not None:
            self._stats.by_action[action] += 1
            if action == "hang":
                return  # the client ends it
            if action in ("reset", "close"):
                self._ended(None)
                self.reset() if action == "reset" else self._transport.close()
                return
            if action == "trickle":
                self._trickle(response(plan.status, plan.body, headers=plan.headers), 0)
                return
        self._write(_bytes_of(plan))
        if action == "truncate":
            self._transport.close()
        self._ended(plan.status)
        self._freed()

    def _trickle(self, data: bytes, at: int) -> None:
        """The head at once, then a byte a second."""
        upto = at + 1 if at else data.index(b"\r\n\r\n") + 4
        self._transport.write(data[at:upto])
        if upto < len(data):
            self._timer = self._loop.call_later(TRICKLE_S, self._trickle, data, upto)
            return
        assert self._plan is not None
        self._ended(self._plan.status)
        self._freed()

    def _ended(self, status: int | None) -> None:
        if status is not None:
            self._stats.ended(status)
        self._stats.in_flight -= 1
        self._plan = None

    def _freed(self) -> None:
        """The reply is out: go on with what came meanwhile."""
        self._timer = None
        late = self._busy
        self._busy = False
        if not self._keep:
            self._transport.close()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if late and self._parser.waiting:
            self._loop.call_soon(self._go_on)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _bytes_of(plan: Plan) -> bytes:
    """A plan's reply as it goes over the wire."""
    if plan.action == "html":
        return response(plan.status, plan.body, "text/html", plan.headers)
    if plan.action == "gzip":
        return response(plan.status, gzip.compress(plan.body, 1), JSON, {**plan.headers, "content-encoding": "gzip"})
    if plan.action == "truncate":
        whole = response(plan.status, plan.body, JSON, plan.headers)
        return whole[: len(whole) - max(1, len(plan.body) // 2)]
    if plan.action == "sse":
        body = events(plan.body) if plan.drawn is not None else plan.body
        return response(plan.status, body, "text/event-stream", plan.headers)
    return response(plan.status, plan.body, JSON, plan.headers)
