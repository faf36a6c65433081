"""Holds what each server says of itself against the job, when it says it: what cannot work ends there, what may is a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.reasons import Reasons
from headrace.events import Warned
from headrace.policy.preflight import nearest, too_long, unlisted
from headrace.values import Capacity, Kind

if TYPE_CHECKING:
    from headrace.engine.lane import Lane
    from headrace.engine.live import LiveEngine


class Preflight:
    """Beside the sending: nothing here is waited for but the first answer of `Canary`, and what is not told is no fault."""

    def __init__(self, engine: LiveEngine, reasons: Reasons) -> None:
        self._engine = engine
        self._reasons = reasons
        self._looked_at: dict[int, int] = {}  # by lane: the longest payload that was held against its context; -1: that is over

    def on_capacity(self, lane: Lane, capacity: Capacity) -> None:
        """What a server is has been told for the first time."""
        lane.told = capacity
        if lane.model is None or lane.succeeded:
            return
        found = unlisted(lane.model, capacity)
        if found is None:
            return
        if found.is_certain:
            self._reasons.on_useless(lane, Kind.MODEL_MISSING, found.message)
        else:
            self._engine.tell(Warned(f"{lane.endpoint.name}: {found.message}"))
