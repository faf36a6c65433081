"""Counts of this process for the live line and the samples. Reports count the ledger's records instead."""

from __future__ import annotations

from collections import deque

from headrace.values import Intaken, Outcome, State, Usage

RATE_SPAN_S = 60.0


class Tally:
    """Plain counters, updated on the event loop."""

    def __init__(self) -> None:
        self.by_state = {State.DONE: 0, State.FAILED: 0, State.QUARANTINED: 0}
        self.settled = 0
        self.rejected = 0
        self.retries = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._marks: deque[tuple[float, int]] = deque()

    def on_outcome(self, outcome: Outcome) -> None:
        if outcome.state in self.by_state:
            self.by_state[outcome.state] += 1
            self.settled += 1

    def on_done(self, usage: Usage | None) -> None:
        self.by_state[State.DONE] += 1
        self.settled += 1
        if usage is not None:
            self.on_usage(usage)

    def on_reopened(self) -> None:
        """A unit that had failed goes on with another endpoint."""
        self.by_state[State.FAILED] -= 1
        self.settled -= 1

    def on_intaken(self, intaken: Intaken) -> None:
        self.rejected += intaken.rejected
        for outcome in intaken.outcomes:
            self.on_outcome(outcome)

    def on_usage(self, usage: Usage | None) -> None:
        if usage is not None:
            self.prompt_tokens += usage.prompt or 0
            self.completion_tokens += usage.completion or 0

    def mark(self, now: float) -> None:
        """Remember where it stood, once a second."""
        self._marks.append((now, self.settled))
        while self._marks[0][0] < now - RATE_SPAN_S:
            self._marks.popleft()

    @property
    def seconds(self) -> int:
        """How many seconds have been marked, up to the last minute's."""
        return len(self._marks)

    def per_second(self, now: float, span_s: float = RATE_SPAN_S) -> float:
        """Units settled per second over the last minute (or what there is of it)."""
        for at, settled in self._marks:
            if at >= now - span_s:
                return (self.settled - settled) / (now - at) if now > at else 0.0
        return 0.0
