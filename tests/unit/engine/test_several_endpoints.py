"""Several endpoints: work flows to whoever is free, and what one cannot answer another does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.engine.knobs import Ending, Knobs, Pace
from headrace.events import EndpointGone, Event
from headrace.testing import NEVER, FakeEndpoint, Laws
from headrace.testing.life import Life
from headrace.values import Failure, Kind, Reply, Request, Sent, State

AUTO = Pace(6, (1, 256))
WRONG_KEY = Failure(Kind.AUTH, "wrong key", status=401)
NO_CREDIT = Failure(Kind.QUOTA, "no credit", status=402)
NO_MODEL = Failure(Kind.MODEL_MISSING, "no such model", status=404)
UNKNOWN_FIELD = Failure(Kind.BAD_REQUEST, "unknown field", status=400)
REFUSED = Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True)
BROKEN = Failure(Kind.SERVER_ERROR, "boom", status=500)


class Timed(FakeEndpoint):
    """Knows when its last answer left."""

    ended_at = 0.0

    async def send(self, request: Request) -> Reply | Failure:
        result = await super().send(request)
        self.ended_at = asyncio.get_running_loop().time()
        return result


def always(failure: Failure) -> FakeEndpoint:
    return FakeEndpoint(Laws(latency_ms=20), outages=[(0.0, NEVER, failure)])


def lived(endpoints: Sequence[FakeEndpoint], count: int, pace: Pace = AUTO, **knobs: object) -> tuple[Ending, Life, list[Event]]:
    told: list[Event] = []
    life = Life(
        [f"text {n}" for n in range(count)], list(endpoints), knobs=Knobs("life", 1, **knobs),  # type: ignore[arg-type]
        pace=pace, observers=[told.append], max_steps=10_000_000,
    )  # fmt: skip
    ending = life.step(1)
    assert ending is not None
    return ending, life, told


def gone(told: Sequence[Event]) -> list[str]:
    return [event.why for event in told if isinstance(event, EndpointGone)]


def test_endpoints_of_unequal_speed_deliver_what_they_can_together():
    speeds = (1, 3, 9)
    endpoints = [Timed(Laws(slots=4, latency_ms=1800 / speed, jitter=0.2)) for speed in speeds]
    ending, life, _ = lived(endpoints, 6000)
    assert ending.reason is None
    assert life.count(State.DONE) == 6000
    seconds = max(endpoint.ended_at for endpoint in endpoints)
    assert 6000 / seconds >= 0.93 * sum(4 / (1.8 / speed) for speed in speeds)
    assert {attempt.endpoint for attempt in life.ledger.attempts} == {1, 2, 3}


@pytest.mark.parametrize("failure", [WRONG_KEY, NO_CREDIT, NO_MODEL])
def test_an_endpoint_that_is_wrong_is_not_asked_any_more_and_costs_no_unit(failure: Failure):
    good = FakeEndpoint(Laws(latency_ms=50))
    bad = always(failure)
    ending, life, told = lived([bad, good], 200)
    assert ending.reason is None
    assert life.count(State.DONE) == 200
    assert bad.requests_seen <= AUTO.concurrency
    assert [failure.message in why for why in gone(told)] == [True]


def test_the_run_stops_when_no_endpoint_is_left():
    ending, life, told = lived([always(WRONG_KEY), always(NO_CREDIT)], 50)
    assert ending.exit_code == 4
    assert ending.reason in {"auth", "quota"}
    assert len(gone(told)) == 1
    assert life.count(State.PENDING) == 50


def test_what_a_misconfigured_endpoint_has_refused_is_answered_by_the_others():
    good = FakeEndpoint(Laws(latency_ms=200))
    bad = always(UNKNOWN_FIELD)
    ending, life, told = lived([bad, good], 300)
    assert ending.reason is None
    assert life.count(State.DONE) == 300
    assert life.count(State.FAILED) == 0
    assert "failed alike" in gone(told)[0]
    assert bad.requests_seen <= 10 + 2 * AUTO.concurrency


def test_a_dead_endpoint_holds_nobody_up_and_is_asked_again_when_it_is_back():
    flaky = FakeEndpoint(Laws(slots=8, latency_ms=100), outages=[(5.0, 20.0, BROKEN)])
    steady = FakeEndpoint(Laws(slots=8, latency_ms=100))
    ending, life, _ = lived([flaky, steady], 4000, give_up_after_s=10.0)
    assert ending.reason is None
    assert life.count(State.DONE) == 4000
    assert flaky.failures[Kind.SERVER_ERROR] <= 8 + 2 + 12
    assert flaky.requests_seen >= 800  # as much as it had done before, and more


def test_an_endpoint_where_nobody_listens_stops_no_run_that_others_carry():
    steady = FakeEndpoint(Laws(slots=4, latency_ms=1000))
    ending, life, _ = lived([always(REFUSED), steady], 600)
    assert ending.reason is None
    assert life.count(State.DONE) == 600


def test_all_dead_endpoints_stop_the_run():
    ending, _, _ = lived([always(REFUSED), always(REFUSED)], 20)
    assert (ending.reason, ending.exit_code) == ("bad_endpoint", 4)
    broken = [FakeEndpoint(Laws(latency_ms=20), outages=[(0.06, NEVER, BROKEN)]) for _ in range(2)]
    ending, _, _ = lived(broken, 2000, give_up_after_s=60.0)
    assert (ending.reason, ending.exit_code) == ("endpoint_down", 4)


def test_a_limited_endpoint_does_not_hold_back_its_units():
    limited = Failure(Kind.RATE_LIMITED, "slow down", status=429, wait_s=600.0)
    ending, life, _ = lived([always(limited), FakeEndpoint(Laws(latency_ms=50))], 100)
    assert ending.reason is None
    assert life.ledger.attempts[-1].started_at - life.ledger.attempts[0].started_at < 60


def test_the_last_units_are_not_given_to_the_slowest():
    slow, fast = Timed(Laws(slots=2, latency_ms=60_000)), Timed(Laws(slots=8, latency_ms=200))
    lived([slow, fast], 4000, pace=Pace(8))
    assert slow.ended_at <= fast.ended_at + 2.0


def test_a_deadline_runs_while_one_endpoint_answers():
    lost = Failure(Kind.CONNECTION, "lost", Sent.MAYBE)
    never = FakeEndpoint(Laws(latency_ms=20), script=lambda request, _n: lost if request.unit == 3 else None)
    also = FakeEndpoint(Laws(latency_ms=20), script=lambda request, _n: lost if request.unit == 3 else None)
    _, life, _ = lived([never, also], 400, max_attempts=1000, unit_deadline_s=60.0)
    assert (life.ledger.outcomes[3].error or "").startswith("deadline: ")


def test_the_bound_of_each_endpoint_holds_with_retries():
    endpoints = [FakeEndpoint(Laws(latency_ms=50, error_rate=0.2, seed=n)) for n in range(3)]
    lived(endpoints, 500, pace=Pace(5), max_attempts=50)
    assert [endpoint.peak_in_flight for endpoint in endpoints] == [5, 5, 5]
