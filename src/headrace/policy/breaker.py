"""Whether an endpoint is held to be down, and when it is probed with one unit."""

from __future__ import annotations

from enum import StrEnum

TRIP_UNITS = 3
FIRST_PROBE_S = 0.5
LONGEST_PROBE_S = 30.0
LONGEST_REFUSED_PROBE_S = 4.0
LONGEST_FIRST_PROBE_S = 4.0  # before it has ever answered: whether it is down or wrong takes ten failures to tell


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"  # nothing is sent until the next probe is due
    PROBING = "probing"  # one unit is on its way


class Breaker:
    """Opens when server failures on three distinct units follow each other with no success between.

    Open, it lets one unit through at growing intervals; any sign of life closes it. All times are loop time. It never
    opens while fewer than three units are left: their attempts count instead (`allow_open`).
    """

    def __init__(self) -> None:
        self.circuit = Circuit.CLOSED
        self.down_since: float | None = None  # the first failure of the streak that opened it
        self.probe_at = 0.0
        self.why = ""
        self.is_quiet = True  # no failure since the last sign of life: the common case, asked for at each reply
        self._streak: dict[int, None] = {}
        self._streak_since = 0.0
        self._interval = FIRST_PROBE_S
        self._probe: int | None = None

    @property
    def is_down(self) -> bool:
        return self.circuit is not Circuit.CLOSED

    def on_alive(self) -> bool:
        """A reply that shows a working server. True when this closed the breaker."""
        was_down = self.is_down
        self.is_quiet = True
        self._streak.clear()
        self.circuit = Circuit.CLOSED
        self.down_since = None
        self._interval = FIRST_PROBE_S
        return was_down

    def on_failure(self, unit: int, now: float, why: str, *, allow_open: bool, is_proven: bool = True) -> bool:
        """A server failure; `is_proven`: the endpoint has answered before. True when this opened the breaker."""
        self.is_quiet = False
        if not self._streak:
            self._streak_since = now
        if len(self._streak) < TRIP_UNITS:
            self._streak[unit] = None
        self.why = why
        if self._is_probe(unit):
            self._probe_failed(now, LONGEST_PROBE_S if is_proven else LONGEST_FIRST_PROBE_S)
            return False
        if self.circuit is Circuit.CLOSED and allow_open and len(self._streak) >= TRIP_UNITS:
            self.down_since = self._streak_since
            self._open(now)
            return True
        return False

    def force_open(self, now: float, why: str, unit: int | None = None) -> None:
        """Hold the endpoint to be down at once: a refused connection before its first success, probed every few seconds."""
        self.is_quiet = False
        if not self.is_down:
            self.down_since = now
            self.why = why
            self._open(now)
        elif self._is_probe(unit):
            self._probe_failed(now, LONGEST_REFUSED_PROBE_S)

    def on_no_verdict(self, now: float, unit: int | None = None) -> None:
        """A probe came back with something that says nothing about the server's health: probe again."""
        if self._is_probe(unit):
            self._open(now)

    def may_send(self, now: float) -> bool:
        """True when a unit may go; the probe is taken by `on_sent`."""
        return self.circuit is Circuit.CLOSED or (self.circuit is Circuit.OPEN and now >= self.probe_at)

    def on_sent(self, unit: int | None = None) -> bool:
        """A unit is sent. True when it is a probe. Named, it alone is judged as one: others may still be on their way."""
        if self.circuit is Circuit.OPEN:
            self.circuit = Circuit.PROBING
            self._probe = unit
            return True
        return False

    def _is_probe(self, unit: int | None) -> bool:
        return self.circuit is Circuit.PROBING and (self._probe is None or unit is None or unit == self._probe)

    def _probe_failed(self, now: float, longest_s: float) -> None:
        self._interval = min(self._interval * 2, longest_s)
        self._open(now)

    def _open(self, now: float) -> None:
        self.circuit = Circuit.OPEN
        self.probe_at = now + self._interval
