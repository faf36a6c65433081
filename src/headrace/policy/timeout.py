"""How long one attempt may take: what the job says, or what its length and the replies so far say."""

from __future__ import annotations

import math
from math import log2

from msgspec import Struct

LONGEST_S = 24 * 3600.0
SLOW_SHARE = 0.99  # what slow replies take: so many were no slower
MOST_DOUBLED = 16
SILENT_TIMES = 4.0  # an endpoint that says nothing at all gets so many times the first limit, no more
LARGEST_PROMPT = 16.0  # a prompt counts as at most so many times the usual one
SIZE_MEMORY = 50
MEMORY = 1024.0  # replies, after which the older ones count half
_STEPS = 4  # of a doubling: times are told apart by a fifth
_PER_SHORTEST = 2.0**10
_SHORTEST_S = 1 / _PER_SHORTEST
_BINS = 28 * _STEPS  # up to three days


class Patience(Struct, frozen=True):
    """What `attempt_timeout = "auto"` means: so long at least, so much more for each token that may be generated, and so many
    times what slow replies take.
    """

    base_s: float = 60.0
    per_token_s: float = 0.25
    times: float = 3.0


class Durations:
    """How long replies have taken, as a histogram that forgets. Times are seconds, told to within a fifth."""

    def __init__(self) -> None:
        self.count = 0.0  # replies, the older ones counted less
        self._bins = [0.0] * _BINS

    def add(self, seconds: float) -> None:
        step = int(_STEPS * log2(seconds * _PER_SHORTEST)) if seconds > _SHORTEST_S else 0
        self._bins[step if step < _BINS else _BINS - 1] += 1.0
        self.count += 1.0
        if self.count >= MEMORY:
            self.count /= 2
            self._bins = [held / 2 for held in self._bins]

    def quantile(self, share: float) -> float:
        """What this share of the replies took at most; of fewer than a hundred the slowest is never among the 99 %, but for the
        only one. 0 without any.
        """
        left = share * (self.count - 1.0)
        for step, held in enumerate(self._bins):
            left -= held
            if held and left < 0.0:
                return float(_SHORTEST_S * 2.0 ** ((step + 1) / _STEPS))
        return 0.0


class AttemptLimits:
    """The time limits of one endpoint's attempts, in seconds. Times called `now` are loop time.

    A written limit is kept. `auto` begins with what `patience` says of the longest answer, and follows what comes back: three
    times what slow replies take (not the slowest: one freak is no reason to wait long for all), more where the prompt is larger
    than usual. Where nothing at all came while an attempt waited, the endpoint is slow for all, and the next ones get twice as
    long, up to four times the first limit: a server that takes 100 s for everything is not asked for ever with a limit of 76 s.
    Each timeout of a unit doubles its own next limit, since a generation that was cut once would be cut again.
    """

    def __init__(self, configured: float | str = "auto", max_tokens: int | None = None, patience: Patience | None = None) -> None:
        patience = patience or Patience()
        self.durations = Durations()
        self._is_auto = isinstance(configured, str)
        first = patience.base_s + patience.per_token_s * (max_tokens or 0) if isinstance(configured, str) else configured
        self.first_s = min(first, LONGEST_S)
        self._times = patience.times
        self._learnt_s = 0.0
        self._silent_s = 0.0
        self._usual_size = 0.0
        self._plain_size = math.inf  # up to this size the first limit is long enough
        self._heard = -math.inf  # when the last reply came
        self._due = 0  # replies until the slow ones are counted anew
        self._notable_s = self.first_s / self._times if self._is_auto else math.inf

    def on_reply(self, seconds: float, size: int, now: float) -> None:
        """A reply. `size` is that of its prompt, in bytes."""
        self._heard = now
        self.durations.add(seconds)
        self._due -= 1
        if self._due <= 0 or seconds > self._notable_s:
            self._learn(seconds, size)

    def on_timeout(self, seconds: float, now: float) -> None:
        """An attempt ended without a reply, after so many seconds."""
        if self._is_auto and self._heard < now - seconds:
            self._due = 0  # the next reply says whether it was needed
            self._silent_s = max(self._silent_s, min(2.0 * seconds, SILENT_TIMES * self.first_s))
            self._plain_size = 0.0

    def next_s(self, timeouts: int, size: int) -> float:
        """Seconds for the next attempt of a unit that has timed out so often and whose prompt has this size."""
        if not timeouts and size <= self._plain_size:
            return self.first_s
        learnt = self._learnt_s * min(max(size / self._usual_size, 1.0), LARGEST_PROMPT) if self._learnt_s else 0.0
        doubled = max(self.first_s, learnt) * 2.0 ** min(timeouts, MOST_DOUBLED)
        return min(max(doubled, self._silent_s), LONGEST_S)

    def _learn(self, seconds: float, size: int) -> None:
        """Count the slow replies anew. Done ever more seldom, and at once for a reply that may change something."""
        count = self.durations.count
        self._due = int(count / 16)
        if not self._is_auto:
            return
        self._usual_size += (size - self._usual_size) / min(count, SIZE_MEMORY)
        if self._times * seconds <= self._silent_s:
            self._silent_s = 0.0
        self._learnt_s = learnt = self._times * self.durations.quantile(SLOW_SHARE)
        self._notable_s = max(self.first_s, learnt) / self._times
        if self._silent_s or learnt > self.first_s:
            self._plain_size = 0.0
        else:
            self._plain_size = self._usual_size * self.first_s / learnt if LARGEST_PROMPT * learnt > self.first_s else math.inf
