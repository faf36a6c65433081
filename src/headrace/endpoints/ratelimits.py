"""What headers say of limits per minute: the families that providers use, and their many forms of a reset."""

from __future__ import annotations

import re
from collections.abc import Callable

from headrace.endpoints.retry_after import decimal, reset
from headrace.values import Limit

Lookup = Callable[[str], str | None]

_WINDOW = re.compile(r";\s*w\s*=\s*([0-9]{1,7})", re.ASCII)
_X = {what: [f"x-ratelimit-{part}-{what}" for part in ("limit", "remaining", "reset")] for what in ("requests", "tokens")}
_ANTHROPIC = {
    what: [f"anthropic-ratelimit-{what}-{part}" for part in ("limit", "remaining", "reset")]
    for what in ("requests", "input-tokens", "output-tokens", "tokens")
}
_PLAIN_X = {"requests": [f"x-ratelimit-{part}" for part in ("limit", "remaining", "reset")]}
_PLAIN = {"requests": [f"ratelimit-{part}" for part in ("limit", "remaining", "reset")]}
# The header that gives a family away, its names, and whether a reset tells when a bucket is full again (else: a window's end).
_FAMILIES = (
    ("x-ratelimit-remaining-requests", _X, True),
    ("x-ratelimit-remaining-tokens", _X, True),
    ("anthropic-ratelimit-requests-remaining", _ANTHROPIC, True),
    ("anthropic-ratelimit-tokens-remaining", _ANTHROPIC, True),
    ("x-ratelimit-remaining", _PLAIN_X, False),
    ("ratelimit-remaining", _PLAIN, False),
)

_SILENT = 64  # replies
_ONE_IN = 8


class LimitHeaders:
    """Reads one endpoint's headers. It looks up one header a reply: its family's own once known, else the next in turn."""

    def __init__(self) -> None:
        self._family: int | None = None
        self._replies = 0
        self._glances = 0

    def glance(self, header: Lookup, clock: Callable[[], float] | None) -> tuple[Limit, ...] | None:
        """`read` for a reply that is no refusal: of a server that has long told nothing, one in eight is looked at."""
        if self._family is None:
            self._glances += 1
            if self._glances > _SILENT and self._glances % _ONE_IN:
                return None
        return self.read(header, clock() if clock is not None else None)

    def read(self, header: Lookup, now: float | None) -> tuple[Limit, ...] | None:
        """The limits that a reply names, or None. `now` is Unix time. Never raises: what is not understood is absent."""
        at = self._family
        if at is None:
            at = self._replies % len(_FAMILIES)
            self._replies += 1
            if self._replies == 1:
                at = next((n for n, family in enumerate(_FAMILIES) if header(family[0]) is not None), 0)
        given_away, names, refills = _FAMILIES[at]
        if header(given_away) is None:
            return None
        self._family = at
        found = tuple(_limit(what, header, parts, now, refills=refills) for what, parts in names.items())
        told = tuple(limit for limit in found if limit.limit is not None or limit.remaining is not None)
        if any(limit.what == "input_tokens" for limit in told):
            told = tuple(limit for limit in told if limit.what != "tokens")  # the scarcer of the two others, said again
        return told or None


def _limit(what: str, header: Lookup, names: list[str], now: float | None, *, refills: bool) -> Limit:
    limit, remaining, until = (header(name) for name in names)
    window = _WINDOW.search(limit or "")
    return Limit(
        what.replace("-", "_"),
        _first(limit),
        _first(remaining),
        reset(until, now),
        float(window[1]) if window else None,
        refills,
    )


def _first(text: str | None) -> float | None:
    return decimal(text.split(",")[0].split(";")[0]) if text is not None and len(text) < 200 else None
