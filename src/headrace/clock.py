"""Wall time: the only file that reads it. Durations are measured in the event loop's time."""

from __future__ import annotations

import time


class WallClock:
    """Satisfies `headrace.protocols.Clock`."""

    def now(self) -> float:
        return time.time()
