"""How long one attempt may take."""

from __future__ import annotations

BASE_S = 60.0
PER_TOKEN_S = 0.25
SLOWEST_TIMES = 3.0
LONGEST_S = 24 * 3600.0


def attempt_timeout_s(configured: float | str, max_tokens: int | None, timeouts: int, slowest_s: float = 0.0) -> float:
    """Seconds for the next attempt of a unit that has timed out so often.

    `auto` is 60 s and 0.25 s per token that may be generated, and at least three times the slowest reply so far: an
    endpoint whose queue is long is slow for all. Each timeout doubles the limit, since a generation that was cut once
    would be cut again.
    """
    base = max(BASE_S + PER_TOKEN_S * (max_tokens or 0), SLOWEST_TIMES * slowest_s) if isinstance(configured, str) else configured
    return min(base * 2.0 ** min(timeouts, 16), LONGEST_S)
