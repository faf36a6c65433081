from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.timeout import LONGEST_S, attempt_timeout_s


@pytest.mark.parametrize(("max_tokens", "seconds"), [(None, 60.0), (1, 60.25), (64, 76.0), (4_000, 1_060.0)])
def test_auto_grows_with_the_tokens_that_may_come(max_tokens: int | None, seconds: float) -> None:
    assert attempt_timeout_s("auto", max_tokens, 0) == seconds


def test_a_written_limit_does_not_depend_on_tokens() -> None:
    assert attempt_timeout_s(45.0, 100_000, 0) == 45.0


def test_RTL_08_each_timeout_doubles_the_limit() -> None:  # noqa: N802 - the case's id
    assert [attempt_timeout_s(1.0, None, timeouts) for timeouts in range(4)] == [1.0, 2.0, 4.0, 8.0]
    assert [attempt_timeout_s("auto", 64, timeouts) for timeouts in range(3)] == [76.0, 152.0, 304.0]


def test_no_attempt_takes_longer_than_a_day() -> None:
    assert attempt_timeout_s("auto", 10**9, 0) == LONGEST_S == 86_400.0
    assert attempt_timeout_s(60.0, None, 10_000) == LONGEST_S


@given(st.just("auto") | st.floats(0.001, 1e6), st.none() | st.integers(1, 10**7), st.integers(0, 10**6))
def test_a_further_timeout_never_shortens_the_limit(configured: float | str, max_tokens: int | None, timeouts: int) -> None:
    limit = attempt_timeout_s(configured, max_tokens, timeouts)
    assert 0 < limit <= attempt_timeout_s(configured, max_tokens, timeouts + 1) <= LONGEST_S


def test_auto_gives_three_times_what_the_slowest_reply_took() -> None:
    assert attempt_timeout_s("auto", None, 0, slowest_s=49.0) == 147.0
    assert attempt_timeout_s("auto", None, 0, slowest_s=2.0) == 60.0
    assert attempt_timeout_s(30.0, None, 0, slowest_s=49.0) == 30.0
