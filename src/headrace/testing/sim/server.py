"""The simulated endpoint as a server: in a test's own loop, or as a process of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.errors import SpecError
from headrace.testing.sim.connection import Connection, Room
from headrace.testing.sim.options import SimOptions
from headrace.testing.sim.service import Service
from headrace.testing.sim.stats import Stats

BACKLOG = 4096


class SimServer:
    """A real HTTP server on this loop: `async with SimServer(options) as sim: sim.url, sim.stats`.

    `url` ends with /v1 and is known once entered; `stats` may be read at any time. Leaving aborts what is still open.
    Entering raises SpecError when the address cannot be opened.
    """

    def __init__(self, options: SimOptions | None = None) -> None:
        self.options = options or SimOptions()
        self.stats = Stats()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._service: Service | None = None
        self._room = Room()

    @property
    def url(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self.port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        options = self.options
        self._service = service = Service(options, self.stats, loop.time)
        try:
            self._server = await loop.create_server(
                lambda: Connection(service, self._room), options.host, options.port, backlog=BACKLOG
            )
        except OSError as error:
            text = f"{options.host} port {options.port} cannot be opened: {error.strerror or error}; choose another --port"
            raise SpecError(text, key="port") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        assert self._service is not None
        self._service.others.stop()
        await self._room.clear()
        await self._server.wait_closed()


def run_sim(options: SimOptions) -> None:
    """Serve until SIGTERM or Ctrl-C, then return. Prints `READY http://HOST:PORT/v1` once it listens.

    For the main thread of a process. Raises SpecError when the address cannot be opened.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options))


async def _serve(options: SimOptions) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with SimServer(options) as sim:
        sys.stdout.write(f"READY {sim.url}\n")
        sys.stdout.flush()
        await stop.wait()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - it is not everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop
