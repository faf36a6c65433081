"""How many prompt prefixes a server's cache is taken to hold, learnt from the cached tokens in its usage."""

from __future__ import annotations

from enum import Enum

MOST_OPEN = 32  # before usage says otherwise
FEWEST_OPEN, MANY_OPEN = 4, 512
MOST_PATIENCE = 16
NEVER_CACHED = 16  # so many that should have been cached, and none was: prompts share no cache here


class Expected(Enum):
    """Why a prefix may be cached when a unit is taken."""

    WARM = "warm"  # an answer to it has come
    PRESUMED = "presumed"  # its leader was taken long enough ago
    LOST = "lost"  # it was warm once, and is given a new leader


class Reach:
    """`most_open`: prefixes that are taken to be cached at once. `patience`: by how much longer than thought they take.

    A warm prefix that comes back uncached means that too many are open. One that was given up and is still there means
    that more may be, which is tried one by one: a miss costs a prefix, a leader that was not needed little. Units are
    numbered as they are taken: one change speaks for all that were taken before it.
    """

    def __init__(self) -> None:
        self.most_open = MOST_OPEN
        self.patience = 1
        self._hits = 0
        self._misses = 0
        self._changed_at = 0

    @property
    def is_useless(self) -> bool:
        """Whether this server has shown that it caches nothing that prompts share."""
        return not self._hits and self._misses >= NEVER_CACHED

    def learn(self, expected: Expected, number: int, taken: int, *, is_hit: bool) -> None:
        """What came of the unit taken as the `number`-th; `taken` have been taken by now."""
        if expected is Expected.LOST:
            if is_hit:
                self._change(number, taken, self.most_open + 1)
        elif is_hit:
            self._hits += 1
        else:
            self._misses += 1
            if expected is Expected.PRESUMED:
                self.patience = min(2 * self.patience, MOST_PATIENCE)
            else:
                self._change(number, taken, self.most_open * 3 // 4)

    def _change(self, number: int, taken: int, most_open: int) -> None:
        if number > self._changed_at:
            self._changed_at = taken
            self.most_open = min(max(most_open, FEWEST_OPEN), MANY_OPEN)
