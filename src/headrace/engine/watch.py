"""Once a second: a sample for the ledger, a snapshot for the live line, the loop's own lag."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.engine.lane import Lane
from headrace.engine.stragglers import Stragglers
from headrace.events import Progress
from headrace.values import Sample, State

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine

EVERY_S = 1.0
PROGRESS_EVERY_S = 0.25
_GRAIN_S = 0.01  # a timer may come a little early


class Watch:
    """Reads the engine's state and changes nothing in it but what belongs to the samples."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._stragglers = Stragglers(engine)

    async def run(self) -> None:
        """Until cancelled. Measures how late it wakes: that is the event loop's own lag."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        worst = 0.0
        sample_at = due + EVERY_S
        while True:
            due += PROGRESS_EVERY_S
            self._engine.stalls.expect(due)
            await asyncio.sleep(max(0.0, due - loop.time()))
            now = self._engine.time()
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
        tally = engine.tally
        tally.mark(now)
        if tally.seconds > 1:
            engine.feed.rate = tally.per_second(now, 5.0)
        at = engine.wall_now()  # the same for all lanes: what stands at one time is added up
        for lane in engine.lanes.left:
            sample = Sample(
                at=at, endpoint=lane.number, window=lane.window.limit, in_flight=len(lane.in_flight),
                settled=lane.settled, retries=lane.retries, bound_by=self._bound_by(lane, now),
                paused=not lane.is_working(now), lag_s=lag_s, waiting=lane.gauges.waiting, kv_used=lane.gauges.kv_used,
            )  # fmt: skip
            lane.settled = lane.retries = 0
            engine.committer.batch.samples.append(sample)
        self._stragglers.look(now)
        engine.preflight.look()
        engine.committer.added()

    def _bound_by(self, lane: Lane, now: float) -> str | None:
        """What keeps this endpoint from being asked for more, now."""
        engine = self._engine
        if engine.is_stopping:
            return None
        if now < lane.pause.until:
            return "rate"
        if lane.breaker.is_down:
            return "endpoint"
        if lane.is_short:
            return "limit"
        if lane.is_full:
            window = lane.window
            is_told = lane.ceiling is not None and lane.ceiling.is_known
            is_written = len(lane.in_flight) >= window.limit == window.ceiling
            return "limit" if is_written and not is_told else "endpoint"
        if now < lane.rates.ready_at:
            return "rate"
        if engine.feed.has_ready and lane.purse is not None and lane.purse.has_refused:
            return "limit"  # what came back has made room for one, and one has gone
        return engine.feed.starved_by

    def _progress(self, now: float) -> Progress:
        engine = self._engine
        tally, lanes = engine.tally, engine.lanes.left
        in_flight = [started for lane in engine.lanes.all for started in islice(lane.in_flight.values(), 1)]
        widest = max(lanes, key=lambda lane: lane.window.limit, default=None)
        paused_for, why = self._stands_still(lanes, now)
        return Progress(
            total=engine.feed.total + tally.rejected, done=tally.by_state[State.DONE] + engine.settled_before,
            failed=tally.by_state[State.FAILED], quarantined=tally.by_state[State.QUARANTINED], rejected=tally.rejected,
            reading=not engine.feed.read_done, in_flight=engine.lanes.in_flight, window=engine.lanes.limit,
            retries=tally.retries, prompt_tokens=tally.prompt_tokens, completion_tokens=tally.completion_tokens,
            units_per_second=tally.per_second(now), oldest_in_flight_s=now - min(in_flight, default=now),
            waiting=engine.feed.waiting, bound_by=None if widest is None else self._bound_by(widest, now),
            paused_for_s=paused_for, paused_why=why, **self._spent(),
        )  # fmt: skip

    def _spent(self) -> dict[str, Any]:
        """The money so far, where what everybody asks for is known."""
        budget, lanes = self._engine.budget, self._engine.lanes.all
        if budget is None or not all(lane.purse is not None and lane.purse.has_prices for lane in lanes):
            return {}
        return {"spent": budget.cost, "spent_is_all": not budget.unknown}

    @staticmethod
    def _stands_still(lanes: Sequence[Lane], now: float) -> tuple[float | None, str | None]:
        """For how long, and why, where no endpoint is asked at the moment."""
        if not lanes or any(lane.is_working(now) for lane in lanes):
            return None, None
        ends = [
            (lane.pause.until - now, lane.pause.why) if now < lane.pause.until
            else (max(0.0, lane.breaker.probe_at - now), lane.breaker.why)
            for lane in lanes
        ]  # fmt: skip
        return min(ends)
