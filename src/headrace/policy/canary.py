"""The first request to an endpoint goes alone: what is wrong there is found out by one, and not by a whole window."""

from __future__ import annotations

import math

LOOK_S = 1.0  # so long the first request waits at most for the server to say what it serves
ALONE_S = 2.0  # so long the others wait for its answer: what takes longer is slow, and nothing else is known yet


class Canary:
    """Whether an endpoint of which no reply is known is sent more. Times are loop time.

    One is in flight at a time, the first after the server has been asked what it serves. From ALONE_S after the first send on as
    many go as the window allows; the first reply ends it before that, and is no business of this class.
    """

    __slots__ = ("_looks_until", "opens_at")

    def __init__(self) -> None:
        self.opens_at = math.inf  # until the first is sent
        self._looks_until = 0.0

    def on_look(self, now: float) -> None:
        """The server is asked for its pages."""
        self._looks_until = now + LOOK_S

    def on_looked(self) -> None:
        """It has told, or nobody answers there."""
        self._looks_until = 0.0

    def on_sent(self, now: float) -> None:
        if self.opens_at == math.inf:
            self.opens_at = now + ALONE_S

    def may_send(self, now: float, in_flight: int) -> bool:
        return now >= (self.opens_at if in_flight else self._looks_until)

    def next_chance(self, in_flight: int) -> float:
        """When more may go by the passing of time alone."""
        return self.opens_at if in_flight else self._looks_until
