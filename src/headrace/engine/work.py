"""A unit on its way: the only mutable value of the engine, seen by the engine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.values import Unit

if TYPE_CHECKING:
    from headrace.engine.lane import Lane


class Work:
    """One leased unit. Times are loop time."""

    __slots__ = (
        "age_before_s",
        "ask",
        "base",
        "budgeted",
        "failures",
        "first_sent",
        "held",
        "lane",
        "paused_before_s",
        "payload",
        "plain",
        "reserved",
        "send",
        "seq",
        "spent",
        "timeouts",
    )

    def __init__(self, unit: Unit) -> None:
        assert unit.payload is not None
        self.seq = unit.seq
        self.base = unit.payload  # the first ask's payload: a re-ask is made of it
        self.payload = unit.corrected or unit.payload
        self.plain = unit.plain
        self.ask = unit.ask
        self.spent = unit.spent
        self.failures = 0  # failed sends of this ask in this process: the back-off grows with them
        self.timeouts = 0
        self.reserved: tuple[float, float] | None = None  # tokens of its latest send, where anything counts them
        self.budgeted: tuple[float, float, float] | None = None  # what its latest send has reserved of the budget
        self.held = 0.0  # of these, what the server's cache is expected to hold for it
        self.send = 0  # the lane's number of its latest send
        self.age_before_s = unit.age_s
        self.first_sent: float | None = None
        self.lane: Lane | None = None  # of its latest send
        self.paused_before_s = 0.0

    def on_sent(self, now: float, paused_s: float) -> None:
        """It is sent for the first time in this process."""
        self.first_sent = now
        self.paused_before_s = paused_s

    def age_s(self, now: float, paused_s: float) -> float:
        """Seconds since the first send, without endpoint-wide pauses and without times when no process ran."""
        if self.first_sent is None:
            return self.age_before_s
        return self.age_before_s + max(0.0, now - self.first_sent - (paused_s - self.paused_before_s))

    def on_reopened(self) -> None:
        """It failed only because an endpoint's configuration was wrong: it begins anew."""
        self.payload = self.base
        self.first_sent = None
        self.age_before_s = 0.0
        self.ask = 0
        self.spent = self.failures = self.timeouts = 0

    def on_reask(self, payload: bytes) -> None:
        self.payload = payload
        self.ask += 1
        self.spent = self.failures = self.timeouts = 0
