"""Prices: what a request cost by its usage, and what it may cost at most."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.price import Batch, Prices, Tier, amount, per_million, self_hosted, told_apart
from headrace.values import Usage

GPT_4O = Prices(2.5e-06, 1e-05, 1.25e-06, batch=Batch(1.25e-06, 5e-06))
SONNET = Prices(3e-06, 1.5e-05, 3e-07, 3.75e-06, batch=Batch(1.5e-06, 7.5e-06))
LONG = Prices(1e-06, 4e-06, 1e-07, reasoning=5e-06, tiers=(Tier(128_000, 2e-06, 8e-06, 2e-07), Tier(200_000, 4e-06, None, None)))


def about(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


# -- worked values


def test_a_million_of_which_400_000_cached_and_200_000_out_cost_four_dollars() -> None:
    assert GPT_4O.cost(Usage(1_000_000, 200_000, 400_000)) == about(4.00)


def test_the_same_through_a_batch_costs_two_dollars_and_a_quarter() -> None:
    assert GPT_4O.as_batch().cost(Usage(1_000_000, 200_000)) == about(2.25)


def test_a_batch_price_that_is_not_listed_is_not_known() -> None:
    assert Prices(2.8e-07, 4.2e-07).as_batch().cost(Usage(10, 10)) is None
    assert not Prices(2.8e-07, 4.2e-07).as_batch().known


def test_cached_tokens_are_inside_the_prompt_or_beside_it() -> None:
    inside = SONNET.cost(Usage(1_000, 100, 400))
    beside = SONNET.cost(Usage(600, 100, 400), cached_included=False)
    assert inside == beside == about(600 * 3e-06 + 400 * 3e-07 + 100 * 1.5e-05)


def test_tokens_written_into_the_cache_are_dearer_where_the_list_says_so() -> None:
    assert SONNET.cost(Usage(600, 0, 400), cached_included=False, written=1_000) == about(
        600 * 3e-06 + 400 * 3e-07 + 1_000 * 3.75e-06
    )
    assert GPT_4O.cost(Usage(600, 0), written=600) == about(600 * 2.5e-06)


def test_reasoning_is_inside_the_answer() -> None:
    assert GPT_4O.cost(Usage(0, 1_000, None, 900)) == about(1_000 * 1e-05)
    assert LONG.cost(Usage(0, 1_000, None, 900)) == about(100 * 4e-06 + 900 * 5e-06)


def test_more_reasoning_than_answer_was_counted_beside_it() -> None:
    assert GPT_4O.cost(Usage(0, 100, None, 900)) == about(1_000 * 1e-05)
    assert LONG.cost(Usage(0, 100, None, 900)) == about(100 * 4e-06 + 900 * 5e-06)


def test_prices_per_million_are_not_prices_per_token() -> None:
    assert per_million(0.15) == about(1.5e-07)
    assert per_million(None) is None


def test_a_machine_of_two_dollars_an_hour_at_2_500_tokens_a_second_costs_22_cents_a_million() -> None:
    assert self_hosted(2.00, 1, 2_500) * 1e6 == pytest.approx(0.2222, abs=5e-05)
    assert self_hosted(2.00, 4, 2_500) == about(4 * self_hosted(2.00, 1, 2_500))


# -- what is not known stays so


@pytest.mark.parametrize("prices", [Prices(), Prices(input=1e-06), Prices(output=1e-06)])
def test_a_price_that_is_not_known_makes_no_cost(prices: Prices) -> None:
    assert prices.cost(Usage(10, 10)) is None
    assert prices.most(10, 10) is None
    assert not prices.known


def test_a_count_that_is_not_known_makes_no_cost() -> None:
    assert GPT_4O.cost(Usage(None, 10)) is None
    assert GPT_4O.cost(Usage(10, None)) is None


def test_an_answer_that_costs_nothing_need_not_be_counted() -> None:
    assert Prices(1e-06, 0.0).cost(Usage(10, None)) == about(1e-05)


def test_free_is_known() -> None:
    assert Prices(0.0, 0.0).cost(Usage(10, 10)) == 0.0
    assert Prices(0.0, 0.0).known


def test_a_share_that_is_not_priced_apart_costs_as_the_whole() -> None:
    assert Prices(1e-06, 2e-06).cost(Usage(100, 10, 90, 5)) == about(100e-06 + 20e-06)


def test_a_server_that_counts_more_cached_than_prompt_is_not_believed() -> None:
    assert GPT_4O.cost(Usage(100, 0, 900)) == about(100 * 1.25e-06)


def test_a_request_may_cost_something_by_itself() -> None:
    assert Prices(1e-06, 1e-06, request=0.01).cost(Usage(0, 0)) == about(0.01)


# -- tiers


@pytest.mark.parametrize(("prompt", "each"), [(128_000, 1e-06), (128_001, 2e-06), (200_000, 2e-06), (200_001, 4e-06)])
def test_a_long_prompt_is_dearer_as_a_whole(prompt: int, each: float) -> None:
    assert LONG.cost(Usage(prompt, 0)) == about(prompt * each)


def test_what_a_tier_does_not_price_costs_as_below_and_has_no_discount_of_a_cheaper_one() -> None:
    high = LONG.at(200_001)
    assert (high.output, high.cached_input, high.reasoning) == (8e-06, None, None)


# -- the bound


def test_the_bound_takes_the_dearest_that_a_token_can_become() -> None:
    assert SONNET.most(1_000, 100) == about(1_000 * 3.75e-06 + 100 * 1.5e-05)
    assert LONG.most(1_000, 100) == about(1_000 * 1e-06 + 100 * 5e-06)


def test_a_prompt_that_may_reach_a_tier_is_bound_by_it() -> None:
    assert LONG.most(128_001, 0) == about(128_001 * 2e-06)
    assert LONG.most(128_000, 0) == about(128_000 * 1e-06)


prices = st.floats(0, 1e-3)
parts = st.none() | prices


@given(
    priced=st.builds(
        Prices, prices, prices, parts, parts, parts, request=prices,
        tiers=st.lists(st.builds(Tier, st.integers(0, 3_000), parts, parts, parts, parts, parts), max_size=3).map(
            lambda tiers: tuple(sorted(tiers, key=lambda tier: tier.above))
        ),
    ),
    most_prompt=st.integers(0, 5_000), most_completion=st.integers(0, 5_000), data=st.data(),
)  # fmt: skip
def test_no_usage_within_the_bound_costs_more(
    priced: Prices, most_prompt: int, most_completion: int, data: st.DataObject
) -> None:
    prompt, completion = data.draw(st.integers(0, most_prompt)), data.draw(st.integers(0, most_completion))
    cached = data.draw(st.integers(0, prompt))
    usage = Usage(prompt, completion, cached, data.draw(st.integers(0, completion)))
    cost, bound = (
        priced.cost(usage, written=data.draw(st.integers(0, prompt - cached))),
        priced.most(most_prompt, most_completion),
    )
    assert cost is not None
    assert bound is not None
    assert cost <= bound * (1 + 1e-9) + 1e-12


# -- figures as lists write them


@pytest.mark.parametrize(
    ("written", "price"),
    [
        ("0", 0.0), ("0.0000025", 2.5e-06), (2.5e-06, 2.5e-06), (0, 0.0), ("-1", None), (-1, None), (None, None), (True, None),
        ("free", None), (math.nan, None), ("inf", None), ([], None), (10**400, None),
    ],
)  # fmt: skip
def test_an_amount_is_a_number_that_is_a_price(written: object, price: float | None) -> None:
    assert amount(written) == price


def test_nothing_for_a_share_of_what_costs_something_is_no_price() -> None:
    assert told_apart(0.0, 1e-06) is None
    assert told_apart(0.0, 0.0) == 0.0
    assert told_apart(1e-07, 1e-06) == 1e-07
