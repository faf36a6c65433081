"""How long attempts may take, by what is written and by what came back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.timeout import LONGEST_S, AttemptLimits, Durations, Patience


def limit_of(configured: float | str, max_tokens: int | None, timeouts: int) -> float:
    return AttemptLimits(configured, max_tokens).next_s(timeouts, 100)


def after(replies: list[float], **more) -> AttemptLimits:
    """Limits that have seen these replies, a second apart, of prompts of 100 bytes."""
    limits = AttemptLimits("auto", None, **more)
    for at, seconds in enumerate(replies):
        limits.on_reply(seconds, 100, float(at))
    return limits


@pytest.mark.parametrize(("max_tokens", "seconds"), [(None, 60.0), (1, 60.25), (64, 76.0), (4_000, 1_060.0)])
def test_auto_grows_with_the_tokens_that_may_come(max_tokens: int | None, seconds: float) -> None:
    assert limit_of("auto", max_tokens, 0) == seconds


def test_a_written_limit_does_not_depend_on_tokens() -> None:
    assert limit_of(45.0, 100_000, 0) == 45.0


def test_RTL_08_each_timeout_doubles_the_limit() -> None:  # noqa: N802 - the case's id
    assert [limit_of(1.0, None, timeouts) for timeouts in range(4)] == [1.0, 2.0, 4.0, 8.0]
    assert [limit_of("auto", 64, timeouts) for timeouts in range(3)] == [76.0, 152.0, 304.0]


def test_no_attempt_takes_longer_than_a_day() -> None:
    assert limit_of("auto", 10**9, 0) == LONGEST_S == 86_400.0
    assert limit_of(60.0, None, 10_000) == LONGEST_S
    assert after([3600.0 * 20] * 3).next_s(0, 100) == LONGEST_S


@given(st.just("auto") | st.floats(0.001, 1e6), st.none() | st.integers(1, 10**7), st.integers(0, 10**6))
def test_a_further_timeout_never_shortens_the_limit(configured: float | str, max_tokens: int | None, timeouts: int) -> None:
    limit = limit_of(configured, max_tokens, timeouts)
    assert 0 < limit <= limit_of(configured, max_tokens, timeouts + 1) <= LONGEST_S


def test_the_class_says_how_long_auto_is_at_least() -> None:
    assert AttemptLimits("auto", 100, Patience(base_s=20.0, per_token_s=0.1)).next_s(0, 1) == 30.0


@pytest.mark.parametrize("count", [1, 2, 5, 50, 5_000])
def test_a_server_that_is_slow_for_all_is_waited_for(count: int) -> None:
    limit = after([100.0] * count).next_s(0, 100)
    assert 300.0 <= limit <= 360.0


def test_quick_replies_leave_the_limit_as_it_begins() -> None:
    assert after([2.0] * 100).next_s(0, 100) == 60.0


@pytest.mark.parametrize("before", [0, 1, 5, 50, 500])
def test_one_freak_reply_lengthens_no_later_limit_for_long(before: int) -> None:
    limits = after([2.0] * before + [600.0] + [2.0])
    assert limits.next_s(0, 100) == 60.0
    assert limits.durations.quantile(0.5) < 2.5


def test_a_few_long_answers_among_short_ones_are_waited_for() -> None:
    rng = random.Random(3)
    replies = [100.0 if rng.random() < 0.05 else 2.0 for _ in range(2_000)]
    assert after(replies).next_s(0, 100) >= 300.0


def test_a_server_that_has_become_slow_is_followed_and_one_that_has_become_quick_too() -> None:
    limits = after([2.0] * 3_000 + [100.0] * 20)
    assert limits.next_s(0, 100) >= 300.0
    for at in range(10_000):
        limits.on_reply(2.0, 100, 4_000.0 + at)
    assert limits.next_s(0, 100) == 60.0


def test_a_written_limit_learns_nothing() -> None:
    limits = AttemptLimits(30.0, None)
    for at in range(100):
        limits.on_reply(29.0, 100, float(at))
    limits.on_timeout(30.0, 200.0)
    assert limits.next_s(0, 10_000) == 30.0
    assert limits.durations.quantile(0.95) >= 29.0


def test_a_larger_prompt_than_usual_gets_longer_and_a_smaller_one_no_less() -> None:
    limits = after([30.0] * 50)
    usual = limits.next_s(0, 100)
    assert 90.0 <= usual <= 108.0
    assert limits.next_s(0, 10) == usual
    assert limits.next_s(0, 400) == pytest.approx(4 * usual)
    assert limits.next_s(0, 10**7) == pytest.approx(16 * usual)


def test_where_nothing_at_all_came_while_an_attempt_waited_the_next_ones_get_twice_as_long() -> None:
    limits = AttemptLimits("auto", 64)
    for _ in range(6):
        limits.on_timeout(76.0, 76.0)
    assert limits.next_s(0, 100) == 152.0
    assert limits.next_s(1, 100) == 152.0
    assert limits.next_s(2, 100) == 304.0
    limits.on_reply(100.0, 100, 176.5)  # it is as slow as that: what was granted stays, and more
    assert limits.next_s(0, 100) >= 300.0


def test_an_endpoint_that_never_says_anything_gets_no_more_than_four_times_as_long() -> None:
    limits, now = AttemptLimits("auto", 64), 0.0
    for _ in range(10):
        limit = limits.next_s(0, 100)
        now += limit
        limits.on_timeout(limit, now)
    assert limits.next_s(0, 100) == 4 * 76.0


def test_a_quick_reply_takes_back_what_silence_had_granted() -> None:
    limits = AttemptLimits("auto", 64)
    limits.on_timeout(76.0, 76.0)
    limits.on_reply(1.0, 100, 80.0)
    assert limits.next_s(0, 100) == 76.0


def test_NET_01_requests_that_hang_among_others_that_are_answered_lengthen_nothing() -> None:  # noqa: N802 - the case's id
    limits = AttemptLimits("auto", 64)
    for at in range(1_000):
        limits.on_reply(1.0, 100, float(at))
        if at > 100 and at % 10 == 0:
            limits.on_timeout(76.0, float(at))
    assert limits.next_s(0, 100) == 76.0


def test_one_token_stays_short_but_never_below_what_was_seen() -> None:
    limits = AttemptLimits("auto", 1)
    assert limits.next_s(0, 100) == 60.25
    for at in range(30):
        limits.on_reply(90.0, 100, float(at))
    assert limits.next_s(0, 100) >= 270.0


def test_no_reply_no_quantile() -> None:
    assert Durations().quantile(0.95) == 0.0


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_a_time_that_was_seen_to_within_a_fifth(seconds: list[float], share: float) -> None:
    durations = Durations()
    for one in seconds:
        durations.add(one)
    exact = min(max(sorted(seconds)[int(share * (len(seconds) - 1))], 2.0**-10), 2.0**18)
    assert exact * 0.999 <= durations.quantile(share) <= exact * 1.2
