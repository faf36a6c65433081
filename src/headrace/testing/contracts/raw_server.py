"""A loopback server that does with each connection whatever a test wants, well-formed or not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Self

ANSWER = b'{"choices":[]}'


class Connection:
    """One accepted connection. `requests` are the heads that were read, lower-case."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.requests: list[bytes] = []

    async def read(self) -> bool:
        """Read one whole request; False at the connection's end."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b":0")
            await self.reader.readexactly(int(length.partition(b":")[2]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        self.requests.append(head)
        return True

    async def reply(self, body: bytes = ANSWER, head: bytes = b"", status: bytes = b"200 OK") -> None:
        await self.raw(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), head, body))

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    def reset(self) -> None:
        """Close with RST, as a crashed process or a full accept queue does."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def ended(self) -> None:
        """Return when the client has let go of the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass


Serve = Callable[[Connection], Awaitable[None]]


class RawServer:
    """Runs `serve` once per connection and remembers every connection. Use as `async with`."""

    def __init__(self, serve: Serve, **options: Any) -> None:
        self._serve = serve
        self._options = options
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.connections: list[Connection] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024, **self._options)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for _round in range(3):  # the loop closes the sockets in its next rounds
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.get_running_loop().create_task(self._handle(Connection(reader, writer))))

    async def _handle(self, connection: Connection) -> None:
        self.connections.append(connection)
        try:
            await self._serve(connection)
        finally:
            connection.writer.close()


def keep_replying(**reply: Any) -> Serve:
    """Answer every request alike, on as many connections as come."""

    async def serve(connection: Connection) -> None:
        while await connection.read():
            await connection.reply(**reply)

    return serve


def after_request(then: Callable[[Connection], Awaitable[None] | None]) -> Serve:
    """Read one request, then do what `then` does, then close."""

    async def serve(connection: Connection) -> None:
        if await connection.read():
            done = then(connection)
            if done is not None:
                await done

    return serve


def unused_port() -> int:
    """A loopback port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
