"""Once a second: which request has been in flight the longest, for `headrace status`, and a word where that is far too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.events import Warned

if TYPE_CHECKING:
    from headrace.engine.lane import Lane
    from headrace.engine.live import LiveEngine

IN_FLIGHT = "in_flight"  # the fact in the ledger
TIMES = 5.0
LEAST_S = 60.0
USUAL_SHARE = 0.95
LEAST_REPLIES = 20


class Stragglers:
    """Writes beside the second's sample, in the same commit, what is in flight and since when. Warns once in a run."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._has_warned = False

    def look(self, now: float) -> None:
        engine = self._engine
        lane = min((lane for lane in engine.lanes.all if lane.in_flight), key=_oldest_since, default=None)
        unit, since = next(iter(lane.in_flight.items())) if lane is not None else (None, now)
        engine.committer.batch.meta[IN_FLIGHT] = {
            "now": engine.lanes.in_flight, "unit": unit, "since": round(engine.wall_now() - (now - since), 3),
        }  # fmt: skip
        if lane is None or self._has_warned or now - since <= LEAST_S:
            return
        age_s = now - since - engine.stalls.within(since)
        durations = lane.limits.durations
        usual_s = durations.quantile(USUAL_SHARE)
        if durations.count >= LEAST_REPLIES and age_s > max(LEAST_S, TIMES * usual_s):
            self._has_warned = True
            words = f"{age_s:.0f} s, and 19 of 20 replies took less than {usual_s:.1f} s: `headrace status` names its record."
            engine.tell(Warned(f"{lane.endpoint.name}: a request has been in flight for {words}"))


def _oldest_since(lane: Lane) -> float:
    return next(iter(lane.in_flight.values()))
