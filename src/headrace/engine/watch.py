"""Once a second: a sample for the ledger, a snapshot for the live line, the loop's own lag."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.events import Progress
from headrace.values import Sample, State

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine

EVERY_S = 1.0
PROGRESS_EVERY_S = 0.25
_GRAIN_S = 0.01  # a timer may come a little early


class Watch:
    """Reads the engine's state and changes nothing in it but the sampled rate."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._settled = 0
        self._retries = 0

    async def run(self) -> None:
        """Until cancelled. Measures how late it wakes: that is the event loop's own lag."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        worst = 0.0
        sample_at = due + EVERY_S
        while True:
            due += PROGRESS_EVERY_S
            await asyncio.sleep(max(0.0, due - loop.time()))
            now = loop.time()
            worst = max(worst, now - due)
            due = max(due, now - PROGRESS_EVERY_S)
            self._engine.tell(self._progress(now))
            if now >= sample_at - _GRAIN_S:
                self._sample(now, worst)
                worst = 0.0
                sample_at = max(sample_at, now - EVERY_S) + EVERY_S

    def tell_progress(self) -> None:
        """A last snapshot, so that the last line is the whole count."""
        self._engine.tell(self._progress(asyncio.get_running_loop().time()))

    def _sample(self, now: float, lag_s: float) -> None:
        engine = self._engine
        tally, lane = engine.tally, engine.lane
        tally.mark(now)
        if tally.seconds > 1:
            engine.feed.rate = tally.per_second(now, 5.0)
        sample = Sample(
            at=engine.wall_now(), endpoint=lane.number, window=lane.window.limit, in_flight=len(lane.in_flight),
            settled=tally.settled - self._settled, retries=tally.retries - self._retries, bound_by=self._bound_by(now),
            paused=now < lane.pause.until or lane.breaker.is_down, lag_s=lag_s,
        )  # fmt: skip
        self._settled, self._retries = tally.settled, tally.retries
        engine.committer.batch.samples.append(sample)
        engine.committer.added()

    def _bound_by(self, now: float) -> str | None:
        """What keeps the run from going faster, now."""
        engine = self._engine
        lane = engine.lane
        if engine.is_stopping:
            return None
        if now < lane.pause.until:
            return "rate"
        if lane.breaker.is_down:
            return "endpoint"
        if len(lane.in_flight) >= lane.window.limit:
            return "limit" if lane.window.limit == lane.window.ceiling else "endpoint"
        if now < lane.rates.ready_at:
            return "rate"
        return engine.feed.starved_by

    def _progress(self, now: float) -> Progress:
        engine = self._engine
        tally, lane = engine.tally, engine.lane
        oldest = next(iter(lane.in_flight.values()), now)
        paused_for, why = None, None
        if now < lane.pause.until:
            paused_for, why = lane.pause.until - now, lane.pause.why
        elif lane.breaker.is_down:
            paused_for, why = max(0.0, lane.breaker.probe_at - now), lane.breaker.why
        return Progress(
            total=engine.feed.total + tally.rejected, done=tally.by_state[State.DONE] + engine.settled_before,
            failed=tally.by_state[State.FAILED], quarantined=tally.by_state[State.QUARANTINED], rejected=tally.rejected,
            reading=not engine.feed.read_done, in_flight=len(lane.in_flight), window=lane.window.limit,
            retries=tally.retries, prompt_tokens=tally.prompt_tokens, completion_tokens=tally.completion_tokens,
            units_per_second=tally.per_second(now), oldest_in_flight_s=now - oldest, waiting=engine.feed.waiting,
            bound_by=self._bound_by(now), paused_for_s=paused_for, paused_why=why,
        )  # fmt: skip
