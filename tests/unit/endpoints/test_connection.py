"""A connection told by hand what came: however the bytes are split, whatever they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.connection import Connection, Pool
from headrace.endpoints.deadlines import Deadlines
from headrace.endpoints.transport import Limits, Response, TransportError
from headrace.testing import run_virtual
from headrace.values import Sent

REPLIES = {
    "a length": b"HTTP/1.1 200 OK\r\nX-Mark: one\r\nContent-Length: 7\r\n\r\n{a:b,c}",
    "chunks": b"HTTP/1.1 200 OK\r\nx-mark: one\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{a:\r\n4;x=y\r\nb,c}\r\n0\r\nX-Mark: two\r\n\r\n",
    "after 103": b"HTTP/1.1 103 Early\r\nX-Mark: two\r\n\r\nHTTP/1.1 200 OK\r\nX-MARK:one\r\nContent-Length: 7\r\n\r\n{a:b,c}",
}  # fmt: skip


class FakeSocket:
    """The transport of the event loop, as a connection uses it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


Scene = Callable[[Connection, FakeSocket, Pool, asyncio.Future[Response]], None]


def told(scene: Scene, limits: Limits | None = None, *, written: bool = True) -> None:
    """Play a scene with a connection that has sent a request; not `written`: in the same round of the event loop."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        deadlines, pool, wire = Deadlines(loop), Pool(), FakeSocket()
        connection = Connection(pool, deadlines, limits or Limits())
        connection.connection_made(wire)  # type: ignore[arg-type]  # as much of one as is used
        waiter = connection.send(b"request", deadlines.now(), deadlines.now() + 60.0)
        assert not wire.written
        if written:
            await asyncio.sleep(0)
            assert wire.written == [b"request"]
        scene(connection, wire, pool, waiter)
        if not written:
            await asyncio.sleep(0)
            assert not wire.written
        if waiter.done():
            waiter.exception()
        if connection in pool.open:
            connection.connection_lost(None)
        assert not pool.open
        assert not pool.idle

    running: Coroutine[Any, Any, None] = play()
    run_virtual(running)


def parts(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(at)]


@pytest.mark.parametrize("raw", REPLIES.values(), ids=REPLIES)
@given(cuts=st.lists(st.integers(0, 1000), max_size=200))
def test_however_a_reply_is_split_it_is_the_same(raw: bytes, cuts: list[int]) -> None:
    def scene(connection: Connection, wire: FakeSocket, pool: Pool, waiter: asyncio.Future[Response]) -> None:
        for part in parts(raw, cuts):
            assert not waiter.done()
            connection.data_received(part)
        response = waiter.result()
        assert (response.status, response.body, response.header("x-mark")) == (200, b"{a:b,c}", "one")
        assert pool.idle == [connection]
        assert not wire.closed

    told(scene)


@pytest.mark.parametrize("raw", REPLIES.values(), ids=REPLIES)
@given(cut=st.integers(0, 1000), eof=st.booleans())
def test_wherever_a_reply_is_cut_it_is_lost(raw: bytes, cut: int, *, eof: bool) -> None:
    def scene(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        if begun := raw[: cut % len(raw)]:
            connection.data_received(begun)
        if eof:
            connection.eof_received()
        else:
            connection.connection_lost(ConnectionResetError(104, "reset"))
        error = waiter.exception()
        assert isinstance(error, TransportError)
        assert error.sent is Sent.MAYBE
        assert wire.closed

    told(scene)


@given(
    pieces=st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([*REPLIES.values(), b"HTTP/1.1 ", b"\r\n", b"0\r\n\r\n"])))
)
def test_whatever_comes_is_a_reply_or_an_error_and_nothing_is_raised(pieces: list[bytes]) -> None:
    def scene(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        for piece in pieces:
            if wire.closed:
                break
            connection.data_received(piece)
        if waiter.done():
            error = waiter.exception()
            assert error is None or isinstance(error, TransportError)
        else:
            assert not wire.closed

    told(scene)


def test_what_never_ends_is_held_up_to_a_bound() -> None:
    def scene(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        connection.data_received(b"HTTP/1.1 200 OK\r\nX-Large: ")
        taken = 0
        while not wire.closed:
            connection.data_received(b"a" * 1000)
            taken += 1000
        assert 100_000 < taken < 200_000
        assert isinstance(waiter.exception(), TransportError)

    told(scene)


def test_a_caller_that_gives_up_ends_the_connection_and_one_whose_reply_came_does_not() -> None:
    def given_up(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        connection.abandon(waiter)
        assert wire.closed

    def replied(connection: Connection, wire: FakeSocket, pool: Pool, waiter: asyncio.Future[Response]) -> None:
        connection.data_received(REPLIES["a length"])
        connection.abandon(waiter)
        assert not wire.closed
        assert pool.idle == [connection]

    told(given_up)
    told(replied)


def test_a_connection_that_was_closed_as_it_was_made_has_sent_nothing() -> None:
    def scene(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        wire.abort()
        with pytest.raises(TransportError) as caught:
            connection.send(b"another", 0.0, 60.0)
        assert caught.value.sent is Sent.NO
        assert wire.written == [b"request"]

    told(scene)


@pytest.mark.parametrize(
    "scene",
    [
        lambda connection, waiter: connection.abandon(waiter),
        lambda connection, _: connection.connection_lost(ConnectionResetError(104, "reset")),
        lambda connection, _: connection.eof_received(),
        lambda connection, _: connection.data_received(REPLIES["a length"]),
        lambda connection, _: connection.on_due(connection.due),
    ],
    ids=["its caller gave up", "it was lost", "its server hung up", "its server spoke before it was asked", "its time was over"],
)
def test_what_is_not_written_yet_when_its_connection_ends_is_never_written(
    scene: Callable[[Connection, asyncio.Future[Response]], None],
) -> None:
    def ended(connection: Connection, wire: FakeSocket, _: Pool, waiter: asyncio.Future[Response]) -> None:
        scene(connection, waiter)
        assert wire.closed
        if waiter.done():
            error = waiter.exception()
            assert isinstance(error, TransportError)
            assert error.sent is Sent.NO

    told(ended, written=False)


def test_requests_of_one_round_are_written_together_and_in_order() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        deadlines, pool, written = Deadlines(loop), Pool(), list[bytes]()
        connections = [Connection(pool, deadlines, Limits()) for _ in range(3)]
        for number, connection in enumerate(connections):
            wire = FakeSocket()
            wire.written = written
            connection.connection_made(wire)  # type: ignore[arg-type]  # as much of one as is used
            connection.send(b"request %d" % number, deadlines.now(), deadlines.now() + 60.0)
        rounds = list[int]()
        loop.call_soon(lambda: rounds.append(len(written)))
        assert not written
        await asyncio.sleep(0)
        assert rounds == [3]
        assert written == [b"request 0", b"request 1", b"request 2"]
        connections[0].send(b"again", deadlines.now(), deadlines.now() + 60.0)
        await asyncio.sleep(0)
        assert written[-1] == b"again"
        for connection in connections:
            connection.connection_lost(None)

    run_virtual(play())
