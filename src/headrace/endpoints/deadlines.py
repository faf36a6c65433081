"""How long things may take, on a clock that stands still while the event loop is kept busy by other things."""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

_BEAT_S = 0.05
# After a beat that came so late, a reply may be waiting unread, or a request unsent: nobody is given up before the next.
_LATE_S = 0.05


class Limited(Protocol):
    """What has a limit. `due` is on the clock of its Deadlines and may change at any time."""

    due: float

    def on_due(self, now: float) -> None:
        """The limit has passed: end, or set another `due`."""
        ...


class Deadlines:
    """A heart that beats 20 times a second while it has something to watch, and tells what is due.

    How late it beats is how long the loop was kept by other things; no limit counts that. One heart for all costs a request
    nothing, where a timer of its own would cost it a microsecond.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lag_s = 0.0  # how long the loop was busy, in all
        self._beat_at = math.inf
        self._beat: asyncio.TimerHandle | None = None
        self._watched: dict[Limited, None] = {}

    def now(self) -> float:
        return min(self._loop.time(), self._beat_at) - self._lag_s

    def watch(self, limited: Limited) -> None:
        """Until `forget`."""
        self._watched[limited] = None
        if self._beat is None:
            self._arm()

    def forget(self, limited: Limited) -> None:
        self._watched.pop(limited, None)
        if not self._watched and self._beat is not None:
            self._beat.cancel()
            self._beat, self._beat_at = None, math.inf

    def limit(self, seconds: float) -> Limit:
        """Cancels the body of an `async with` when it takes longer, and raises TimeoutError."""
        return Limit(self, self.now() + seconds)

    def _arm(self) -> None:
        self._beat_at = self._loop.time() + _BEAT_S
        self._beat = self._loop.call_at(self._beat_at, self._on_beat)

    def _on_beat(self) -> None:
        late_s = max(0.0, self._loop.time() - self._beat_at)
        self._lag_s += late_s
        self._arm()
        if late_s > _LATE_S:
            return
        now = self.now()
        for limited in [limited for limited in self._watched if limited.due <= now]:
            if limited in self._watched:
                limited.on_due(now)


class Limit:
    """See `Deadlines.limit`. Used once."""

    def __init__(self, deadlines: Deadlines, due: float) -> None:
        self.due = due
        self._deadlines = deadlines
        self._fired = False

    def on_due(self, _now: float) -> None:
        self.due = math.inf
        self._fired = True
        self._task.cancel()

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._deadlines.watch(self)

    async def __aexit__(self, kind: type[BaseException] | None, _error: BaseException | None, _trace: object) -> None:
        self._deadlines.forget(self)
        if self._fired and self._task.uncancel() <= 0 and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError
