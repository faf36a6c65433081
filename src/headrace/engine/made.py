"""Units that are made of answers while the run goes on: they go before all others, so that items are finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from headrace.values import Unit

MOST_HELD = 256  # units with payload; the others are recalled by number
MOST_HELD_BYTES = 16_000_000
LEAST_HELD = 32


class Made:
    """They wait in the order in which they were made. `may_come` says that this run's answers are joined at all."""

    def __init__(self, pending: Iterable[int], *, may_come: bool) -> None:
        self.may_come = may_come
        self._units: deque[Unit] = deque()
        self._bytes = 0
        self._numbers = deque(pending)
        self._recalling = 0

    def __len__(self) -> int:
        return len(self._units) + len(self._numbers) + self._recalling

    @property
    def ready(self) -> int:
        """How many can be taken now."""
        return len(self._units)

    @property
    def is_low(self) -> bool:
        """Whether some are to be recalled."""
        return bool(self._numbers) and len(self._units) < LEAST_HELD and self._bytes < MOST_HELD_BYTES

    def add(self, units: Iterable[Unit]) -> None:
        """Some more, with payload. Beyond what is held at once only their numbers are kept."""
        for unit in units:
            if self._numbers or len(self._units) >= MOST_HELD or self._bytes >= MOST_HELD_BYTES:
                self._numbers.append(unit.seq)
            else:
                self._hold(unit)

    def next_numbers(self) -> list[int]:
        """Which are to be recalled next."""
        numbers = [self._numbers.popleft() for _ in range(min(LEAST_HELD, len(self._numbers)))]
        self._recalling = len(numbers)
        return numbers

    def on_recalled(self, units: Sequence[Unit]) -> None:
        self._recalling = 0
        for unit in units:
            self._hold(unit)

    def take(self) -> Unit | None:
        if not self._units:
            return None
        unit = self._units.popleft()
        self._bytes -= len(unit.payload or b"")
        return unit

    def clear(self) -> None:
        self._units.clear()
        self._numbers.clear()
        self._bytes = self._recalling = 0

    def _hold(self, unit: Unit) -> None:
        self._units.append(unit)
        self._bytes += len(unit.payload or b"")
