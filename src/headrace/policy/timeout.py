"""How long one attempt may take."""

from __future__ import annotations

BASE_S = 60.0
PER_TOKEN_S = 0.25
LONGEST_S = 24 * 3600.0


def attempt_timeout_s(configured: float | str, max_tokens: int | None, timeouts: int) -> float:
    """Seconds for the next attempt of a unit that has timed out so often.

    `auto` is 60 s and 0.25 s per token that may be generated; each timeout doubles the limit, since a generation that
    was cut once would be cut again.
    """
    base = BASE_S + PER_TOKEN_S * (max_tokens or 0) if isinstance(configured, str) else configured
    return min(base * 2.0 ** min(timeouts, 16), LONGEST_S)
