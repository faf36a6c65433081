"""What the plain transport alone promises: what it writes, which connections it keeps, and when nothing was sent."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest
import uvloop

from headrace.endpoints.plain import PlainTransport, open_client
from headrace.endpoints.transport import Limits, Peer, Reason, TransportError
from headrace.testing.contracts.raw_server import ANSWER, Connection, RawServer, after_request, keep_replying, unused_port
from headrace.testing.contracts.transport_scenes import BODY, HEADERS, post
from headrace.values import Sent

LARGE = b"x" * 20_000_000
Scene = Callable[[PlainTransport], Awaitable[None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a scene with a transport of its own, on either loop."""

    def played(scene: Scene, limits: Limits | None = None) -> None:
        async def run() -> None:
            transport = open_client(Peer(limits=limits or Limits()))
            try:
                await scene(transport)
            finally:
                await transport.close()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(run())

    return played


async def lost(request: Awaitable[object]) -> tuple[Reason, Sent]:
    with pytest.raises(TransportError) as caught:
        await request
    return caught.value.reason, caught.value.sent


class Heads:
    """A server that keeps each request's bytes as they came."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.seen.append(head + await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()


# -- what is written


@pytest.mark.parametrize(
    ("host", "path", "line", "shown"),
    [
        ("127.0.0.1", "/v1/chat/completions", b"/v1/chat/completions", b"127.0.0.1:%d"),
        ("LOCALHOST", "/v1?key=a%20b&x=%C3%BC", b"/v1?key=a%20b&x=%C3%BC", b"localhost:%d"),
        ("user:secret@127.0.0.1", "/a b/\u00fc?\u00fc={}", b"/a%20b/%C3%BC?%C3%BC=%7B%7D", b"127.0.0.1:%d"),
        ("127.0.0.1", "", b"/", b"127.0.0.1:%d"),
    ],
    ids=["plain", "a name and a query", "what no request line can carry", "no path"],
)
def test_a_request_is_written_as_its_url_says(play, host: str, path: str, line: bytes, shown: bytes) -> None:
    async def scene(transport: PlainTransport) -> None:
        heads = Heads()
        async with await asyncio.start_server(heads.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            headers = {"X-One": "1", "authorization": "Bearer a\tb"}
            await transport.request("POST", f"http://{host}:{port}{path}", headers, BODY, 10.0, "run-1-0")
        assert heads.seen == [
            b"POST %b HTTP/1.1\r\nHost: %b\r\nX-One: 1\r\nauthorization: Bearer a\tb\r\nContent-Length: 13\r\n"
            b"Idempotency-Key: run-1-0\r\n\r\n%b" % (line, shown % port, BODY)
        ]

    play(scene)


def test_an_address_of_ipv6_is_reached(play) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")

    async def scene(transport: PlainTransport) -> None:
        heads = Heads()
        async with await asyncio.start_server(heads.serve, "::1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert (await post(transport, f"http://[::1]:{port}/v1")).status == 200
        assert b"\r\nHost: [::1]:%d\r\n" % port in heads.seen[0]

    play(scene)


@pytest.mark.parametrize(
    ("url", "headers", "key"),
    [
        ("http://127.0.0.1:{port}/v1", {"X-Odd": "a\r\nX-Injected: b"}, None),
        ("http://127.0.0.1:{port}/v1", {"X-Odd\r\nX-Injected": "b"}, None),
        ("http://127.0.0.1:{port}/v1", {"X-Odd:": "b"}, None),
        ("http://127.0.0.1:{port}/v1", {"X-Odd": "a\0b"}, None),
        ("http://127.0.0.1:{port}/v1", {"X-Odd": "caf\u00e9"}, None),
        ("http://127.0.0.1:{port}/v1", {}, "run\r\nX-Injected: b"),
        ("http://127.0.0.1:{port}/v1", {"Content-Length": "0"}, None),
        ("https://127.0.0.1:{port}/v1", {}, None),
        ("http://b\u00fccher.localhost:{port}/v1", {}, None),
        ("http://127.0.0.1:{port}0000/v1", {}, None),
    ],
)
def test_what_cannot_be_written_is_not_sent(url: str, headers: Mapping[str, str], key: str | None, play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(keep_replying()) as server:
            sending = transport.request("POST", url.format(port=server.port), headers, BODY, 10.0, key)
            assert await lost(sending) == (Reason.PROTOCOL, Sent.NO)
            assert not server.connections

    play(scene)


def test_a_bad_header_does_not_stay(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(keep_replying()) as server:
            bad = {"X-Odd": "a\r\nb"}
            for _ in range(2):
                assert await lost(transport.request("POST", server.url, bad, BODY, 10.0, None)) == (Reason.PROTOCOL, Sent.NO)
            assert (await post(transport, server.url)).body == ANSWER

    play(scene)


# -- when nothing was sent


@pytest.mark.parametrize("end", [Connection.reset, Connection.ended], ids=["reset", "never read"])
def test_a_request_of_which_part_is_still_here_cannot_have_been_worked_on(end, play) -> None:
    async def serve(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        if end is Connection.reset:
            connection.reset()
            return
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of the base class' type only
        await asyncio.sleep(10)

    async def scene(transport: PlainTransport) -> None:
        async with RawServer(serve) as server:
            reason, sent = await lost(transport.request("POST", server.url, HEADERS, LARGE, 0.5, None))
            assert (reason, sent) == (Reason.CONNECTION if end is Connection.reset else Reason.TIMEOUT, Sent.NO)

    play(scene)


def test_where_a_reply_has_begun_it_may_have_been_worked_on(play) -> None:
    async def serve(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.raw(b"HTTP/1.1 200 OK\r\n")
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of the base class' type only
        await asyncio.sleep(10)

    async def scene(transport: PlainTransport) -> None:
        async with RawServer(serve) as server:
            sending = transport.request("POST", server.url, HEADERS, LARGE, 0.5, None)
            assert await lost(sending) == (Reason.TIMEOUT, Sent.MAYBE)

    play(scene)


def test_the_total_limit_holds_while_connecting(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            waiting = [socket.socket() for _ in range(3)]
            for full in waiting:  # the accept queue
                full.setblocking(False)
                full.connect_ex(listener.getsockname())
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            assert await lost(post(transport, url, 0.2)) == (Reason.CONNECTION, Sent.NO)
            task = asyncio.get_running_loop().create_task(post(transport, url, 30.0))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for full in waiting:
                full.close()

    play(scene)


@pytest.mark.parametrize("host", ["a..localhost", "x" * 70 + ".localhost", "nowhere.invalid"])
def test_what_can_be_no_name_does_not_resolve(host: str, play) -> None:
    async def scene(transport: PlainTransport) -> None:
        assert await lost(post(transport, f"http://{host}/v1")) == (Reason.DNS, Sent.NO)

    play(scene)


# -- connections


def test_a_connection_whose_end_came_while_the_loop_was_busy_is_not_used(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(keep_replying()) as server:
            await post(transport, server.url)
            ended = server.connections[0].writer.get_extra_info("socket")
            with socket.socket(fileno=socket.dup(ended.fileno())) as behind:
                behind.shutdown(socket.SHUT_WR)  # the loop has not looked since
            time.sleep(0.03)  # noqa: ASYNC251 - the loop is busy
            assert (await post(transport, server.url)).body == ANSWER
            assert [len(connection.requests) for connection in server.connections] == [1, 1]

    play(scene)


def test_what_comes_unasked_ends_the_connection(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async def serve(connection: Connection) -> None:
            await connection.read()
            await connection.reply()
            await asyncio.sleep(0.02)
            await connection.reply(b'"nobody asked"')
            await connection.ended()

        async with RawServer(serve) as server:
            await post(transport, server.url)
            await asyncio.sleep(0.1)
            assert (await post(transport, server.url)).body == ANSWER
            assert len(server.connections) == 2

    play(scene)


def test_idle_connections_close_by_themselves_and_the_newest_is_used_first(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        ended = 0

        async def serve(connection: Connection) -> None:
            nonlocal ended
            while await connection.read():
                await connection.reply()
            ended += 1

        async with RawServer(serve) as server:
            await asyncio.gather(*(post(transport, server.url) for _ in range(5)))
            assert len(server.connections) == 5
            for _ in range(10):
                await post(transport, server.url)
                await asyncio.sleep(0.06)
            assert (ended, sorted(len(connection.requests) for connection in server.connections)) == (4, [1, 1, 1, 1, 11])

    play(scene, Limits(idle_s=0.3))


def test_a_length_beyond_the_cap_is_not_read(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async def endless(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
            await connection.ended()

        async with RawServer(after_request(endless)) as server:
            assert await lost(post(transport, server.url)) == (Reason.TOO_LARGE, Sent.MAYBE)

    play(scene)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"a" * 3_000_000, id="extensions of a chunk"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nxx", id="another protocol"),
        pytest.param(b"HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\n{}", id="status 0"),
        pytest.param(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 100_000, id="a flood of 103"),
    ],
)
def test_what_is_no_reply_is_a_protocol_error(raw: bytes, play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(after_request(lambda connection: connection.raw(raw))) as server:
            assert await lost(post(transport, server.url)) == (Reason.PROTOCOL, Sent.MAYBE)

    play(scene)


def test_both_a_length_and_chunks_are_read_as_chunks_and_the_connection_is_not_used_again(play) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"

    async def scene(transport: PlainTransport) -> None:
        async def serve(connection: Connection) -> None:
            while await connection.read():
                await connection.raw(raw)

        async with RawServer(serve) as server:
            for _ in range(2):
                assert (await post(transport, server.url)).body == b"{}"
            assert len(server.connections) == 2

    play(scene)


def test_silence_is_counted_from_the_last_byte(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async def slow(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
            for _ in range(10):
                await asyncio.sleep(0.1)
                await connection.raw(b"x")

        async def stuck(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")
            await connection.ended()

        async with RawServer(after_request(slow)) as server:
            assert (await post(transport, server.url)).body == b"x" * 10
        async with RawServer(after_request(stuck)) as server:
            assert await lost(post(transport, server.url)) == (Reason.TIMEOUT, Sent.MAYBE)

    play(scene, Limits(silence_s=0.5))


def test_a_transport_that_is_closed_while_it_connects_sends_nothing(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(keep_replying()) as server:
            task = asyncio.get_running_loop().create_task(post(transport, server.url))
            await asyncio.sleep(0)
            await transport.close()
            assert await lost(task) == (Reason.CONNECTION, Sent.NO)
            assert not any(connection.requests for connection in server.connections)

    play(scene)


def test_nobody_listens(play) -> None:
    async def scene(transport: PlainTransport) -> None:
        for host in ("127.0.0.1", "localhost"):
            assert await lost(post(transport, f"http://{host}:{unused_port()}/v1")) == (Reason.REFUSED, Sent.NO)

    play(scene)


@pytest.mark.parametrize("rounds", range(12))
def test_a_caller_that_goes_while_its_connection_is_made_leaves_nothing_that_close_waits_for(play, rounds: int):
    async def scene(transport: PlainTransport) -> None:
        async with RawServer(keep_replying()) as server:
            asking = asyncio.create_task(post(transport, server.url))
            for _ in range(rounds):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            await transport.close()
            assert not any(site.pool.open for site in transport._sites.values())

    play(scene)
