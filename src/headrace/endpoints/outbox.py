"""Requests that are written together, in the event loop's next round."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Writer(Protocol):
    def write_out(self) -> None:
        """Write what waits to be written, if anything still does. Raises nothing."""
        ...


class Outbox:
    """What is put here within one round of the event loop is written in the next, one after the other.

    A server that sleeps is woken by the first of them and finds the others while it is awake. Written as each comes up, every
    one would wake it anew, and that costs the writer more than writing.
    """

    def __init__(self) -> None:
        self._waiting: list[Writer] = []

    def put(self, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            loop.call_soon(self._write_out)
        self._waiting.append(writer)

    def _write_out(self) -> None:
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer.write_out()
