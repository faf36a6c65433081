"""How many requests may be in flight: a fixed number that gives way to overload and returns."""

from __future__ import annotations

from msgspec import Struct

LEAST_JUDGED = 16


class Move(Struct, frozen=True):
    """A change of the limit, with the name of the rule that made it."""

    limit: int
    rule: str


class Window:
    """At most `ceiling` in flight. An episode of overload halves it once, and so do timeouts where half of the latest
    max(16, window) sends have ended so; a full round of clean completions adds one.

    What was sent before a cut says nothing about the window after it. Sends are numbered from 1.
    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = ceiling
        self._clean = 0
        self._cut_at_send = 0
        self._timed_out: list[int] = []  # sends that timed out lately

    def on_clean(self, send: int) -> Move | None:
        """A completion without overload, of the request with this send number."""
        if self.limit >= self.ceiling or send < self._cut_at_send:
            return None
        self._clean += 1
        if self._clean < self.limit:
            return None
        self._clean = 0
        self.limit += 1
        return Move(self.limit, "clean_round")

    def on_overload_episode(self, next_send: int) -> Move | None:
        """Overload has been judged: halve. `next_send` numbers the first request sent after it.

        None where nothing was sent since the last cut: it is still the same episode.
        """
        if next_send <= self._cut_at_send:
            return None
        self._clean = 0
        self._cut_at_send = next_send
        self.limit = max(1, self.limit // 2)
        return Move(self.limit, "overload_halves")

    def on_timeout(self, send: int, next_send: int) -> Move | None:
        """The request with this send number got no answer in its time. A lone one says little: some requests hang anywhere."""
        if send < self._cut_at_send:
            return None
        latest = max(LEAST_JUDGED, self.limit)
        self._timed_out = [*(one for one in self._timed_out if one > send - latest), send]
        if 2 * len(self._timed_out) < latest:
            return None
        self._timed_out.clear()
        return self.on_overload_episode(next_send)
