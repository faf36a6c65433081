"""The endpoint over real sockets, with each transport."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.errors import SpecError
from headrace.testing.contracts.endpoint import ANSWER, job, request
from headrace.testing.contracts.raw_server import Connection, RawServer, Serve, after_request, keep_replying, unused_port
from headrace.values import Failure, Kind, Reply, Sent

TLS = Path(__file__).parent / "data" / "tls"
KEY = "SECRET-TEST-123"
PAGE = b"<html>Authorization: Bearer SECRET-TEST-123</html>"

pytestmark = pytest.mark.parametrize("transport", ["plain", "pyreqwest", "aiohttp"])


def play(
    serve: Serve,
    transport: str,
    scene: Callable[[HttpEndpoint, RawServer], Awaitable[None]],
    *,
    base: Path = Path(),
    environ: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    **endpoint: Any,
) -> None:
    async def run() -> None:
        async with RawServer(serve, ssl=context) as server:
            scheme = "http" if context is None else "https"
            spec = job(**{"url": f"{scheme}://127.0.0.1:{server.port}/v1", **endpoint})
            opened = open_endpoint(spec, 0, base=base, environ={"HEADRACE_TRANSPORT": transport, **(environ or {})})
            try:
                await scene(opened, server)
            finally:
                await opened.close()

    asyncio.run(run())


def one(serve: Serve, transport: str, **options: Any) -> Reply | Failure:
    found: list[Reply | Failure] = []
    timeout_s = options.pop("timeout_s", 10.0)

    async def scene(endpoint: HttpEndpoint, _: RawServer) -> None:
        found.append(await endpoint.send(request(timeout_s=timeout_s)))

    play(serve, transport, scene, **options)
    return found[0]


def test_a_reply_comes_back(transport: str) -> None:
    assert one(keep_replying(body=ANSWER), transport) == Reply("yes", "stop")


def test_rtl_03_a_server_that_always_fails_sees_one_post_per_send(transport: str) -> None:
    async def scene(endpoint: HttpEndpoint, server: RawServer) -> None:
        for _ in range(3):
            found = await endpoint.send(request())
            assert isinstance(found, Failure)
            assert found.kind is Kind.SERVER_ERROR
        assert sum(len(connection.requests) for connection in server.connections) == 3

    play(keep_replying(status=b"500 Oops"), transport, scene)


def test_rtl_09_a_reply_that_was_lost_is_ambiguous_and_the_key_stays(transport: str) -> None:
    async def serve(connection: Connection) -> None:
        await connection.read()
        if len(connections) > 0:
            await connection.reply(ANSWER)
        connections.append(connection)

    connections: list[Connection] = []

    async def scene(endpoint: HttpEndpoint, _: RawServer) -> None:
        first, second = await endpoint.send(request()), await endpoint.send(request())
        assert isinstance(first, Failure)
        assert (first.kind, first.sent) == (Kind.CONNECTION, Sent.MAYBE)
        assert isinstance(second, Reply)
        keys = [
            line
            for connection in connections
            for line in connection.requests[0].split(b"\r\n")
            if line.startswith(b"idempotency-key")
        ]
        assert keys == [b"idempotency-key: run-1-0"] * 2

    play(serve, transport, scene)


def test_net_03_a_body_that_is_cut_is_no_reply(transport: str) -> None:
    part = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + ANSWER
    found = one(after_request(lambda connection: connection.raw(part)), transport)
    assert isinstance(found, Failure)
    assert (found.kind, found.sent) == (Kind.CONNECTION, Sent.MAYBE)


def test_net_01_a_request_that_hangs_ends_as_timeout(transport: str) -> None:
    found = one(after_request(Connection.ended), transport, timeout_s=0.2)
    assert isinstance(found, Failure)
    assert (found.kind, found.sent) == (Kind.TIMEOUT, Sent.MAYBE)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("inf"), float("nan")])
def test_net_02_no_value_switches_the_limits_off_or_fails_a_request(transport: str, timeout_s: float) -> None:
    assert isinstance(one(keep_replying(body=ANSWER), transport, timeout_s=timeout_s), Reply)


def test_net_07_a_stream_that_nobody_asked_for_is_read(transport: str) -> None:
    body = b'data: {"choices":[{"delta":{"content":"ye"}}]}\n\ndata: {"choices":[{"delta":{"content":"s"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    assert one(keep_replying(body=body, head=b"Content-Type: text/event-stream\r\n"), transport) == Reply("yes", "stop")


def test_net_09_a_foreign_encoding_is_answered_with_identity(transport: str) -> None:
    async def serve(connection: Connection) -> None:
        while await connection.read():
            if b"accept-encoding: identity" in connection.requests[-1]:
                await connection.reply(ANSWER)
            else:
                await connection.reply(b"(\xb5/\xfd", b"Content-Encoding: zstd\r\n")

    async def scene(endpoint: HttpEndpoint, _: RawServer) -> None:
        first, second = await endpoint.send(request()), await endpoint.send(request())
        assert isinstance(first, Failure)
        assert (first.kind, first.mended) == (Kind.PROTOCOL, True)
        assert isinstance(second, Reply)

    play(serve, transport, scene)


def test_a_refused_connection_says_so(transport: str) -> None:
    found = one(keep_replying(), transport, url=f"http://127.0.0.1:{unused_port()}/v1")
    assert isinstance(found, Failure)
    assert (found.kind, found.sent, found.refused) == (Kind.CONNECTION, Sent.NO, True)


def test_a_refused_certificate_is_a_wrong_address(transport: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "localhost.pem", TLS / "localhost.key")
    if transport == "plain":
        with pytest.raises(SpecError, match="plain"):
            one(keep_replying(body=ANSWER), transport, context=context)
        return
    found = one(keep_replying(body=ANSWER), transport, context=context)
    assert isinstance(found, Failure)
    assert (found.kind, found.sent) == (Kind.BAD_ENDPOINT, Sent.NO)
    assert isinstance(one(keep_replying(body=ANSWER), transport, context=context, base=TLS, verify="ca.pem"), Reply)


@pytest.mark.parametrize(
    "serve",
    [
        keep_replying(status=b"401 No", body=PAGE),
        keep_replying(status=b"500 Oops", body=PAGE),
        keep_replying(body=PAGE),
        after_request(Connection.ended),
        after_request(Connection.reset),
        after_request(lambda connection: connection.raw(b"SSH-2.0 " + connection.requests[0])),
    ],
    ids=["401", "500", "200", "timeout", "reset", "junk"],
)
def test_obs_01_no_failure_shows_the_key(transport: str, serve: Serve) -> None:
    environ = {"K": KEY}
    server_url = {"api_key_env": "K", "headers": {"X-Other": KEY}}
    found = one(serve, transport, environ=environ, timeout_s=0.3, **server_url)
    assert isinstance(found, Failure)
    assert "secret" not in repr(found).lower()


def test_obs_01_a_name_that_does_not_resolve_is_a_wrong_address_and_shows_no_key(transport: str) -> None:
    found = one(keep_replying(), transport, url=f"http://user:{KEY}@nowhere.invalid/v1?key={KEY}")
    assert isinstance(found, Failure)
    assert (found.kind, found.sent) == (Kind.BAD_ENDPOINT, Sent.NO)
    assert "nowhere.invalid" in found.message
    assert "secret" not in repr(found).lower()


def test_a_key_file_is_read_again_after_a_401(transport: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("old-key\n")

    async def serve(connection: Connection) -> None:
        while await connection.read():
            good = b"authorization: bearer new-key" in connection.requests[-1]
            await (connection.reply(ANSWER) if good else connection.reply(b"", status=b"401 No"))

    async def scene(endpoint: HttpEndpoint, _: RawServer) -> None:
        (tmp_path / "key").write_text("new-key\n")
        first, second = await endpoint.send(request()), await endpoint.send(request())
        assert isinstance(first, Failure)
        assert first.mended
        assert isinstance(second, Reply)

    play(serve, transport, scene, base=tmp_path, api_key_file="key")


@pytest.mark.parametrize("listed", [True, False])
def test_a_key_command_runs_in_the_job_files_folder(transport: str, tmp_path: Path, listed: bool) -> None:
    (tmp_path / "key").write_text("from-a-command\n")
    command = [sys.executable, "-c", "print(open('key').read())"] if listed else "cat key"

    async def scene(endpoint: HttpEndpoint, server: RawServer) -> None:
        await endpoint.send(request())
        assert b"authorization: bearer from-a-command\r\n" in server.connections[0].requests[0]

    play(keep_replying(body=ANSWER), transport, scene, base=tmp_path, environ={"PATH": "/usr/bin:/bin"}, api_key_command=command)


@pytest.mark.parametrize(
    "command", [f"echo {KEY}; echo {KEY} >&2; exit 3", ["no-such-command-here", KEY], "true", f"printf '{KEY}\\nx'"]
)
def test_a_key_command_that_fails_shows_none_of_its_output(transport: str, tmp_path: Path, command: str | list[str]) -> None:
    with pytest.raises(SpecError, match="api_key_command") as caught:
        open_endpoint(
            job(api_key_command=command), 0, base=tmp_path, environ={"PATH": "/usr/bin:/bin", "HEADRACE_TRANSPORT": transport}
        )
    assert KEY not in str(caught.value)


def test_a_transport_that_does_not_exist_is_refused(transport: str) -> None:
    with pytest.raises(SpecError, match="transport"):
        open_endpoint(job(), 0, base=Path(), environ={"HEADRACE_TRANSPORT": f"{transport}2"})
