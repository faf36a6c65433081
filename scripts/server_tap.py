"""A tap between an HTTP client and a server: bytes pass through, requests and refusals are counted from the outside."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path
from typing import Self


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Tap:
    """Passes bytes through on a port of its own. Counts POSTs and statuses, and keeps each reply that is no 200."""

    def __init__(self, server_port: int, refusals: Path) -> None:
        self._server_port = server_port
        self._refusals = refusals
        self._scenario = ""
        self._listener: asyncio.Server | None = None
        self.port = 0
        self.reset("")

    def reset(self, scenario: str) -> None:
        self._scenario = scenario
        self.posts = 0
        self.statuses: Counter[int] = Counter()
        self.bodies: Counter[int] = Counter()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._requests(reader, server_writer))
                tasks.create_task(self._replies(server_reader, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one side went away: that is what is being tried
        finally:
            writer.transport.abort()
            server_writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head) or 0)
            if head.startswith(b"POST "):
                self.posts += 1
                self.bodies[hash(body)] += 1
            writer.write(head + body)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            length = _length(head)
            body = await (_chunks(reader) if length is None else reader.readexactly(length))
            status = int(head.split(None, 2)[1])
            self.statuses[status] += 1
            if status != 200:
                self._keep(head, body)
            writer.write(body)
            await writer.drain()

    def _keep(self, head: bytes, body: bytes) -> None:
        kept = {"scenario": self._scenario, "head": head.decode("latin-1"), "body": body[:4000].decode("utf-8", "replace")}
        with self._refusals.open("a") as file:
            file.write(json.dumps(kept) + "\n")


def _length(head: bytes) -> int | None:
    """The Content-Length of a head, None where there is none."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body as it travels."""
    parts = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]
        if size == 0:
            return b"".join(parts)
