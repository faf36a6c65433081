"""When a whole endpoint pauses: a wait that the server named, or a share of overload answers."""

from __future__ import annotations

import random
from collections import deque

from headrace.policy.backoff import on_return_s

SHARE_TENTHS = 3
LEAST_JUDGED = 16
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Pause:
    """The pause of one endpoint. Times are loop time.

    Overload answers of at least 30 % of the last max(16, window) completions pause it, judged only once that many
    exist; a lone one does not (pausing for each costs most of the throughput at a tenth of 503s). Such pauses grow
    while nothing succeeds between them; what comes back in one was sent before it and makes no new one. A named wait is
    a floor; the longest one counts.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self.why = ""
        self._recent: deque[bool] = deque()
        self._overloads = 0
        self._judged_until = 0.0  # the end of the last pause that was judged, not named
        self._length_s = FIRST_PAUSE_S
        self._succeeded = True  # since the last such pause: before the first nothing is held against the endpoint

    def is_on(self, now: float) -> bool:
        return now < self.until

    def on_named_wait(self, wait_s: float, now: float, why: str, rng: random.Random) -> None:
        self._extend(now, now + on_return_s(wait_s, rng), why)

    def on_completion(self, *, overload: bool, window: int) -> None:
        """One completion, overload or not. Judge with `is_overloaded`."""
        if not overload and not self._overloads and len(self._recent) >= max(LEAST_JUDGED, window):
            self._succeeded = True  # all of the last ones were clean, and so they are now
            return
        self._recent.append(overload)
        self._overloads += overload
        self._succeeded = self._succeeded or not overload
        while len(self._recent) > max(LEAST_JUDGED, window):
            self._overloads -= self._recent.popleft()

    def is_overloaded(self, window: int) -> bool:
        enough = max(LEAST_JUDGED, window)
        return len(self._recent) >= enough and 10 * self._overloads >= SHARE_TENTHS * len(self._recent)

    def on_overload_episode(self, now: float, why: str, rng: random.Random) -> float:
        """Pause for a growing time and begin to count anew. Returns the seconds until it ends."""
        self._recent.clear()
        self._overloads = 0
        if now >= self._judged_until:
            self._length_s = FIRST_PAUSE_S if self._succeeded else min(self._length_s * 2, LONGEST_PAUSE_S)
            self._succeeded = False
            self._judged_until = now + on_return_s(self._length_s, rng)
            self._extend(now, self._judged_until, why)
        return self._judged_until - now

    def _extend(self, now: float, until: float, why: str) -> None:
        if until > max(self.until, now):
            self.until = until
            self.why = why
