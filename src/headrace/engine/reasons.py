"""Why a run stops early: what a failure, the end of the input and the passing of time say about the endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.engine.lane import REFUSED_FOR_S
from headrace.engine.settling import Settled
from headrace.engine.work import Work
from headrace.events import EndpointPaused
from headrace.values import Failure

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine

_GRAIN_S = 0.001  # times are compared to this: sums of floats may fall short of their limit by less than a clock can tick


class Reasons:
    """Reads the engine's state and tells it to stop. How it stops is the engine's own."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._paused_until_told = 0.0

    def on_failure(self, work: Work, failure: Failure, settled: Settled, now: float) -> None:
        engine = self._engine
        lane = engine.lane
        name = lane.endpoint.name
        if settled.stop is not None:
            engine.stop(settled.stop.value, failure.message if name in failure.message else f"{name}: {failure.message}", 4)
            return
        if engine.is_stopping:
            if lane.wrong.on_failure(work.seq, failure, None):
                self._reopen([work.seq])
            return
        if not failure.mended and lane.wrong.on_failure(work.seq, failure, self._asked if engine.feed.read_done else None):
            self._misconfigured(failure.message)
            return
        if failure.wait_s is not None and failure.wait_s > engine.knobs.give_up_after_s:
            engine.stop(
                "endpoint_down", f"{name} asks for a wait of {failure.wait_s:.0f} s: {_without(name, failure.message)}", 4
            )
        self.on_time(now)
        self._tell_pause(now)

    def on_input_read(self) -> None:
        """The job's size is known: a small job may have failed alike as a whole."""
        if self._engine.lane.wrong.on_input_read(self._asked):
            self._misconfigured("see `headrace failures`")

    def on_time(self, now: float) -> None:
        """Give up an endpoint that has refused connections or been down for too long."""
        lane, limit = self._engine.lane, self._engine.knobs.give_up_after_s - _GRAIN_S
        name, why = lane.endpoint.name, lane.breaker.why or lane.pause.why or lane.overload_why
        if lane.refused_for_s(now) >= min(REFUSED_FOR_S - _GRAIN_S, limit):
            words = f"{name} has refused connections for {lane.refused_for_s(now):.0f} s: nobody listens there"
            self._engine.stop("bad_endpoint", words, 4)
        elif lane.down_for_s(now) >= limit:
            words = f"{name} has been down for {lane.down_for_s(now):.0f} s: {_without(name, why)}"
            self._engine.stop("endpoint_down", words, 4)

    def patience_s(self, now: float) -> float:
        """Seconds until it is time to give up."""
        lane, limit = self._engine.lane, self._engine.knobs.give_up_after_s
        left = limit - lane.down_for_s(now)
        if lane.refused_since is not None:
            left = min(left, min(REFUSED_FOR_S, limit) - lane.refused_for_s(now))
        return max(_GRAIN_S, left)

    def _tell_pause(self, now: float) -> None:
        """Said once for each end that a pause gets, and not of a run that stops."""
        lane = self._engine.lane
        if not self._engine.is_stopping and now < lane.pause.until and lane.pause.until > self._paused_until_told:
            self._paused_until_told = lane.pause.until
            self._engine.tell(EndpointPaused(lane.endpoint.name, lane.pause.until - now, lane.pause.why))

    @property
    def _asked(self) -> int:
        """Units of this process: those that were open when it began, and what it has read."""
        return self._engine.feed.total - self._engine.settled_before

    def _misconfigured(self, why: str) -> None:
        lane = self._engine.lane
        suspects = lane.wrong.suspects
        self._reopen(suspects)
        name = lane.endpoint.name
        words = f"{name}: the first {len(suspects)} requests failed alike: {_without(name, why)}"
        self._engine.stop("misconfigured", words, 4)

    def _reopen(self, units: Sequence[int]) -> None:
        """Units that failed only because the configuration is wrong go back to pending."""
        self._engine.committer.batch.reopened.extend(units)
        self._engine.committer.added()


def _without(name: str, message: str) -> str:
    """A message without the endpoint's name before it, for a line that has named it."""
    return message.removeprefix(f"{name}: ")
