"""Why a run stops early, or does without an endpoint: what a failure, the end of the input and the passing of time say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.engine.lane import REFUSED_FOR_S, Lane
from headrace.engine.settling import Sending, Settled
from headrace.engine.work import Work
from headrace.events import EndpointGone, EndpointPaused
from headrace.values import Failure, Kind, Sent, State

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine

_GRAIN_S = 0.001  # times are compared to this: sums of floats may fall short of their limit by less than a clock can tick


class Reasons:
    """Reads the engine's state and tells it to stop, or to go on with the other endpoints. How it does is the engine's own."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine

    def on_useless(self, lane: Lane, kind: Kind, message: str) -> None:
        """The endpoint, or what is asked of it, is wrong: it is not asked any more."""
        name = lane.endpoint.name
        self._lose(lane, kind.value, message if name in message else f"{name}: {message}")

    def on_failure(self, work: Work, failure: Failure, settled: Settled, sending: Sending) -> None:
        engine, lane, now = self._engine, sending.lane, sending.ended
        if settled.stop is not None:
            self.on_useless(lane, settled.stop, failure.message)
            return
        if not failure.mended and self._is_proof(lane, work, failure, settled):
            if engine.is_stopping:
                self._reopen(lane, [work.seq] if work.seq in lane.wrong.suspects else [])
            else:
                self._misconfigured(lane, failure.message)
            return
        if engine.is_stopping:
            return
        if failure.wait_s is not None and failure.wait_s > engine.knobs.give_up_after_s:
            name = lane.endpoint.name
            words = f"{name} asks for a wait of {failure.wait_s:.0f} s: {_without(name, failure.message)}"
            self._lose(lane, "endpoint_down", words)
        self.on_time(now)
        self._tell_pause(lane, now)

    def _is_proof(self, lane: Lane, work: Work, failure: Failure, settled: Settled) -> bool:
        """Whether this failure completes the proof that the configuration is wrong, or comes after it."""
        engine = self._engine
        total = self._asked if engine.feed.read_done and not engine.is_stopping else None
        is_proven = lane.wrong.on_failure(work.seq, failure, total)
        if settled.outcome.state is State.FAILED:
            if failure.sent is Sent.MAYBE and not engine.knobs.retry_ambiguous:
                lane.wrong.forget(work.seq)  # it may have been billed: whatever turns out to be wrong, it is not sent again
            elif not lane.succeeded and engine.lanes.has_others(lane):
                lane.suspects[work.seq] = work
        return is_proven

    def on_input_read(self) -> None:
        """The job's size is known: a small job may have failed alike as a whole."""
        for lane in self._engine.lanes.left:
            if lane.wrong.on_input_read(self._asked):
                self._misconfigured(lane, "see `headrace failures`")

    def on_budget(self) -> None:
        """Nothing is in flight, and nobody may send: stop where the budget is what the next unit lacks with all who answer."""
        engine = self._engine
        short = next((lane.purse for lane in engine.lanes.left if lane.purse is not None and lane.is_short), None)
        if short is None:
            return
        name, size, words = short.refusal
        others = [lane for lane in engine.lanes.left if not lane.is_short and not lane.breaker.is_down]
        if not any(lane.purse is not None and lane.purse.takes(size) for lane in others):
            engine.stop(name, words, 5)

    def on_time(self, now: float) -> None:
        """Give up when each endpoint that is left has refused connections or been down for too long."""
        found = [self._given_up(lane, now) for lane in self._engine.lanes.left]
        if found and all(found):
            reason, words = found[0] or ("", "")
            self._engine.stop(reason, words, 4)

    def _given_up(self, lane: Lane, now: float) -> tuple[str, str] | None:
        limit = self._engine.knobs.give_up_after_s - _GRAIN_S
        name, why = lane.endpoint.name, lane.breaker.why or lane.pause.why or lane.overload_why
        if lane.refused_for_s(now) >= min(REFUSED_FOR_S - _GRAIN_S, limit):
            return "bad_endpoint", f"{name} has refused connections for {lane.refused_for_s(now):.0f} s: nobody listens there"
        if lane.down_for_s(now) >= limit:
            return "endpoint_down", f"{name} has been down for {lane.down_for_s(now):.0f} s: {_without(name, why)}"
        return None

    def patience_s(self, now: float) -> float:
        """Seconds until it is time to give up, should nothing change."""
        return max(_GRAIN_S, *(self._patience_s(lane, now) for lane in self._engine.lanes.left))

    def _patience_s(self, lane: Lane, now: float) -> float:
        limit = self._engine.knobs.give_up_after_s
        left = limit - lane.down_for_s(now)
        if lane.refused_since is not None:
            left = min(left, min(REFUSED_FOR_S, limit) - lane.refused_for_s(now))
        return left

    def _tell_pause(self, lane: Lane, now: float) -> None:
        """Said once for each end that a pause gets, and not of a run that stops."""
        if not self._engine.is_stopping and now < lane.pause.until and lane.pause.until > lane.pause_told:
            lane.pause_told = lane.pause.until
            self._engine.tell(EndpointPaused(lane.endpoint.name, lane.pause.until - now, lane.pause.why))

    @property
    def _asked(self) -> int:
        """Units of this process: those that were open when it began, and what it has read."""
        return self._engine.feed.total - self._engine.settled_before

    def _misconfigured(self, lane: Lane, why: str) -> None:
        suspects = lane.wrong.suspects
        name = lane.endpoint.name
        words = f"{name}: the first {len(suspects)} requests failed alike: {_without(name, why)}"
        if self._engine.lanes.has_others(lane):
            suspects = [seq for seq in suspects if seq in lane.suspects]  # the others of them still go on
        self._reopen(lane, suspects)
        self._lose(lane, "misconfigured", words)

    def _lose(self, lane: Lane, reason: str, words: str) -> None:
        """The run goes on with the other endpoints, and stops when none is left."""
        engine = self._engine
        if lane.gone is None:
            if not engine.lanes.has_others(lane):
                engine.stop(reason, words, 4)
                return
            lane.gone = words
            engine.on_window(lane)
            engine.tell(EndpointGone(lane.endpoint.name, words, len(engine.lanes.left)))

    def _reopen(self, lane: Lane, units: Sequence[int]) -> None:
        """Units that failed only because the configuration is wrong go back to pending; another endpoint takes them."""
        engine = self._engine
        engine.committer.batch.reopened.extend(units)
        engine.committer.added()
        for seq in units:
            work = lane.suspects.pop(seq, None)
            if work is not None and not engine.is_stopping:
                engine.tally.on_reopened()
                engine.feed.reopen(work)
            lane.wrong.forget(seq)


def _without(name: str, message: str) -> str:
    """A message without the endpoint's name before it, for a line that has named it."""
    return message.removeprefix(f"{name}: ")
