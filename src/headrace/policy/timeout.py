"""How long one attempt may take."""

from __future__ import annotations

from msgspec import Struct

LONGEST_S = 24 * 3600.0


class Patience(Struct, frozen=True):
    """What `attempt_timeout = "auto"` means: so long at least, so much more for each token that may be generated, and so many
    times what slow replies have taken.
    """

    base_s: float = 60.0
    per_token_s: float = 0.25
    times: float = 3.0


def attempt_timeout_s(
    configured: float | str, max_tokens: int | None, timeouts: int, slowest_s: float = 0.0, patience: Patience | None = None
) -> float:
    """Seconds for the next attempt of a unit that has timed out so often.

    `auto` is as `patience` says: 60 s and 0.25 s per token that may be generated, and at least three times the slowest reply
    so far, since an endpoint whose queue is long is slow for all. Each timeout doubles the limit, since a generation that was
    cut once would be cut again.
    """
    patience = patience or Patience()
    base = configured
    if isinstance(base, str):
        base = max(patience.base_s + patience.per_token_s * (max_tokens or 0), patience.times * slowest_s)
    return min(base * 2.0 ** min(timeouts, 16), LONGEST_S)
