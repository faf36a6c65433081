"""What every Transport keeps, as tests over real loopback sockets: derive from `TransportContract` and run it under pytest."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import threading
import time
import zlib

import pytest

from headrace.endpoints.transport import Limits, Peer, Reason, Transport, TransportError
from headrace.errors import SpecError
from headrace.testing.contracts.raw_server import ANSWER, Connection, RawServer, after_request, keep_replying, unused_port
from headrace.testing.contracts.transport_scenes import BODY, HEADERS, TransportScenes, post
from headrace.values import Sent


class TransportContract(TransportScenes):
    """What holds of servers that mean well, and of those that die. What others do is in `hostile_server`."""

    # What a reply is

    def test_a_full_reply_comes_with_status_body_and_headers(self) -> None:
        response = self.reply(keep_replying(status=b"429 Too Many", head=b"Retry-After: 7\r\n", body=b'{"error":1}'))
        assert (response.status, response.body, response.header("retry-after")) == (429, b'{"error":1}', "7")
        assert response.header("x-absent") is None

    def test_the_server_sees_body_headers_and_idempotency_key(self) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying()) as server:
                await post(transport, server.url, key="run-7-0")
                head = server.connections[0].requests[0]
                assert head.startswith(b"post /v1/chat/completions http/1.1\r\n")
                assert b"\r\nidempotency-key: run-7-0\r\n" in head
                assert b"\r\naccept-encoding: gzip, deflate\r\n" in head
                assert b"\r\ncontent-length: 13\r\n" in head

        self.run(scene)

    def test_a_header_that_is_no_text_does_not_raise_when_it_is_looked_up(self) -> None:
        response = self.reply(keep_replying(head=b"Retry-After: \xff\xfe\r\nX-Empty:\r\n"))
        assert response.header("retry-after") != "7"
        assert not response.header("x-empty")

    @pytest.mark.parametrize(
        ("encoding", "body"),
        [
            (b"gzip", gzip.compress(ANSWER)),
            (b"deflate", zlib.compress(ANSWER)),
        ],
        ids=["gzip", "deflate"],
    )
    def test_net_09_encodings_that_were_asked_for_are_decoded(self, encoding: bytes, body: bytes) -> None:
        assert self.reply(keep_replying(head=b"Content-Encoding: %b\r\n" % encoding, body=body)).body == ANSWER

    def test_net_09_another_encoding_is_passed_on_with_its_name(self) -> None:
        response = self.reply(keep_replying(head=b"Content-Encoding: zstd\r\n", body=b"(\xb5/\xfd..."))
        assert (response.body, response.header("content-encoding")) == (b"(\xb5/\xfd...", "zstd")

    def test_a_body_that_is_not_what_its_encoding_says_is_a_protocol_error(self) -> None:
        error = self.failure(keep_replying(head=b"Content-Encoding: gzip\r\n", body=b"no gzip at all"))
        assert (error.reason, error.sent) == (Reason.PROTOCOL, Sent.MAYBE)

    def test_chunked_and_late_parts_are_one_body(self) -> None:
        async def reply(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n" + ANSWER[:7] + b"\r\n")
            await asyncio.sleep(0.02)
            await connection.raw(b"7\r\n" + ANSWER[7:] + b"\r\n0\r\n\r\n")

        assert self.reply(after_request(reply)).body == ANSWER

    def test_a_body_without_end_is_given_up_at_the_cap(self) -> None:
        async def reply(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not connection.writer.is_closing():
                await connection.raw(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await asyncio.sleep(0)

        error = self.failure(after_request(reply), peer=Peer(limits=Limits(max_body=50_000)))
        assert (error.reason, error.sent) == (Reason.TOO_LARGE, Sent.MAYBE)

    @pytest.mark.parametrize("chunked", [False, True])
    @pytest.mark.parametrize("cap", [1, 1_000, 65_535, 65_536, 65_537, 200_000])
    def test_a_body_as_large_as_the_cap_is_the_largest_that_arrives(self, cap: int, *, chunked: bool) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                for size in (cap - 1, cap, cap + 1):
                    body = b"x" * size
                    await connection.read()
                    if not chunked:
                        await connection.reply(body)
                        continue
                    part = b"%x\r\n%b\r\n" % (size, body) if size else b""
                    await connection.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % part)
                await connection.ended()

            async with RawServer(serve) as server:
                for size in (cap - 1, cap):
                    assert (await post(transport, server.url)).body == b"x" * size
                with pytest.raises(TransportError) as caught:
                    await post(transport, server.url)
                assert caught.value.reason is Reason.TOO_LARGE
                assert len(server.connections) == 1  # a reply that was read gives its connection back

        self.run(scene, Peer(limits=Limits(max_body=cap)))

    def test_a_reply_that_is_given_up_at_the_cap_lets_go_of_its_socket(self) -> None:
        async def scene(transport: Transport) -> None:
            freed = asyncio.Event()

            async def flood(connection: Connection) -> None:
                await connection.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while not connection.writer.is_closing():
                    await connection.raw(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                    await asyncio.sleep(0)
                freed.set()

            async with RawServer(after_request(flood)) as server:
                with pytest.raises(TransportError):
                    await post(transport, server.url)
                await asyncio.wait_for(freed.wait(), 5)

        self.run(scene, Peer(limits=Limits(max_body=300_000)))

    def test_each_request_goes_where_and_as_it_says(self) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying()) as one, RawServer(keep_replying()) as other:
                for server, headers, key in ((one, "a", "k1"), (other, "b", "k2"), (other, "b", None), (one, "a", "k3")):
                    await transport.request("POST", server.url, {**HEADERS, "X-Mark": headers}, BODY, 10.0, key)
                heads = [head for server in (one, other) for connection in server.connections for head in connection.requests]
                marks = [(b"x-mark: a\r\n" in head, head.partition(b"idempotency-key: ")[2][:2]) for head in heads]
                assert marks == [(True, b"k1"), (True, b"k3"), (False, b"k2"), (False, b"")]

        self.run(scene)

    def test_a_body_that_unpacks_beyond_the_cap_is_given_up(self) -> None:
        bomb = gzip.compress(b"\x00" * 1_000_000)
        peer = Peer(limits=Limits(max_body=50_000))
        error = self.failure(keep_replying(head=b"Content-Encoding: gzip\r\n", body=bomb), peer=peer)
        assert error.reason is Reason.TOO_LARGE

    def test_an_empty_body_is_a_reply(self) -> None:
        assert self.reply(keep_replying(body=b"")).body == b""

    def test_a_large_body_arrives_whole(self) -> None:
        body = b'"' + b"a" * 3_000_000 + b'"'
        assert self.reply(keep_replying(body=body)).body == body

    # What is lost

    def test_net_03_a_reset_inside_the_body_is_ambiguous(self) -> None:
        async def reply(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b"x" * 200)
            await asyncio.sleep(0.02)
            connection.reset()

        error = self.failure(after_request(reply))
        assert (error.reason, error.sent) == (Reason.SHORT_BODY, Sent.MAYBE)

    @pytest.mark.parametrize(
        "part",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhel",
        ],
        ids=["short content-length", "between chunks", "inside a chunk"],
    )
    def test_net_03_a_body_that_is_cut_is_ambiguous(self, part: bytes) -> None:
        error = self.failure(after_request(lambda connection: connection.raw(part)))
        assert (error.reason, error.sent) == (Reason.SHORT_BODY, Sent.MAYBE)

    def test_a_server_that_closes_after_reading_may_have_worked(self) -> None:
        error = self.failure(after_request(lambda _: None))
        assert (error.reason, error.sent) == (Reason.CONNECTION, Sent.MAYBE)

    def test_a_reset_after_reading_may_have_followed_work(self) -> None:
        error = self.failure(after_request(Connection.reset))
        assert (error.reason, error.sent) == (Reason.CONNECTION, Sent.MAYBE)

    def test_a_refused_connection_was_not_sent(self) -> None:
        async def scene(transport: Transport) -> None:
            with pytest.raises(TransportError) as caught:
                await post(transport, f"http://127.0.0.1:{unused_port()}/v1")
            assert (caught.value.reason, caught.value.sent) == (Reason.REFUSED, Sent.NO)

        self.run(scene)

    def test_a_name_that_does_not_resolve_was_not_sent(self) -> None:
        async def scene(transport: Transport) -> None:
            with pytest.raises(TransportError) as caught:
                await post(transport, "http://nowhere.invalid/v1")
            assert (caught.value.reason, caught.value.sent) == (Reason.DNS, Sent.NO)

        self.run(scene)

    def test_a_server_that_accepts_no_connection_runs_into_the_connect_limit(self) -> None:
        async def scene(transport: Transport) -> None:
            with contextlib.ExitStack() as held:
                listener = held.enter_context(socket.socket())
                listener.bind(("127.0.0.1", 0))
                listener.listen(0)
                for _ in range(3):  # fills the accept queue: further connects get no answer
                    waiting = held.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex(listener.getsockname())
                with pytest.raises(TransportError) as caught:
                    await post(transport, f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
                assert (caught.value.reason, caught.value.sent) == (Reason.CONNECTION, Sent.NO)

        self.run(scene, Peer(limits=Limits(connect_s=0.2)))

    def test_net_01_a_server_that_never_answers_runs_into_the_silence_limit(self) -> None:
        error = self.failure(after_request(Connection.ended), peer=Peer(limits=Limits(silence_s=0.2)))
        assert (error.reason, error.sent) == (Reason.TIMEOUT, Sent.MAYBE)

    def test_net_01_a_server_that_never_answers_runs_into_the_total_limit(self) -> None:
        error = self.failure(after_request(Connection.ended), total_s=0.2)
        assert (error.reason, error.sent) == (Reason.TIMEOUT, Sent.MAYBE)

    def test_net_01_a_body_that_trickles_forever_runs_into_the_total_limit(self) -> None:
        async def reply(connection: Connection) -> None:
            await connection.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not connection.writer.is_closing():
                await connection.raw(b"x")
                await asyncio.sleep(0.02)

        error = self.failure(after_request(reply), total_s=0.3)
        assert (error.reason, error.sent) == (Reason.TIMEOUT, Sent.MAYBE)

    def test_a_request_that_timed_out_lets_go_of_its_socket(self) -> None:
        async def scene(transport: Transport) -> None:
            freed = asyncio.Event()

            async def hang(connection: Connection) -> None:
                await connection.ended()
                freed.set()

            async with RawServer(after_request(hang)) as server:
                with pytest.raises(TransportError):
                    await post(transport, server.url, 0.2)
                await asyncio.wait_for(freed.wait(), 5)

        self.run(scene)

    @pytest.mark.parametrize(
        "junk",
        [
            b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Large: " + b"a" * 2_000_000 + b"\r\n\r\n",
        ],
        ids=["no http", "a header of 2 MB"],
    )
    def test_what_is_no_http_is_a_protocol_error(self, junk: bytes) -> None:
        error = self.failure(after_request(lambda connection: connection.raw(junk)))
        assert (error.reason, error.sent) == (Reason.PROTOCOL, Sent.MAYBE)

    # What a client must not do by itself

    def test_a_request_that_cannot_be_built_was_not_sent(self) -> None:
        async def scene(transport: Transport) -> None:
            with pytest.raises(TransportError) as caught:
                await transport.request("POST", "http://127.0.0.1:1/v1", {"X-Odd": "a\nb"}, BODY, 5.0, None)
            assert caught.value.sent is Sent.NO

        self.run(scene)

    def test_a_packed_body_that_ends_early_is_no_reply(self) -> None:
        error = self.failure(keep_replying(head=b"Content-Encoding: gzip\r\n", body=gzip.compress(ANSWER * 100)[:-12]))
        assert error.sent is Sent.MAYBE

    @pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
    def test_a_redirect_is_a_reply_and_is_not_followed(self, status: bytes) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying(status=status, head=b"Location: /elsewhere\r\n", body=b"")) as server:
                response = await post(transport, server.url)
                assert (response.status, response.header("location")) == (int(status[:3]), "/elsewhere")
                assert sum(len(connection.requests) for connection in server.connections) == 1

        self.run(scene)

    @pytest.mark.parametrize("status", [b"500 Oops", b"503 Busy", b"429 Slow", b"408 Late"])
    def test_rtl_03_nothing_is_retried_after_an_error_status(self, status: bytes) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying(status=status, head=b"Retry-After: 0\r\n")) as server:
                await post(transport, server.url)
                assert sum(len(connection.requests) for connection in server.connections) == 1

        self.run(scene)

    @pytest.mark.parametrize("reused", [False, True])
    def test_rtl_03_nothing_is_retried_after_a_lost_connection(self, reused: bool) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                if reused and await connection.read():
                    await connection.reply()
                await connection.read()

            async with RawServer(serve) as server:
                if reused:
                    await post(transport, server.url)
                with pytest.raises(TransportError) as caught:
                    await post(transport, server.url)
                assert caught.value.sent is Sent.MAYBE
                assert [len(connection.requests) for connection in server.connections] == [2 if reused else 1]

        self.run(scene)

    def test_no_cookie_is_kept(self) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying(head=b"Set-Cookie: a=b; Path=/\r\n")) as server:
                await post(transport, server.url)
                await post(transport, server.url)
                heads = [head for connection in server.connections for head in connection.requests]
                assert len(heads) == 2
                assert not any(b"\r\ncookie:" in head for head in heads)

        self.run(scene)

    def test_proxy_variables_are_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert self.reply(keep_replying()).body == ANSWER

    def test_a_proxy_that_was_chosen_is_asked(self) -> None:
        if not self.serves_proxies:
            with pytest.raises(SpecError, match="proxy"):
                self.open(Peer(proxy="http://127.0.0.1:1"))
            return

        async def scene(_: Transport) -> None:
            async with RawServer(keep_replying()) as proxy:
                through = self.open(Peer(proxy=f"http://127.0.0.1:{proxy.port}"))
                try:
                    await post(through, "http://nowhere.invalid/v1/chat/completions")
                finally:
                    await through.close()
                assert proxy.connections[0].requests[0].startswith(b"post http://nowhere.invalid/v1/chat/completions ")

        self.run(scene)

    # Connections

    def test_a_connection_is_used_again(self) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying()) as server:
                for _ in range(5):
                    await post(transport, server.url)
                assert [len(connection.requests) for connection in server.connections] == [5]

        self.run(scene)

    def test_an_idle_connection_is_not_used_after_its_age(self) -> None:
        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying()) as server:
                await post(transport, server.url)
                await asyncio.sleep(0.3)
                await post(transport, server.url)
                assert [len(connection.requests) for connection in server.connections] == [1, 1]

        self.run(scene, Peer(limits=Limits(idle_s=0.1)))

    def test_a_server_that_closes_idle_connections_costs_no_request(self) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                if await connection.read():
                    await connection.reply()

            async with RawServer(serve) as server:
                for _ in range(3):
                    assert (await post(transport, server.url)).status == 200
                    await asyncio.sleep(0.05)
                assert len(server.connections) == 3

        self.run(scene)

    def test_net_11_two_hundred_at_once_wait_for_no_connection(self) -> None:
        async def scene(transport: Transport) -> None:
            arrived = 0
            all_here = asyncio.Event()

            async def reply(connection: Connection) -> None:
                nonlocal arrived
                arrived += 1
                if arrived == 200:
                    all_here.set()
                await all_here.wait()
                await connection.reply()

            async with RawServer(after_request(reply)) as server:
                responses = await asyncio.gather(*(post(transport, server.url, 30) for _ in range(200)))
                assert [response.status for response in responses] == [200] * 200

        self.run(scene)

    def test_a_cancelled_caller_returns_at_once(self) -> None:
        async def scene(transport: Transport) -> None:
            here, freed = asyncio.Event(), asyncio.Event()

            async def hang(connection: Connection) -> None:
                here.set()
                await connection.ended()
                freed.set()

            async with RawServer(after_request(hang)) as server:
                task = asyncio.get_running_loop().create_task(post(transport, server.url, 60 if self.aborts else 0.5))
                await asyncio.wait_for(here.wait(), 5)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(freed.wait(), 5)

        self.run(scene)

    def test_net_12_a_reply_that_came_while_the_event_loop_was_busy_is_in_time(self) -> None:
        async def scene(transport: Transport) -> None:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                read = threading.Event()
                thread = threading.Thread(target=_reply_from_a_thread, args=(listener, read))
                thread.start()
                url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
                task = asyncio.get_running_loop().create_task(post(transport, url, 0.4))
                while not read.is_set():  # noqa: ASYNC110 - set by a thread
                    await asyncio.sleep(0.001)
                time.sleep(0.7)  # noqa: ASYNC251 - the lag under test: the reply comes and the limit passes meanwhile
                assert (await task).status == 200
                thread.join()

        self.run(scene)


def _reply_from_a_thread(listener: socket.socket, read: threading.Event) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        read.set()
        time.sleep(0.1)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
