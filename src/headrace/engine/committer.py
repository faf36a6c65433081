"""When to commit: a pure batcher around the ledger's blocking calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.engine.offload import Offload
from headrace.errors import LedgerError
from headrace.protocols import Batch, Ledger

COMMIT_EVERY_S = 0.05
COMMIT_AT_OUTCOMES = 500


class Committer:
    """Collects facts and commits them every 50 ms, at 500 outcomes, or when hurried; one commit at a time.

    The rows are written by short work, which the first of `offloads` may do on the loop: in a thread, each statement would hand
    the interpreter's lock back and forth. Waiting for the disk is left to the second.

    `on_landed` is called after each commit with what has become durable; `then` callbacks of that batch run first.
    After a failed write `on_broken` is called once, and nothing is written until `finish` has the same batch tried once more.
    """

    def __init__(
        self,
        ledger: Ledger,
        offloads: tuple[Offload, Offload],
        on_landed: Callable[[Batch], None],
        on_broken: Callable[[LedgerError], None],
    ) -> None:
        self.batch = Batch()
        self.broken: LedgerError | None = None
        self._ledger = ledger
        self._short, self._offload = offloads
        self._on_landed = on_landed
        self._on_broken = on_broken
        self._then: list[Callable[[], None]] = []
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._failed: tuple[Batch, list[Callable[[], None]]] | None = None
        self._finishing = False
        self.committing = False

    @property
    def idle(self) -> bool:
        """True when everything that was added is durable."""
        return not self.batch and not self.committing and self._failed is None

    def added(self) -> None:
        """Something was put into `batch`."""
        if len(self.batch.outcomes) >= COMMIT_AT_OUTCOMES:
            self._due.set()
        elif self._timer is None and not self._due.is_set():
            self._timer = asyncio.get_running_loop().call_later(COMMIT_EVERY_S, self._due.set)

    def then(self, callback: Callable[[], None]) -> None:
        """Call back once what is in the batch now is durable."""
        self._then.append(callback)

    def hurry(self) -> None:
        self._due.set()

    async def run(self) -> None:
        """Commit until `finish`; then write what is left, a batch that failed before first. `broken` says how it ended."""
        while not self._finishing:
            await self._due.wait()
            self._due.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self.batch and self.broken is None:
                await self._commit(self._take())
        if self._failed is not None:
            failed, self._failed, self.broken = self._failed, None, None
            await self._commit(failed)
        if self.batch and self.broken is None:
            await self._commit(self._take())

    def finish(self) -> None:
        """Let `run` write what is left and return."""
        self._finishing = True
        self._due.set()

    def _take(self) -> tuple[Batch, list[Callable[[], None]]]:
        taken = (self.batch, self._then)
        self.batch, self._then = Batch(), []
        return taken

    async def _commit(self, taken: tuple[Batch, list[Callable[[], None]]]) -> None:
        batch, then = taken
        self.committing = True
        try:
            await self._short(lambda: self._ledger.prepare(batch))
            await self._offload(self._ledger.finish)
        except LedgerError as error:
            self.broken = error
            self._failed = taken
            self._on_broken(error)
            return
        finally:
            self.committing = False
        for callback in then:
            callback()
        self._on_landed(batch)
