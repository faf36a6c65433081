from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.ratelimits import LimitHeaders
from headrace.values import Limit

NOW = 1_700_000_000.0


def looked_up(headers: Mapping[str, str], asked: list[str] | None = None) -> Callable[[str], str | None]:
    def header(name: str) -> str | None:
        if asked is not None:
            asked.append(name)
        return headers.get(name)

    return header


def read(headers: Mapping[str, str]) -> tuple[Limit, ...] | None:
    return LimitHeaders().read(looked_up(headers), NOW)


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("1s", 1.0), ("6m0s", 360.0), ("12ms", 0.012), ("1h2m3s", 3723.0), ("2m59.56s", 179.56), ("7.66s", 7.66), ("1m30s", 90.0),
        ("30", 30.0), ("1700000045", 45.0), ("1700000045000", 45.0), ("2023-11-14T22:13:50Z", 30.0), ("0", None), ("-1", None),
        ("", None), ("soon", None),
    ],
)  # fmt: skip
def test_every_form_of_a_reset_is_understood(reset: str, seconds: float | None) -> None:
    told = read({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": reset})
    assert told is not None
    assert told == (Limit("requests", 60.0, 59.0, pytest.approx(seconds) if seconds else None),)


def test_requests_and_tokens_of_the_usual_family() -> None:
    headers = {
        "x-ratelimit-limit-requests": "5000", "x-ratelimit-remaining-requests": "4999", "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "160000", "x-ratelimit-remaining-tokens": "159976", "x-ratelimit-reset-tokens": "8ms",
    }  # fmt: skip
    assert read(headers) == (
        Limit("requests", 5000, 4999, pytest.approx(0.012)), Limit("tokens", 160_000, 159_976, pytest.approx(0.008)),
    )  # fmt: skip


def test_tokens_in_and_out_stand_for_all_tokens() -> None:
    headers = {
        f"anthropic-ratelimit-{what}-{part}": value
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
        for part, value in (("limit", "1000"), ("remaining", "900"), ("reset", "2023-11-14T22:13:26Z"))
    }
    told = read(headers)
    assert told is not None
    assert [limit.what for limit in told] == ["requests", "input_tokens", "output_tokens"]
    assert told[0] == Limit("requests", 1000, 900, pytest.approx(6.0))


def test_a_window_and_its_length() -> None:
    assert read({"ratelimit-limit": "100, 100;w=60", "ratelimit-remaining": "7", "ratelimit-reset": "12"}) == (
        Limit("requests", 100, 7, 12, 60, refills=False),
    )
    assert read({"x-ratelimit-limit": "20", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "1700000010000"}) == (
        Limit("requests", 20, 3, pytest.approx(10.0), None, refills=False),
    )


def test_a_reply_costs_one_look_up_and_a_family_is_found_later_too() -> None:
    reader, asked = LimitHeaders(), []
    assert reader.read(looked_up({}, asked), NOW) is None
    asked.clear()
    for _ in range(20):
        assert reader.read(looked_up({}, asked), NOW) is None
    assert len(asked) == 20
    late = {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-limit-tokens": "10"}
    found = [reader.read(looked_up(late), NOW) for _ in range(6)]
    assert sum(told is not None for told in found) >= 1
    assert found[-1] == (Limit("tokens", 10, 5),)


def test_of_a_server_that_has_long_told_nothing_one_reply_in_eight_is_looked_at() -> None:
    reader, asked = LimitHeaders(), list[str]()
    for _ in range(1064):
        assert reader.glance(looked_up({}, asked), lambda: NOW) is None
    assert 64 + 125 <= len(asked) <= 64 + 125 + 6
    late = {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-limit-tokens": "10"}
    told = [reader.glance(looked_up(late), lambda: NOW) for _ in range(48)]
    assert any(told)
    assert [reader.glance(looked_up(late), lambda: NOW) for _ in range(5)] == [(Limit("tokens", 10, 5),)] * 5


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_whatever_they_hold_nothing_is_raised(limit: str, remaining: str, reset: str) -> None:
    read({"x-ratelimit-limit-requests": limit, "x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": reset})
