"""Budgets: upper bounds, reservations, and what is booked when a request comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.amounts import counted, money
from headrace.policy.budget import Bound, Budget, Caps, Learnt, Most, Purse, Spent, may_be_billed, shown
from headrace.policy.price import Prices
from headrace.values import Kind, Sent, Usage

PRICES = Prices(1e-6, 4e-6)
MOST = Most(beside=0, answer=100)


def purse(caps: Caps, spent: Spent | None = None, prices: Prices | None = PRICES, most: Most = MOST) -> tuple[Budget, Purse]:
    budget = Budget(caps, spent or Spent())
    return budget, Purse(budget, Bound(most), prices)


def came(one: Purse, size: int, usage: Usage | None, kind: Kind | None = None, sent: Sent = Sent.YES) -> None:
    """One request, there and back."""
    assert one.takes(size)
    one.settle(one.reserve(size), size, usage, kind=kind, sent=sent)


# -- the bound of a request


def test_a_prompt_has_no_more_tokens_than_bytes_and_what_the_template_adds() -> None:
    assert Bound(Most(beside=512, answer=64)).of(1_000) == (1_512, 64)


def test_what_the_template_adds_is_at_most_the_shortest_whole_prompt() -> None:
    bound = Bound(Most(beside=512, answer=64))
    bound.learn(1_000, Usage(300, 10))
    bound.learn(20, Usage(30, 10))
    bound.learn(1_000, Usage(300, 10))
    assert bound.of(1_000) == (1_030, 64)


def test_a_prompt_that_had_more_than_its_bound_raises_that_of_all_others() -> None:
    bound = Bound(Most(beside=10, answer=64))
    bound.learn(100, Usage(1_110, 10))  # an image behind an address
    assert bound.of(100) == (1_110, 64)
    bound.learn(100, Usage(1_110, 10))
    assert bound.of(100) == (1_110, 64)


def test_an_answer_that_was_longer_than_it_may_be_is_what_the_next_may_be() -> None:
    bound = Bound(MOST)
    bound.learn(1, Usage(1, 900))
    assert bound.of(0) == (0, 900)


def test_reasoning_that_a_server_counts_beside_its_answers_is_spent_too() -> None:
    budget, one = purse(Caps(tokens=10_000), most=Most(beside=0, answer=50))
    one.settle(one.reserve(100), 100, Usage(100, 10, reasoning=8), kind=None, sent=Sent.YES)
    assert budget.spent[1] == 110
    one.settle(one.reserve(100), 100, Usage(100, 10, reasoning=400), kind=None, sent=Sent.YES)
    assert budget.spent[1] == 110 + 510
    assert one.bound.of(100) == (100, 410)


def test_a_count_that_is_not_told_teaches_nothing() -> None:
    bound = Bound(Most(10, 20))
    bound.learn(1, Usage(None, None))
    assert bound.of(0) == (10, 20)


def test_nothing_is_longer_than_what_the_server_holds_of_a_request() -> None:
    bound = Bound(Most(beside=512))
    bound.allow(8_192)
    assert bound.of(100_000) == (8_192, 8_192)
    bound.allow(None)
    assert bound.of(1)[1] == Most().answer


def test_what_was_learnt_is_told_once_and_makes_an_equal_bound() -> None:
    bound, told = Bound(Most(beside=512, answer=64)), []
    bound.on_learnt = lambda: told.append(bound.learnt)
    for usage in (Usage(30, 10), Usage(30, 10), Usage(None, None), Usage(1_030, 10), Usage(20, 900)):
        bound.learn(100, usage)
    bound.allow(8_192)
    bound.allow(8_192)
    assert told == [
        Learnt(30, 64), Learnt(30, 64, 900), Learnt(20, 900, 900), Learnt(20, 900, 900, 8_192),
    ]  # fmt: skip
    assert Bound(told[-1]).of(1_000) == bound.of(1_000) == (1_920, 900)


# -- reserving and settling


def test_what_is_reserved_counts_until_it_is_back() -> None:
    budget, one = purse(Caps(tokens=1_000))
    first = one.reserve(700)
    assert not one.takes(101)
    assert one.takes(100)
    one.settle(first, 700, Usage(200, 50), kind=None, sent=Sent.YES)
    assert one.takes(650)
    assert not one.takes(651)
    assert budget.spent == [pytest.approx(400e-6), 250.0, 1.0]


def test_a_purse_is_closed_until_something_comes_back() -> None:
    budget, one = purse(Caps(requests=2))
    other = Purse(budget, Bound(MOST), PRICES)
    first, _ = one.reserve(1), one.reserve(1)
    assert not one.takes(1)
    assert one.is_closed
    assert not other.is_closed
    one.give_back(first)
    assert not one.is_closed
    assert one.takes(1)


def test_the_dearer_endpoint_closes_while_the_cheaper_one_still_takes() -> None:
    budget = Budget(Caps(cost=1e-3))
    cheap, dear = Purse(budget, Bound(MOST), PRICES), Purse(budget, Bound(MOST), Prices(1e-5, 4e-5))
    assert not dear.takes(100)
    assert cheap.takes(100)


@pytest.mark.parametrize(
    ("usage", "kind", "sent", "spent"),
    [
        (Usage(30, 5), None, Sent.YES, (50e-6, 35, 1)),
        (Usage(30, 5), Kind.CONTENT_FILTER, Sent.YES, (50e-6, 35, 1)),
        (None, None, Sent.YES, (500e-6, 200, 1)),  # an answer without usage
        (Usage(30, None), None, Sent.YES, (500e-6, 200, 1)),
        (None, Kind.TIMEOUT, Sent.MAYBE, (500e-6, 200, 1)),  # possibly billed
        (None, Kind.RATE_LIMITED, Sent.YES, (0, 0, 1)),
        (None, Kind.SERVER_ERROR, Sent.YES, (0, 0, 1)),
        (None, Kind.CONNECTION, Sent.NO, (0, 0, 0)),  # nothing left this machine
    ],
)
def test_what_came_is_booked_by_usage_or_whole_where_it_may_have_been_billed(
    usage: Usage | None, kind: Kind | None, sent: Sent, spent: tuple[float, float, float]
) -> None:
    budget, one = purse(Caps(cost=1.0))
    came(one, 100, usage, kind, sent)
    assert budget.spent == pytest.approx(list(spent))
    assert budget.reserved == [0.0, 0.0, 0.0]
    assert budget.unknown == (usage is None or usage.completion is None) * (spent[1] > 0)


def test_where_nothing_is_limited_money_is_counted_all_the_same() -> None:
    budget, one = purse(Caps())
    assert one.takes(10**12)
    came(one, 100, Usage(30, 5))
    assert budget.cost == pytest.approx(50e-6)
    assert one.has_prices


def test_tokens_are_limited_without_any_price() -> None:
    budget, one = purse(Caps(tokens=250), prices=Prices(1e-6, None))
    came(one, 100, Usage(100, 50))
    assert budget.cost == 0.0
    assert not one.has_prices
    assert not one.takes(1)


def test_a_budget_goes_on_where_an_earlier_process_stopped() -> None:
    _, one = purse(Caps(cost=1.0, tokens=1_000, requests=10), Spent(0.1, 0.2, 950.0, 3, 1))
    assert not one.takes(0)
    assert one.refusal[:2] == ("max_total_tokens", 0)
    assert one.refusal[2] == (
        "limits.max_total_tokens = 1,000 tokens: 950 tokens counted (1 request of unknown use whole), and the next request "
        "may take 100 tokens; raise the limit to go on"
    )


def test_each_limit_says_once_that_it_is_near() -> None:
    said: list[str] = []
    budget, one = purse(Caps(cost=1.0, requests=100))
    budget.on_near = said.append
    for _ in range(3):
        came(one, 270_000, Usage(270_000, 0))
    assert said == ["limits.max_cost: 0.8100 USD of 1.00 USD are spent (81%)."]


def test_a_limit_that_is_near_by_what_is_not_known_says_so() -> None:
    said: list[str] = []
    budget = Budget(Caps(tokens=1000), Spent(0.0, 0.0, 900.0, 3, 2))
    budget.on_near = said.append
    budget.look()
    assert said == ["limits.max_total_tokens: 900 tokens of 1,000 tokens are spent or may have been (90%)."]


def test_what_was_refused_once_is_known_after_it_has_opened_again() -> None:
    budget, one = purse(Caps(requests=1))
    assert not one.has_refused
    amounts = one.reserve(100)
    assert not one.takes(100)
    one.give_back(amounts)
    assert (one.is_closed, one.has_refused, budget.in_flight) == (False, True, 0)


def test_nobody_need_listen() -> None:
    budget = Budget(Caps(requests=1), Spent(requests=1))
    budget.look()
    assert not budget.exceeded((0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (Caps(cost=20.0), "limits.max_cost = 20.00 USD: 20.00 USD spent, and the next request may take 0.000101 USD"),
        (Caps(requests=7), "limits.max_requests = 7 requests: 7 requests spent, and the next request is one more"),
    ],
)
def test_a_refusal_says_the_limit_what_is_spent_and_what_is_wanted(caps: Caps, words: str) -> None:
    budget, one = purse(caps, Spent(20.0, 20.0, 1.0, 7), most=Most(0, 0))
    assert not one.takes(101)
    assert one.refusal[2] == words + "; raise the limit to go on"
    assert budget.in_flight == 0


def test_a_refusal_says_what_is_counted_whole() -> None:
    _, one = purse(Caps(tokens=100, requests=9), Spent(0.0, 0.0, 90.0, 8, unknown=3), most=Most(0, 0))
    assert not one.takes(101)
    assert "90 tokens counted (3 requests of unknown use whole), and the next" in one.refusal[2]
    _, one = purse(Caps(requests=8), Spent(0.0, 0.0, 90.0, 8, unknown=3), most=Most(0, 0))
    assert not one.takes(101)
    assert "8 requests spent, and the next" in one.refusal[2]


def test_caps_are_true_where_anything_is_limited() -> None:
    assert not Caps()
    assert Caps(cost=1.0)
    assert Caps(tokens=1)
    assert Caps(requests=1)


@given(
    limit=st.integers(500, 5_000),
    steps=st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1), st.booleans(), st.sampled_from(["usage", "lost", "refused"]))),
)
def test_what_is_spent_and_in_flight_never_exceeds_a_limit(limit: int, steps: list[tuple[int, float, bool, str]]) -> None:
    budget, one = purse(Caps(tokens=limit, cost=limit * 3e-6, requests=40))
    out: list[tuple[int, tuple[float, float, float]]] = []
    for size, share, returns, how in steps:
        if one.takes(size):
            out.append((size, one.reserve(size)))
        if returns and out:
            back, amounts = out.pop(0)
            usage = Usage(int(back * share), int(100 * share)) if how == "usage" else None
            kind = None if how == "usage" else Kind.TIMEOUT if how == "lost" else Kind.OVERLOADED
            one.settle(amounts, back, usage, kind=kind, sent=Sent.MAYBE if how == "lost" else Sent.YES)
        held = [spent + reserved for spent, reserved in zip(budget.spent, budget.reserved, strict=True)]
        assert held[0] <= limit * 3e-6 * (1 + 1e-8)
        assert held[1] <= limit
        assert held[2] <= 40
    for _, amounts in out:
        one.give_back(amounts)
    assert budget.reserved == [0.0, 0.0, 0.0]


# -- words


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0.0, "0.00"),
        (1234.5, "1,234.50"),
        (20.0, "20.00"),
        (0.0412, "0.0412"),
        (0.00182325, "0.00182"),
        (1.5e-07, "0.000000150"),
        (1e-10, "0.000000000100"),
        (1e-30, "1e-30"),
    ],
)
def test_money_is_never_nothing_where_it_is_something(amount: float, words: str) -> None:
    assert money(amount) == words


def test_amounts_are_said_in_their_unit() -> None:
    assert shown(1_000, "max_total_tokens") == "1,000 tokens"
    assert shown(3, "max_requests") == "3 requests"
    assert shown(0.5, "max_cost") == "0.5000 USD"


def test_a_refusal_by_status_is_not_billed() -> None:
    assert may_be_billed(None, "yes")
    assert may_be_billed("truncated", "yes")
    assert may_be_billed("timeout", "maybe")
    assert not may_be_billed("overloaded", "yes")
    assert not may_be_billed("connection", "no")


@pytest.mark.parametrize(("count", "words"), [(0, "0 retries"), (1, "1 retry"), (1234, "1,234 retries")])
def test_one_is_no_plural(count: int, words: str) -> None:
    assert counted(count, "retry", "retries") == words
    assert counted(1, "request") == "1 request"
    assert counted(2, "request") == "2 requests"
