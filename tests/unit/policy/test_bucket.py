from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.bucket import BURST_S, Rates
from headrace.values import Limit, Usage


def spend(rates: Rates, seconds: float, size: int = 1000, usage: Usage | None = None, began: float = 0.0) -> list[float]:
    """Send whatever may go; returns the times."""
    now, sent = began, []
    while now < began + seconds:
        if now >= rates.ready_at:
            sent.append(now)
            reserved = rates.reserve(now, size)
            if usage is not None:
                rates.settle(now, reserved, size, usage)
        now = max(now + 0.001, min(rates.ready_at, began + seconds))
    return sent


def test_without_a_limit_nothing_is_held_back() -> None:
    rates = Rates()
    assert not rates.is_on
    assert rates.ready_at == 0.0


def test_requests_are_spent_evenly() -> None:
    sent = spend(Rates(600), 60)
    assert len(sent) == pytest.approx(600, abs=2)
    for second in range(60):
        assert sum(second <= at < second + 1 for at in sent) <= 11


def test_time_in_which_nothing_went_is_saved_for_half_a_second_only() -> None:
    rates = Rates(600)
    rates.reserve(0.0, 10)
    sent = spend(rates, 1.0, began=100.0)
    assert len(sent) <= 10 + 600 / 60 * BURST_S + 1


def test_tokens_are_settled_by_usage() -> None:
    sent = spend(Rates(None, 60_000), 120, usage=Usage(400, 100))
    assert len(sent) == pytest.approx(60_000 * 2 / 500, rel=0.02)


def test_estimates_follow_what_the_server_counts() -> None:
    rates = Rates(None, 60_000, longest=4000)
    assert rates.reserve(0.0, 1000)[1] == 4000
    rates.settle(0.0, (300.0, 4000.0), 1000, Usage(250, 20))
    assert rates.reserve(10.0, 2000) == (pytest.approx(500), pytest.approx(20))


def test_what_was_not_charged_is_given_back() -> None:
    rates = Rates(None, 60_000)
    before = rates.ready_at
    reserved = rates.reserve(0.0, 3000)
    assert rates.ready_at > before
    rates.settle(0.0, reserved, 3000, None, is_charged=False)
    assert rates.ready_at == pytest.approx(before)


@pytest.mark.parametrize("usage", [None, Usage(), Usage(completion=20)])
def test_what_was_charged_and_not_counted_stays_reserved(usage: Usage | None) -> None:
    rates = Rates(None, 60_000)
    reserved = rates.reserve(0.0, 3000)
    before = rates.ready_at
    rates.settle(0.0, reserved, 3000, usage)
    assert rates.ready_at == before
    assert rates.reserve(0.0, 3000) == reserved  # and nothing was learnt from it


def test_where_requests_alone_are_limited_their_tokens_cost_nothing_and_are_learnt_all_the_same() -> None:
    rates = Rates(requests_per_minute=600)
    rates.settle(0.0, rates.reserve(0.0, 1000), 1000, Usage(100_000, 5_000))
    assert rates.ready_at == pytest.approx(0.1)
    assert rates.reserve(10.0, 1000) == (pytest.approx(100_000), pytest.approx(5_000))


def test_a_request_that_costs_more_than_a_minute_still_goes() -> None:
    rates = Rates(None, 1000)
    rates.reserve(0.0, 100_000)
    assert 60 < rates.ready_at < 10_000


def test_limits_are_learnt_and_the_lower_of_two_counts() -> None:
    rates = Rates(requests_per_minute=300)
    rates.on_limits([Limit("requests", 600, 500, 10), Limit("tokens", 60_000, 59_000, 1)], 5.0)
    sent = spend(rates, 60, usage=Usage(100, 10), began=5.0)
    assert len(sent) == pytest.approx(300, abs=4)
    tokens = spend(rates, 60, usage=Usage(900, 100), began=100.0)
    assert len(tokens) == pytest.approx(60, abs=3)


def test_a_limit_per_day_is_not_spent_as_one_per_minute() -> None:
    rates = Rates()
    rates.on_limits([Limit("requests", 14_400, 14_370, 179.56)], 0.0)  # by the day, as Groq has it
    rates.on_limits([Limit("requests", 10_000, 9_999, 8.64)], 0.0)
    rates.on_limits([Limit("requests", 1000, 10, 50_000.0, None, refills=False)], 0.0)
    rates.on_limits([Limit("requests", 1000, 900, 50.0, 86_400.0, refills=False)], 0.0)
    assert not rates.is_on


def test_what_others_spend_slows_the_pace_and_it_returns() -> None:
    rates = Rates()
    rates.on_limits([Limit("requests", 600, 12, 58.8)], 0.0)
    assert len(spend(rates, 60)) == pytest.approx(120, abs=3)
    rates.on_limits([Limit("requests", 600, 300, 30.0)], 60.0)
    assert len(spend(rates, 60, began=60.0)) == pytest.approx(600, abs=5)


def test_a_window_that_ends_soon_is_spent_to_its_end() -> None:
    rates = Rates()
    rates.on_limits([Limit("requests", 600, 30, 2.5, None, refills=False)], 0.0)
    assert len(spend(rates, 2.5)) == pytest.approx(25, abs=2)


def test_input_and_output_tokens_are_counted_apart() -> None:
    rates = Rates()
    rates.on_limits([Limit("input_tokens", 60_000, 60_000), Limit("output_tokens", 6_000, 6_000)], 0.0)
    assert len(spend(rates, 60, usage=Usage(100, 100))) == pytest.approx(60, abs=4)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 5000), st.integers(0, 3000)), min_size=1, max_size=100))
def test_over_any_life_no_more_is_spent_than_allowed(sends: list[tuple[float, int, int]]) -> None:
    rates, now, spent, largest = Rates(None, 6000), 0.0, 0.0, 0.0
    for pause, size, tokens in sends:
        now = max(now + pause, rates.ready_at)
        rates.settle(now, rates.reserve(now, size), size, Usage(tokens, 0))
        spent += tokens
        largest = max(largest, tokens)
        assert spent <= (now + BURST_S) * 100 + largest + 1e-6


def test_a_reservation_stands_where_nothing_is_known_of_the_use() -> None:
    known, unknown = Rates(tokens_per_minute=6000), Rates(tokens_per_minute=6000)
    for rates, usage in ((known, Usage(prompt=1, completion=1)), (unknown, None)):
        rates.settle(0.0, rates.reserve(0.0, 4000), 4000, usage)
    assert known.ready_at < unknown.ready_at


def test_use_in_tokens_changes_no_limit_on_requests() -> None:
    rates = Rates(requests_per_minute=60)
    reserved = rates.reserve(0.0, 1000)
    before = rates.ready_at
    rates.settle(0.0, reserved, 1000, Usage(prompt=10_000, completion=10))
    assert rates.ready_at == before
