"""A transport, a raw server, and what one request between them comes to: what the transports' contracts are written in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.endpoints.transport import Peer, Response, Transport, TransportError
from headrace.testing.contracts.raw_server import RawServer, Serve

HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "gzip, deflate"}
BODY = b'{"model":"m"}'


async def post(transport: Transport, url: str, total_s: float = 10.0, key: str | None = None) -> Response:
    return await transport.request("POST", url, HEADERS, BODY, total_s, key)


class TransportScenes:
    """`open` builds the transport; `new_loop` the event loop that it is tried on.

    `aborts` says that a cancelled caller's request leaves its socket at once; one that serves no proxies refuses them.
    """

    aborts = True
    serves_proxies = True
    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)

    def open(self, peer: Peer) -> Transport:
        raise NotImplementedError

    def run(self, scene: Callable[[Transport], Coroutine[Any, Any, None]], peer: Peer | None = None) -> None:
        async def play() -> None:
            transport = self.open(peer or Peer())
            try:
                await scene(transport)
            finally:
                await transport.close()

        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(play())

    def failure(self, serve: Serve, *, total_s: float = 10.0, peer: Peer | None = None) -> TransportError:
        """What a request to this server raises."""
        found: list[TransportError] = []

        async def scene(transport: Transport) -> None:
            async with RawServer(serve) as server:
                with pytest.raises(TransportError) as caught:
                    await post(transport, server.url, total_s)
                found.append(caught.value)

        self.run(scene, peer)
        return found[0]

    def reply(self, serve: Serve, peer: Peer | None = None) -> Response:
        found: list[Response] = []

        async def scene(transport: Transport) -> None:
            async with RawServer(serve) as server:
                found.append(await post(transport, server.url))

        self.run(scene, peer)
        return found[0]
