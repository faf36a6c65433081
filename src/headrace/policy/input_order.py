"""The order of the input, with the words of `headrace.policy.order`: nothing waits for anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headrace.values import Unit, Usage


class InputOrder:
    """First come, first served."""

    release_at: float | None = None
    has_prefixes = False
    has_own_caches = False

    def __init__(self) -> None:
        self.bytes = 0
        self.window = 1
        self.later = (0, 0)
        self._units: deque[Unit] = deque()

    def __len__(self) -> int:
        return len(self._units)

    def add(self, units: Sequence[Unit]) -> None:
        self._units.extend(units)
        self.bytes += sum([len(unit.payload or b"") for unit in units])

    def take(self, _now: float, _free: int) -> Unit | None:
        if not self._units:
            return None
        unit = self._units.popleft()
        self.bytes -= len(unit.payload or b"")
        return unit

    def on_answer(self, seq: int, usage: Usage | None, answer: float) -> None:
        """Says nothing about the order."""

    def on_failure(self, seq: int) -> None:
        """Says nothing about the order."""

    def finish(self) -> None:
        """Whatever comes, the order stays."""

    def payloads_out(self) -> list[bytes]:
        return []

    def drain(self) -> list[Unit]:
        units = list(self._units)
        self._units.clear()
        self.bytes = 0
        return units
