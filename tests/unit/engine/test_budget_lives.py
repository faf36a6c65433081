"""Budgets in the real engine on virtual time: never exceeded, at whatever concurrency, crash or fault; raised and gone on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.engine.bounds import learnt_before
from headrace.engine.knobs import Ending, Knobs, Pace
from headrace.events import Event, Progress, Stopping, Warned
from headrace.policy.budget import Caps, Learnt, Most
from headrace.policy.price import Prices
from headrace.testing import FakeEndpoint, Laws
from headrace.testing.life import Life, payload_of
from headrace.values import Failure, Kind, Origin, Reply, Sent, State, Usage

PRICES = Prices(1e-6, 4e-6, 5e-7)
MOST = Most(beside=8, answer=16)  # the fake answers with the prompt's last 60 characters at most
TEXTS = [f"text {n} " + "x" * (n * 7 % 50) for n in range(120)]
LAWS = Laws(latency_ms=50, jitter=0.5, answer="echo:60")


def bill(endpoints: Sequence[FakeEndpoint]) -> tuple[float, int]:
    """What the endpoints themselves charge, in USD and tokens."""
    parts = [Usage(one.prompt_tokens, one.completion_tokens, one.cached_tokens) for one in endpoints]
    return sum(PRICES.cost(part) or 0.0 for part in parts), sum((part.prompt or 0) + (part.completion or 0) for part in parts)


def life(caps: Caps, endpoint: Any = None, *, pace: Any = None, texts: Sequence[str] = TEXTS, **more: Any) -> Life:
    knobs = Knobs(run="life", config=1, caps=caps, most=MOST, **more)
    return Life(texts, endpoint or FakeEndpoint(LAWS), knobs=knobs, pace=pace or Pace(8), prices=PRICES)


def watched(one: Life) -> list[Event]:
    told: list[Event] = []
    one.observers = [told.append]
    return told


def ended(one: Life, seed: int = 1) -> Ending:
    ending = one.step(seed)
    assert ending is not None
    return ending


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    concurrency=st.sampled_from([1, 2, 3, 8, 32, 100, 256]), tuned=st.booleans(), seed=st.integers(0, 10**6),
    cost=st.floats(0.0001, 0.008), faults=st.sampled_from([{}, {"overload_rate": 0.3}, {"reset_rate": 0.2}, {"error_rate": 0.2}]),
)  # fmt: skip
def test_a_budget_is_never_exceeded_at_any_concurrency(
    concurrency: int, tuned: bool, seed: int, cost: float, faults: dict[str, float]
) -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=50, jitter=0.5, answer="echo:60", seed=seed, **faults))  # type: ignore[arg-type]
    one = life(Caps(cost=cost), endpoint, pace=Pace(concurrency, (1, 256) if tuned else None))
    ending = ended(one, seed)
    charged, _ = bill([endpoint])
    assert charged <= cost
    assert one.ledger.spent(PRICES).at_most <= cost * (1 + 1e-9)
    assert (ending.reason, ending.exit_code) in {(None, 0), ("max_cost", 5)}
    assert ending.reason == "max_cost" or one.ledger.unsettled() == 0


@pytest.mark.parametrize("concurrency", [1, 16, 256])
def test_what_is_left_is_less_than_one_request(concurrency: int) -> None:
    one = life(Caps(tokens=1_500), pace=Pace(concurrency))
    assert ended(one).reason == "max_total_tokens"
    longest = max(len(payload_of(text)) for text in TEXTS) + MOST.beside + MOST.answer
    assert 1_500 - longest < one.ledger.spent(PRICES).tokens <= 1_500


def test_what_runs_at_the_pace_of_its_budget_is_bound_by_the_limit() -> None:
    slow = FakeEndpoint(Laws(latency_ms=700, jitter=0.5, answer="echo:60"))
    one = life(Caps(tokens=1_500), slow, pace=Pace(6, (1, 256)))
    assert ended(one).reason == "max_total_tokens"
    bounds = [sample.bound_by for sample in one.ledger.samples]
    assert len(bounds) > 10
    assert "ledger" not in bounds
    assert Counter(bounds[-10:]).most_common(1)[0][0] == "limit"


def test_requests_are_counted_to_the_last_one() -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=20, fail_once_rate=0.3, answer="echo:60"))
    one = life(Caps(requests=50), endpoint)
    ending = ended(one)
    assert (ending.reason, ending.exit_code) == ("max_requests", 5)
    assert ending.message is not None
    assert ending.message.startswith("limits.max_requests = 50 requests: 50 requests spent")
    assert endpoint.requests_seen == 50


def test_a_connection_that_is_refused_is_no_request() -> None:
    refused = Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True)
    endpoint = FakeEndpoint(LAWS, outages=[(0.0, 5.0, refused)])
    one = life(Caps(requests=len(TEXTS)), endpoint)
    assert ended(one).reason is None
    assert endpoint.requests_seen > len(TEXTS)


def test_raised_it_goes_on_and_asks_nothing_twice() -> None:
    endpoint = FakeEndpoint(LAWS)
    one = life(Caps(cost=0.001), endpoint)
    assert ended(one).reason == "max_cost"
    done = one.count(State.DONE)
    assert 0 < done < len(TEXTS)
    one.knobs = replace(one.knobs, caps=Caps(cost=1.0))
    assert ended(one, 2).reason is None
    assert endpoint.requests_seen == len(TEXTS)


def test_the_same_limit_again_sends_nothing() -> None:
    endpoint = FakeEndpoint(LAWS)
    one = life(Caps(cost=0.001), endpoint, order="input")
    ended(one)
    before = endpoint.requests_seen
    again = ended(one, 2)
    assert (again.reason, endpoint.requests_seen) == ("max_cost", before)
    assert one.ledger.unsettled() == len(TEXTS) - one.count(State.DONE)
    assert not one.count(State.LEASED)


def test_a_budget_that_no_request_fits_says_so_and_sends_nothing() -> None:
    endpoint = FakeEndpoint(LAWS)
    ending = ended(life(Caps(tokens=20), endpoint))
    assert ending.message is not None
    assert "the next request may take" in ending.message
    assert endpoint.requests_seen == 0


def test_retries_and_re_asks_count() -> None:
    wrong = Reply("", finish="stop", usage=Usage(10, 1))
    endpoint = FakeEndpoint(LAWS, script=lambda _request, n: wrong if n == 0 else None)
    one = life(Caps(requests=2 * len(TEXTS) - 1), endpoint)
    assert ended(one).reason == "max_requests"
    assert endpoint.requests_seen == 2 * len(TEXTS) - 1
    one = life(Caps(), FakeEndpoint(LAWS, script=lambda _request, n: wrong if n == 0 else None))
    ended(one)
    assert one.ledger.spent(PRICES).cost > len(TEXTS) * 14e-6


@pytest.mark.parametrize("kill_at_s", [0.06, 0.2, 0.5])
def test_what_a_crash_left_in_flight_counts_whole(kill_at_s: float) -> None:
    endpoint = FakeEndpoint(LAWS)
    one = life(Caps(tokens=6_000), endpoint)
    assert one.step(1, kill_at_s=kill_at_s) is None
    left = one.count(State.LEASED)
    assert left
    ending = ended(one, 2)
    assert ending.reason in {None, "max_total_tokens"}
    lost = [attempt for attempt in one.ledger.attempts if attempt.origin is Origin.LOST]
    assert len(lost) == left
    assert all(attempt.most is not None for attempt in lost)
    assert bill([endpoint])[1] <= one.ledger.spent(PRICES).tokens <= 6_000


def test_a_second_ctrl_c_books_what_it_cut_whole() -> None:
    endpoint = FakeEndpoint(LAWS)
    one = life(Caps(tokens=100_000), endpoint)
    one.step(1, interrupt_at_s=(0.1, 0.11))
    spent = one.ledger.spent(PRICES)
    assert spent.unknown == sum(attempt.origin is Origin.LOST for attempt in one.ledger.attempts) > 0
    assert spent.tokens >= bill([endpoint])[1] + spent.unknown * MOST.answer


def test_an_answer_without_usage_counts_whole() -> None:
    bare = FakeEndpoint(LAWS, script=lambda request, _n: Reply("ok", finish="stop"))
    one = life(Caps(tokens=2_000), bare)
    assert ended(one).reason == "max_total_tokens"
    assert one.ledger.spent(PRICES).tokens <= 2_000
    assert one.ledger.spent(PRICES).unknown == one.count(State.DONE)


def test_overload_costs_nothing_however_often_it_comes() -> None:
    busy = Failure(Kind.OVERLOADED, "busy", status=503)
    endpoint = FakeEndpoint(LAWS, script=lambda _request, n: busy if n < 5 else None)
    one = life(Caps(cost=0.02), endpoint)
    assert ended(one).reason is None
    assert one.ledger.spent(PRICES).at_most == pytest.approx(bill([endpoint])[0])


def test_one_warning_comes_at_four_fifths() -> None:
    one = life(Caps(requests=100))
    told = watched(one)
    ended(one)
    warnings = [event.message for event in told if isinstance(event, Warned)]
    assert warnings == ["limits.max_requests: 80 requests of 100 requests are spent (80%)."]


def test_the_live_line_knows_the_money() -> None:
    endpoint = FakeEndpoint(LAWS)
    one = life(Caps(), endpoint)
    told = watched(one)
    ended(one)
    last = [event for event in told if isinstance(event, Progress)][-1]
    assert last.spent == pytest.approx(bill([endpoint])[0])
    assert last.spent_is_all


def test_without_prices_the_live_line_says_nothing_of_money() -> None:
    one = life(Caps(requests=10_000))
    one.prices = None
    told = watched(one)
    ended(one)
    assert all(event.spent is None for event in told if isinstance(event, Progress))


def test_two_endpoints_share_one_budget() -> None:
    fast, slow = FakeEndpoint(LAWS, name="fast"), FakeEndpoint(Laws(latency_ms=300, answer="echo:60"), name="slow")
    one = life(Caps(cost=0.002), [fast, slow])
    assert ended(one).reason == "max_cost"
    assert bill([fast, slow])[0] <= 0.002


def test_an_endpoint_that_is_down_does_not_keep_a_spent_budget_waiting() -> None:
    down = FakeEndpoint(LAWS, outages=[(0.0, 10**9, Failure(Kind.SERVER_ERROR, "boom", status=500))], name="down")
    one = life(Caps(cost=0.002), [FakeEndpoint(LAWS, name="up"), down])
    told = watched(one)
    assert ended(one).reason == "max_cost"
    assert [event.reason for event in told if isinstance(event, Stopping)] == ["max_cost"]


def test_a_prompt_that_no_bound_foresaw_costs_one_set_in_flight_at_most() -> None:
    picture = Reply("ok", finish="stop", usage=Usage(1_000, 1))
    endpoint = FakeEndpoint(LAWS, script=lambda _request, _n: picture)
    one = life(Caps(tokens=20_000), endpoint, pace=Pace(8))
    assert ended(one).reason == "max_total_tokens"
    assert one.ledger.spent(PRICES).tokens <= 20_000 + 8 * 1_001
    assert endpoint.requests_seen <= 20 + 8


@pytest.mark.parametrize("kill_at_s", [0.31, 0.5, 0.77, 1.0])
def test_what_a_killed_process_left_open_counts_as_it_was_reserved(kill_at_s: float) -> None:
    """Not as if nobody knew yet what the server puts around a prompt: that alone would be more than the limit."""
    one = life(Caps(cost=0.09), pace=Pace(64), texts=[f"text {n}" for n in range(4_000)])
    one.knobs = replace(one.knobs, most=Most(beside=2_000, answer=16))
    one.step(1, kill_at_s=kill_at_s)
    leased = one.count(State.LEASED)
    assert leased > 64
    one.knobs = replace(one.knobs, caps=Caps())
    one.step(2, crash_at=1)
    lost = [attempt.most for attempt in one.ledger.attempts if attempt.origin is Origin.LOST]
    assert len(lost) == leased
    assert all(most is not None and most[0] < 100 for most in lost)
    assert one.ledger.spent(PRICES).at_most < 0.09


def test_what_was_learnt_goes_on_with_the_run_and_no_further_than_it_holds() -> None:
    kept = {"config": 3, "learnt": {"beside": 20, "answer": 90, "excess": 7, "context": 512}}
    assert learnt_before(kept, Most(500, 60), lambda config: config == 3) == Learnt(20, 90, 7)
    assert learnt_before(kept, Most(5, 600), lambda _: True) == Learnt(5, 600, 7)
    assert learnt_before(kept, Most(500, 60), lambda _: False) is None
    assert learnt_before(None, Most(500, 60), lambda _: True) is None


def test_what_another_model_has_taught_does_not_bound_what_was_sent_since() -> None:
    one = life(Caps(cost=1.0), pace=Pace(4), texts=[f"text {n}" for n in range(300)])
    one.step(1, kill_at_s=0.3)
    one.knobs = replace(one.knobs, most=Most(beside=700, answer=16))
    one.endpoint = FakeEndpoint(Laws(latency_ms=900))
    one.step(2, kill_at_s=0.5)
    one.step(3, crash_at=1)
    assert [attempt.most for attempt in one.ledger.attempts if attempt.origin is Origin.LOST][-1][0] > 700  # type: ignore[index]
