"""Waits that servers name: a table of what is understood, and that nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.retry_after import empty_bucket, go_duration, named_wait, reset, retry_after, said

NOW = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3s", 3723.0),
        ("2m59.56s", 179.56),
        ("10h17m5.72s", 37_025.72),
        ("7.66s", 7.66),
        ("6ms", 0.006),
        ("1m0.052s", 60.052),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("5ns", 5e-9),
        ("", None),
        ("5", None),
        ("s", None),
        ("1s ", 1.0),
        ("1s2", None),
        ("-1s", None),
        ("²s", None),
        ("1x", None),
    ],
)
def test_rtl_07_go_durations(text: str, seconds: float | None) -> None:
    assert go_duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("61", 61.0),
        ("60", 60.0),
        ("0.5", 0.5),
        (" 7 ", 7.0),
        ("120.25", 120.25),
        ("²", None),
        ("٣", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("", None),
        ("1, 2", None),
        ("0", None),
        ("0.0", None),
        ("-1", None),
        ("+5", None),
        ("0x10", None),
        ("1_0", None),
        ("soon", None),
        ("999999999999", None),
        ("9" * 400, None),
    ],
)
def test_rtl_04_rtl_06_rtl_07_a_retry_after_is_decimal_seconds_or_nothing(text: str, seconds: float | None) -> None:
    assert retry_after(text, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    ["Wed, 21 Oct 2015 07:29:30 GMT", "Wednesday, 21-Oct-15 07:29:30 GMT", "Wed Oct 21 07:29:30 2015"],
    ids=["imf", "rfc 850", "asctime"],
)
def test_all_three_forms_of_an_http_date_are_understood(text: str) -> None:
    assert retry_after(text, NOW) == 90.0


def test_rtl_06_a_date_in_the_past_is_no_wait() -> None:
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT", NOW + 1) is None
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT", NOW) is None


def test_a_date_without_any_clock_is_no_wait() -> None:
    assert retry_after("Wed, 21 Oct 2015 07:29:30 GMT", None) is None


def test_rtl_06_the_replys_own_date_corrects_a_skewed_clock() -> None:
    headers = {"retry-after": "Wed, 21 Oct 2015 07:29:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert named_wait(headers.get, None, "", now=NOW + 86_400) == 90.0


def test_rtl_04_milliseconds_come_first() -> None:
    assert named_wait({"retry-after-ms": "1500", "retry-after": "9"}.get, None, "") == 1.5


def test_a_header_that_is_present_hides_what_the_body_says() -> None:
    assert named_wait({"retry-after": "0"}.get, None, "Please retry after 5 seconds") is None


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please retry in 10h17m5.72s.", 37_025.72),
        ("have exceeded token rate limit. Please retry after 7 seconds.", 7.0),
        ("Rate limit reached. Please try again in 1.5s. Visit", 1.5),
        ("Please try again in 820ms.", 0.82),
        ("Please try again in 7m12s", 432.0),
        ("retry after 2 minutes", 120.0),
        ("Retry-free text with 5 seconds", None),
        ("try again in ² seconds", None),
        ("Please try again later", None),
        ("", None),
    ],
)
def test_a_wait_in_words(message: str, seconds: float | None) -> None:
    assert said(message) == (None if seconds is None else pytest.approx(seconds))


def test_googles_retry_info() -> None:
    error = {"details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"retryDelay": "46s"}]}
    assert named_wait({}.get, error, "") == 46.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m0.052s", 60.052),
        ("30", 30.0),
        ("0", None),
        ("-1", None),
        ("", None),
        (None, None),
        ("2015-10-21T07:28:10Z", 10.0),
        ("2015-10-21T09:28:10+02:00", 10.0),
        ("2015-99-99T07:28:10Z", None),
        ("1445412500", 20.0),
        ("1445412500000", 20.0),
        ("garbage", None),
    ],
)
def test_rtl_07_reset_headers(text: str | None, seconds: float | None) -> None:
    assert reset(text, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_the_bucket_that_is_empty_names_the_wait() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "12",
        "x-ratelimit-reset-requests": "1h0m0s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m0.052s",
    }
    assert empty_bucket(headers.get, None) == pytest.approx(60.052)


def test_a_reset_header_alone_is_no_wait() -> None:
    headers = {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "10s", "x-ratelimit-reset-requests": "9s"}
    assert empty_bucket(headers.get, None) is None


def test_anthropic_and_openrouter_name_moments() -> None:
    anthropic = {
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2015-10-21T07:28:30Z",
    }
    assert empty_bucket(anthropic.get, NOW) == 30.0
    assert empty_bucket({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1445412485000"}.get, NOW) == 5.0


NUMBERS = st.sampled_from(["1", "0", "0.5", "²", "٣", "9" * 9, "9" * 30, "1.", ".", " .5", "1e9", "-1"])
UNITS = st.sampled_from(
    ["s", "ms", "m", "h", "us", "µs", "ns", " s", " seconds", "minutes", "hour", "milliseconds", "d", "sec", "MS", " "]
)
WAYS = st.sampled_from(
    ["retry after ", "try again in ", "Please wait ", "retry in", "wait: ", "RETRY AFTER ", "\n", " ", "İ", "ſ", "K"]
)
SAID = st.lists(WAYS | NUMBERS | UNITS | st.text(max_size=2), max_size=60).map("".join)
DATES = st.lists(
    st.sampled_from(["Wed", ",", " ", "21", "Oct", "2015", "07:28:00", "GMT", "-", "99", "24:00:00", "+9999", "Wednesday", "0000",
                     "10000", "32", "2015-10-21T07:28:00Z", "T", ":", "Z", "(", ")", "EST", "\t", "9" * 20]),
    max_size=10,
)  # fmt: skip


@pytest.mark.slow
@given(SAID | DATES.map(" ".join) | DATES.map("".join) | st.text(max_size=200), st.none() | st.floats(0, 2e9))
def test_rtl_07_no_text_raises_and_every_wait_is_positive_and_finite(text: str, now: float | None) -> None:
    headers = dict.fromkeys(
        ("retry-after", "retry-after-ms", "date", "x-ratelimit-reset-tokens", "x-ratelimit-remaining", "x-ratelimit-reset"), text
    )
    empty = {**headers, "x-ratelimit-remaining": "0", "x-ratelimit-remaining-tokens": "0"}
    found = [named_wait(headers.get, {"details": text, "retry_after": text}, text, now), empty_bucket(empty.get, now)]
    found += [
        named_wait({}.get, {"details": [{"retryDelay": text}]}, text, now),
        named_wait({}.get, {"retry_after": text}, "", now),
    ]
    found += [said(text), retry_after(text, now), reset(text, now)]
    assert all(wait is None or 0 < wait <= 30 * 86_400 for wait in found)


def test_rtl_07_a_wait_of_more_parts_than_a_duration_has_is_none() -> None:
    assert said("please retry in " + "1s " * 40) is None
    assert said("please retry in " + "1s " * 10) == 10.0


@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize("unit", [" ", "\n", "\r\n", "1s ", "1 ", "9", "retry ", ": "], ids=ascii)
@pytest.mark.parametrize("head", ["", "retry", "retry after", "please wait in ", "try again: "])
def test_rtl_07_a_padded_message_is_looked_through_once(head: str, unit: str) -> None:
    for tail in ("", "x", "5s"):
        said(head + unit * 100_000 + tail)
