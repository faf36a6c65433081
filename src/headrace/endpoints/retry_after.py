"""How long a server asks us to wait: a total parser of headers and bodies. What it does not understand is None."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from headrace.endpoints.phrases import Phrases

Lookup = Callable[[str], str | None]

_LONGEST_S = 30 * 86_400.0  # a longer wait is no wait but a mistake
_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,12})?|\.[0-9]{1,12}", re.ASCII)
_GO_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(h|ms|m|us|µs|μs|ns|s)", re.ASCII)
_GO_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{8,18}(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})", re.ASCII)
_SAID = Phrases(
    "retry|try again|wait",
    # Possessive: a message of thousands of spaces must not be divided in every way among these four.
    r"(?a:(?:retry|try again|wait)\s++(?:after|in|for)?+\s*+:?+\s*+((?:[0-9]{1,9}(?:\.[0-9]{1,12})?\s*(?:h|ms|m|s)(?![a-z])\s*)+"
    r"|[0-9]{1,9}(?:\.[0-9]{1,12})?\s*(?:milliseconds?|seconds?|secs?|minutes?|mins?|hours?)))",
)
_LISTENED = 4_000  # characters of a message
_WORDS = {"mil": 1e-3, "sec": 1.0, "min": 60.0, "hou": 3600.0}
_BUCKETS = ("requests", "tokens", "input-tokens", "output-tokens")


def named_wait(header: Lookup, error: Any, message: str, now: float | None = None) -> float | None:
    """Seconds until the server wants to see us again, or None: header first, then the body's own words.

    `now` is Unix time, used for dates where the reply carries no Date of its own. Zero, negative and past waits are
    None: they name no wait, and backing off is the caller's.
    """
    milliseconds = decimal(header("retry-after-ms"))
    if milliseconds is not None:
        return _positive(milliseconds / 1000)
    asked = header("retry-after")
    if asked is not None:
        here = None if decimal(asked) is not None else _date(header("date"))
        return retry_after(asked, now if here is None else here)
    return _in_details(error) or said(message)


def retry_after(text: str, now: float | None) -> float | None:
    """Seconds from a Retry-After value: decimal seconds, or an HTTP-date relative to `now`."""
    seconds = decimal(text)
    if seconds is None:
        seconds = _until(_date(text), now)
    return _positive(seconds)


def reset(text: str | None, now: float | None) -> float | None:
    """Seconds from a reset header: a Go duration, seconds, RFC 3339, or an epoch in seconds or milliseconds."""
    text = (text or "").strip()
    seconds = go_duration(text)
    if seconds is None:
        seconds = decimal(text)
        if seconds is not None and seconds > 1e11:
            seconds = _until(seconds / 1000, now)
        elif seconds is not None and seconds > 1e9:
            seconds = _until(seconds, now)
    if seconds is None and _RFC_3339.fullmatch(text):
        try:
            seconds = _until(datetime.fromisoformat(text.upper()).timestamp(), now)
        except (ValueError, OverflowError):
            return None
    return _positive(seconds)


def empty_bucket(header: Lookup, now: float | None) -> float | None:
    """The wait of a 429 that names none: the longest reset among the buckets whose remaining count is 0.

    A reset header alone is no wait: it says when the bucket is full again, not when the next request fits.
    """
    waits = [
        reset(header(f"{family}-reset-{bucket}" if family[0] == "x" else f"{family}-{bucket}-reset"), now)
        for family in ("x-ratelimit", "anthropic-ratelimit")
        for bucket in _BUCKETS
        if _is_zero(header(f"{family}-remaining-{bucket}" if family[0] == "x" else f"{family}-{bucket}-remaining"))
    ]
    if _is_zero(header("x-ratelimit-remaining")):
        waits.append(reset(header("x-ratelimit-reset"), now))
    return max((wait for wait in waits if wait is not None), default=None)


def decimal(text: str | None) -> float | None:
    """A plain decimal number with an optional fraction: no sign, no exponent, ASCII digits."""
    text = (text or "").strip()
    return float(text) if _DECIMAL.fullmatch(text) else None


def go_duration(text: str) -> float | None:
    """Seconds from a Go duration such as `1h2m3s`, `2m59.56s`, `12ms`."""
    text = text.strip()
    total, end = 0.0, 0
    for match in _GO_PART.finditer(text[:64]):
        if match.start() != end:
            return None
        total += float(match[1]) * _GO_UNITS[match[2]]
        end = match.end()
    return total if end and end == len(text) else None


def said(message: str) -> float | None:
    """The wait that a message names: "Please retry in 10h17m5.72s", "retry after 7 seconds", "try again in 1.5s"."""
    lower = message[:_LISTENED].lower()
    match = _SAID.pattern.search(lower) if _SAID.possible(lower) else None
    if match is None:
        return None
    span = match[1].strip()
    seconds = go_duration(re.sub(r"\s+", "", span))
    if seconds is None:
        number = re.match(r"[0-9.]+", span)
        assert number is not None
        unit = _WORDS.get(span[number.end() :].strip()[:3])
        seconds = None if unit is None else float(number[0]) * unit  # None: more parts than a duration has
    return _positive(seconds)


def _in_details(error: Any) -> float | None:
    """Google's RetryInfo, and `retry_after` where a gateway puts it beside the message."""
    if not isinstance(error, dict):
        return None
    details = error.get("details")
    for detail in details[:20] if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _positive(go_duration(delay))
    for key in ("retry_after", "retry_after_seconds"):
        value = error.get(key)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return _positive(decimal(str(value)))
    return None


def _date(text: str | None) -> float | None:
    """Unix time of an HTTP-date in any of its three forms."""
    if not text or len(text) > 64 or not text.isascii():
        return None
    try:
        return datetime.strptime(text.strip(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    try:
        parsed = parsedate_to_datetime(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until(then: float | None, now: float | None) -> float | None:
    return None if then is None or now is None else then - now


def _positive(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0.0 < seconds <= _LONGEST_S else None


def _is_zero(text: str | None) -> bool:
    return decimal(text) == 0.0
