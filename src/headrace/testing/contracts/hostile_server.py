"""What every Transport makes of servers that break the rules, or stretch them: derive from `HostileServerContract`."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from headrace.endpoints.transport import Limits, Peer, Reason, Transport, TransportError
from headrace.testing.contracts.raw_server import ANSWER, Connection, RawServer, after_request
from headrace.testing.contracts.transport_scenes import HEADERS, TransportScenes, post
from headrace.values import Sent

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"{}")


class HostileServerContract(TransportScenes):
    """A reply is what it says, or an error: never another request's, never without bounds, never in quadratic time."""

    hears_while_it_sends = True

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(OK + b"Content-Length: -2\r\n\r\n{}", id="a negative length"),
            pytest.param(OK + b"Content-Length: 99999999999999999999999\r\n\r\n{}", id="a length beyond numbers"),
            pytest.param(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}{", id="two lengths"),
            pytest.param(CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n", id="a negative chunk"),
            pytest.param(CHUNKED + b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n", id="a chunk beyond numbers"),
            pytest.param(OK + b"X-Odd: a\0b\r\nContent-Length: 2\r\n\r\n{}", id="NUL in a header"),
            pytest.param(OK + b"X-Odd : a\r\nContent-Length: 2\r\n\r\n{}", id="a space before the colon"),
            pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="the preface of HTTP/2"),
            pytest.param(b"\x00\x00\x12\x04" + b"\x00" * 23, id="settings of HTTP/2"),
            pytest.param(b"HTTP/2 200\r\n\r\n{}", id="a status of HTTP/2"),
            pytest.param(b"<html>hello</html>", id="HTTP/0.9"),
        ],
    )
    def test_what_breaks_the_protocol_is_no_reply(self, raw: bytes) -> None:
        error = self.failure(after_request(lambda connection: connection.raw(raw)))
        assert (error.reason, error.sent) == (Reason.PROTOCOL, Sent.MAYBE)

    @pytest.mark.parametrize(
        ("raw", "found"),
        [
            pytest.param(CHUNKED + b"2;a=b\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n", (200, b"{}"), id="extensions and trailers"),
            pytest.param(CHUNKED + b"2  \r\n{}\r\n0\r\n\r\n", (200, b"{}"), id="spaces after a chunk's size"),
            pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", (200, b"{}"), id="no carriage returns"),
            pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}", (200, b"{}"), id="100"),
            pytest.param(
                b"HTTP/1.1 103 Early\r\nContent-Length: 9\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
                (200, b"{}"),
                id="103 with a length",
            ),
            pytest.param(b"HTTP/1.0 200 OK\r\n\r\n{}", (200, b"{}"), id="HTTP/1.0"),
            pytest.param(OK + b"\r\n{}", (200, b"{}"), id="an end without a length"),
            pytest.param(OK + b"Transfer-Encoding: identity\r\n\r\n{}", (200, b"{}"), id="a coding that is none"),
            pytest.param(b"HTTP/1.1 204 None\r\n\r\n", (204, b""), id="204"),
            pytest.param(b"HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n", (304, b""), id="304 with a length"),
            pytest.param(b"HTTP/1.1 200\r\ncontent-LENGTH: 2\r\n\r\n\0\0", (200, b"\0\0"), id="no reason, NUL in the body"),
            pytest.param(b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}", (999, b"{}"), id="999"),
            pytest.param(
                OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%bjunk" % (len(PACKED) + 4, PACKED),
                (200, b"{}"),
                id="more after the packed body",
            ),
        ],
    )
    def test_what_stretches_the_protocol_is_read(self, raw: bytes, found: tuple[int, bytes]) -> None:
        response = self.reply(after_request(lambda connection: connection.raw(raw)))
        assert (response.status, response.body) == found
        assert response.header("x-trailer") is None

    def test_spaces_around_a_headers_value_are_not_part_of_it(self) -> None:
        raw = OK + b"Retry-After: \t7 \t \r\nContent-Length: 2\r\n\r\n{}"
        assert self.reply(after_request(lambda connection: connection.raw(raw))).header("retry-after") == "7"

    def test_of_a_header_that_comes_twice_the_first_counts(self) -> None:
        raw = OK + b"Retry-After: 7\r\nretry-after: 8\r\nContent-Length: 2\r\n\r\n{}"
        assert self.reply(after_request(lambda connection: connection.raw(raw))).header("retry-after") == "7"

    def test_a_head_that_is_cut_is_no_reply(self) -> None:
        error = self.failure(after_request(lambda connection: connection.raw(OK + b"Content-Le")))
        assert (error.reason, error.sent) == (Reason.CONNECTION, Sent.MAYBE)

    def test_a_chunk_of_a_terabyte_is_not_waited_for_in_memory(self) -> None:
        error = self.failure(after_request(lambda connection: connection.raw(CHUNKED + b"ffffffffff\r\n{}")))
        assert (error.reason, error.sent) == (Reason.SHORT_BODY, Sent.MAYBE)

    def test_a_head_that_drips_runs_into_the_total_limit(self) -> None:
        async def drip(connection: Connection) -> None:
            await connection.raw(OK)
            while not connection.writer.is_closing():
                await connection.raw(b"X-More: a\r\n")
                await asyncio.sleep(0.02)

        error = self.failure(after_request(drip), total_s=0.3)
        assert (error.reason, error.sent) == (Reason.TIMEOUT, Sent.MAYBE)

    @pytest.mark.parametrize("flood", [b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b"X-More: a\r\n"], ids=["of 103", "of headers"])
    def test_a_flood_before_the_reply_is_given_up(self, flood: bytes) -> None:
        async def reply(connection: Connection) -> None:
            if not flood.startswith(b"HTTP"):
                await connection.raw(OK)
            for _ in range(100):
                await connection.raw(flood * 1000)

        assert self.failure(after_request(reply)).sent is Sent.MAYBE

    def test_a_trailer_without_end_is_given_up(self) -> None:
        raw = CHUNKED + b"2\r\n{}\r\n0\r\nX-Large: " + b"a" * 3_000_000
        error = self.failure(after_request(lambda connection: connection.raw(raw)))
        assert (error.reason, error.sent) == (Reason.PROTOCOL, Sent.MAYBE)

    @pytest.mark.parametrize(
        "more", [b"more", b"\0" * 100, OK + b"Content-Length: 5\r\n\r\nwrong"], ids=["text", "NUL", "another reply"]
    )
    def test_what_follows_a_reply_is_nobodys_reply(self, more: bytes) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                while await connection.read():
                    await connection.raw(OK + b"Content-Length: %d\r\n\r\n%b%b" % (len(ANSWER), ANSWER, more))

            async with RawServer(serve) as server:
                for _ in range(3):
                    try:
                        assert (await post(transport, server.url)).body == ANSWER
                    except TransportError:
                        continue  # no reply at all is no wrong one
                assert [len(connection.requests) for connection in server.connections] == [1, 1, 1]

        self.run(scene)

    @pytest.mark.parametrize("head", [b"Connection: close\r\n", b"connection: Close\r\n"])
    def test_a_connection_that_is_said_to_close_is_not_used_again(self, head: bytes) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                while await connection.read():
                    await connection.reply(head=head)

            async with RawServer(serve) as server:
                for _ in range(3):
                    assert (await post(transport, server.url)).body == ANSWER
                assert [len(connection.requests) for connection in server.connections] == [1, 1, 1]

        self.run(scene)

    @pytest.mark.parametrize("closes", [False, True], ids=["and the rest is read", "and the rest is refused"])
    def test_a_reply_before_the_request_was_read_is_a_reply(self, closes: bool) -> None:
        if closes and not self.hears_while_it_sends:
            pytest.skip("this client reads no reply once it cannot send on")

        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                await connection.reader.readuntil(b"\r\n\r\n")
                await connection.reply(status=b"413 Too Large")
                if not closes:
                    await connection.ended()

            async with RawServer(serve) as server:
                response = await transport.request("POST", server.url, HEADERS, b"x" * 10_000_000, 10.0, None)
                assert response.status == 413

        self.run(scene)

    def test_a_request_that_nobody_reads_runs_into_the_total_limit(self) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: Connection) -> None:
                connection.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of the base class' type only
                await asyncio.sleep(10)

            async with RawServer(serve) as server:
                with pytest.raises(TransportError) as caught:
                    await transport.request("POST", server.url, HEADERS, b"x" * 20_000_000, 0.5, None)
                assert caught.value.reason is Reason.TIMEOUT

        self.run(scene)

    @pytest.mark.parametrize("size", [1, 4096])
    @pytest.mark.usefixtures("linear")
    def test_a_large_body_in_small_chunks_takes_time_in_proportion(self, size: int) -> None:
        count = 10_000_000 // size if size > 1 else 200_000
        raw = CHUNKED + b"%x\r\n%b\r\n" % (size, b"x" * size) * count + b"0\r\n\r\n"
        assert self.reply(after_request(lambda connection: connection.raw(raw))).body == b"x" * (size * count)

    def test_a_body_in_small_chunks_is_given_up_at_the_cap(self) -> None:
        raw = CHUNKED + b"1\r\nx\r\n" * 60_000 + b"0\r\n\r\n"
        error = self.failure(after_request(lambda connection: connection.raw(raw)), peer=Peer(limits=Limits(max_body=50_000)))
        assert (error.reason, error.sent) == (Reason.TOO_LARGE, Sent.MAYBE)

    def test_requests_in_flight_end_as_lost_when_the_transport_is_closed(self) -> None:
        async def scene(transport: Transport) -> None:
            here = asyncio.Event()

            async def hang(connection: Connection) -> None:
                here.set()
                await connection.ended()

            async with RawServer(after_request(hang)) as server:
                task = asyncio.get_running_loop().create_task(post(transport, server.url, 5.0))
                await asyncio.wait_for(here.wait(), 5)
                await transport.close()
                with pytest.raises(TransportError) as caught:
                    await task
                assert caught.value.sent is Sent.MAYBE

        self.run(scene)
