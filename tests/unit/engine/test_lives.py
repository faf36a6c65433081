"""Simulated lives of a run: the engine on virtual time, with faults and crashes, until every unit is settled."""

from __future__ import annotations

import random

import pytest

from headrace.engine.knobs import Knobs, Pace
from headrace.testing import NEVER, FakeEndpoint, Laws, by_unit, fails_first
from headrace.testing.life import Life
from headrace.testing.memory_ledger import MemoryLedger
from headrace.values import Failure, Kind, Reply, Sent, State

SERVER_ERROR = Failure(Kind.SERVER_ERROR, "boom", status=500)


def knobs(**more: object) -> Knobs:
    return Knobs(**{"run": "life", "config": 1, **more})  # type: ignore[arg-type]


def texts(count: int) -> list[str]:
    return [f"text {n}" for n in range(count)]


def test_every_unit_is_done_once_when_nothing_fails() -> None:
    life = Life(texts(300), lambda: endpoint)
    endpoint = FakeEndpoint(Laws(latency_ms=20))
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    assert ending.input_complete
    assert life.count(State.DONE) == 300
    assert endpoint.requests_seen == 300
    assert endpoint.peak_in_flight == 8
    assert {o.attempt.reply.content for o in life.ledger.outcomes.values() if o.attempt and o.attempt.reply} == set(texts(300))


def test_equal_texts_share_one_request() -> None:
    life = Life(["a", "a", "a", "b"], endpoint := FakeEndpoint())
    life.step(1)
    assert endpoint.requests_seen == 2
    assert life.ledger.pieces == {(0, 0): 0, (1, 0): 0, (2, 0): 0, (3, 0): 1}


def test_rtl_03_exactly_max_attempts_requests_for_a_unit_that_always_fails() -> None:
    life = Life(texts(1), endpoint := FakeEndpoint(script=lambda _request, _n: SERVER_ERROR), knobs=knobs(max_attempts=3))
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    assert endpoint.requests_seen == 3 == len(life.ledger.attempts)
    assert life.ledger.outcomes[0].error == "server_error: boom"


def test_rtl_14_a_unit_that_fails_four_times_is_done_at_the_fifth_attempt() -> None:
    good = Life(texts(20), endpoint := FakeEndpoint(Laws(latency_ms=50), script=fails_first(0, SERVER_ERROR)))
    assert good.step(1)
    assert endpoint.requests_seen == 20
    # An endpoint that has answered once and never fails thrice in a row: each of its failures counts.
    flaky = FakeEndpoint(Laws(latency_ms=10), script=lambda request, n: SERVER_ERROR if request.unit % 4 == 0 and n < 4 else None)
    life = Life(texts(80), flaky, knobs=knobs(max_attempts=5))
    assert life.step(1)
    assert life.count(State.DONE) == 80
    assert {flaky.sends_by_unit[n] for n in range(0, 80, 4)} == {5}


def test_rtl_02_a_limited_endpoint_pauses_for_all_and_spends_no_attempt() -> None:
    limited = Failure(Kind.RATE_LIMITED, "slow down", status=429, wait_s=1.0)
    endpoint = FakeEndpoint(Laws(latency_ms=20), outages=[(0.0, 3.0, limited)])
    life = Life(texts(200), endpoint, knobs=knobs(max_attempts=3), pace=Pace(20))
    assert life.step(1)
    assert life.count(State.DONE) == 200
    assert endpoint.failures[Kind.RATE_LIMITED] < 80


def test_rtl_16_a_dead_engine_is_probed_and_costs_no_unit() -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=20), outages=[(0.06, 5.0, SERVER_ERROR)])
    life = Life(texts(300), endpoint, knobs=knobs(max_attempts=3))
    assert life.step(1)
    assert life.count(State.DONE) == 300
    assert endpoint.failures[Kind.SERVER_ERROR] < 8 + 12


def test_rtl_16_an_engine_that_never_recovers_stops_the_run_with_the_rest_pending() -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=20), outages=[(0.06, NEVER, SERVER_ERROR)])
    life = Life(texts(300), endpoint, knobs=knobs(max_attempts=3))
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("endpoint_down", 4)
    assert life.count(State.PENDING) >= 270
    assert life.count(State.FAILED) == 0
    assert life.count(State.LEASED) == 0


def test_rtl_01_an_exhausted_quota_stops_at_once_and_the_same_run_goes_on_afterwards() -> None:
    spent = Failure(Kind.QUOTA, "no credit", status=429)
    poor = FakeEndpoint(Laws(latency_ms=20), script=lambda request, _n: spent if request.unit >= 3 else None)
    life = Life(texts(500), lambda: endpoint)
    endpoint = poor
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code, ending.input_complete) == ("quota", 4, True)
    assert poor.failures[Kind.QUOTA] <= 8
    assert life.count(State.PENDING) == 497
    endpoint = rich = FakeEndpoint(Laws(latency_ms=20))
    ending = life.step(2)
    assert ending is not None
    assert ending.reason is None
    assert rich.requests_seen == 497
    assert not any(rich.sends_by_unit[n] for n in range(3))


def test_identical_failures_from_the_start_are_a_wrong_configuration_and_leave_all_pending() -> None:
    refused = Failure(Kind.BAD_REQUEST, "unsupported parameter", status=400)
    endpoint = FakeEndpoint(Laws(latency_ms=20), script=lambda _request, _n: refused)
    life = Life(texts(1000), endpoint)
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("misconfigured", 4)
    assert endpoint.requests_seen <= 8 + 10
    assert life.count(State.PENDING) == 1000


def test_a_refused_connection_is_tried_for_a_minute_before_it_counts_as_a_wrong_address() -> None:
    refused = Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True)
    loading = FakeEndpoint(Laws(latency_ms=20), outages=[(0.0, 40.0, refused)])
    life = Life(texts(20), loading)
    assert life.step(1)
    assert life.count(State.DONE) == 20
    gone = Life(texts(2), endpoint := FakeEndpoint(outages=[(0.0, NEVER, refused)]))
    ending = gone.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("bad_endpoint", 4)
    assert gone.count(State.PENDING) == 2
    assert endpoint.requests_seen < 20


def test_rtl_09_what_may_have_been_billed_is_not_sent_again_where_the_job_says_so() -> None:
    cut = Failure(Kind.CONNECTION, "closed without reply", Sent.MAYBE)
    endpoint = FakeEndpoint(script=by_unit({0: [cut, None]}))
    life = Life(texts(1), endpoint, knobs=knobs(retry_ambiguous=False))
    assert life.step(1)
    assert endpoint.requests_seen == 1
    assert life.ledger.outcomes[0].error == "ambiguous: closed without reply"
    again = Life(texts(1), endpoint := FakeEndpoint(script=by_unit({0: [cut, None]})))
    assert again.step(1)
    assert again.count(State.DONE) == 1
    assert list(endpoint.sends_by_key.values()) == [2]


def test_rtl_08_a_timeout_doubles_the_next_limit() -> None:
    life = Life(texts(1), endpoint := FakeEndpoint(Laws(latency_ms=3000)), knobs=knobs(attempt_timeout=1.0, max_attempts=4))
    assert life.step(1)
    assert endpoint.requests_seen == 3
    assert life.count(State.DONE) == 1


def test_an_invalid_answer_is_asked_again_once_and_then_quarantined() -> None:
    endpoint = FakeEndpoint(script=lambda _request, _n: Reply(content="", finish="stop"))
    life = Life(texts(3), endpoint)
    assert life.step(1)
    assert life.count(State.QUARANTINED) == 3
    assert endpoint.requests_seen == 6
    assert len(endpoint.sends_by_key) == 6
    assert life.ledger.outcomes[0].error == "empty: empty"


def test_a_unit_that_is_not_settled_by_its_deadline_fails() -> None:
    busy = Failure(Kind.OVERLOADED, "busy", status=503)
    endpoint = FakeEndpoint(Laws(latency_ms=20), script=lambda request, _n: busy if request.unit == 5 else None)
    life = Life(texts(60), endpoint, knobs=knobs(unit_deadline_s=100.0))
    assert life.step(1)
    assert life.count(State.DONE) == 59
    error = life.ledger.outcomes[5].error
    assert error is not None
    assert error.startswith("deadline: ")


@pytest.mark.parametrize("commits", [1, 3, 8])
def test_a_bug_while_writing_ends_the_run_with_it_instead_of_waiting_forever(commits: int) -> None:
    class Buggy(MemoryLedger):
        left = commits

        def finish(self) -> None:
            self.left -= 1
            if self.left <= 0:
                raise ZeroDivisionError("a bug")
            super().finish()

    life = Life(texts(100), FakeEndpoint(Laws(latency_ms=20)), ledger=Buggy())
    with pytest.raises(ZeroDivisionError, match="a bug"):
        life.step(1)


def test_per_06_the_first_interrupt_drains_and_keeps_the_second_stops_at_once() -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=500))
    life = Life(texts(100), endpoint, pace=Pace(10))
    ending = life.step(1, interrupt_at_s=[1.7])
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("interrupted", 130)
    assert endpoint.requests_seen == life.count(State.DONE) == 31  # one alone, then tens
    assert life.step(2)
    assert life.count(State.DONE) == 100
    assert endpoint.requests_seen == 100

    endpoint = FakeEndpoint(Laws(latency_ms=500))
    life = Life(texts(100), endpoint, pace=Pace(10))
    ending = life.step(1, interrupt_at_s=[1.7, 1.8])
    assert ending is not None
    assert ending.exit_code == 130
    assert life.count(State.DONE) == 21
    assert endpoint.cancelled == 10
    assert len(life.ledger.attempts) == 31
    assert life.step(2)
    assert life.count(State.DONE) == 100


def test_run_deadline_stops_with_exit_code_5() -> None:
    life = Life(texts(1000), FakeEndpoint(Laws(latency_ms=500)), knobs=knobs(run_deadline_s=5.0))
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("run_deadline", 5)
    assert 0 < life.count(State.DONE) < 1000
    assert life.count(State.LEASED) == 0


@pytest.mark.parametrize("seed", range(60))
def test_after_any_crash_the_next_process_finishes_and_pays_for_nothing_twice(seed: int) -> None:
    rng = random.Random(seed)
    laws = Laws(latency_ms=rng.choice([1, 20, 300]), jitter=0.5, error_rate=rng.choice([0.0, 0.1]), overload_rate=0.05, seed=seed)
    endpoint = FakeEndpoint(laws)
    count = rng.choice([3, 40, 300])
    life = Life(
        [f"text {n % max(2, count * 3 // 4)}" for n in range(count)],
        lambda: endpoint,
        pace=Pace(rng.choice([1, 8, 32])),
    )
    for process in range(4):
        crash = {"crash_at": rng.randrange(1, 60)} if rng.random() < 0.5 else {"kill_at_s": rng.random() * 3}
        before = endpoint.requests_seen
        recorded = len([a for a in life.ledger.attempts if a.origin == 0])
        done = {seq for seq, state in life.ledger.states.items() if state is State.DONE}
        sends = dict(endpoint.sends_by_unit)
        ending = life.step(seed * 10 + process, **crash)  # type: ignore[arg-type]
        seen = endpoint.requests_seen - before
        kept = len([a for a in life.ledger.attempts if a.origin == 0]) - recorded
        assert kept <= seen <= kept + life.count(State.LEASED)
        assert all(endpoint.sends_by_unit[seq] == sends[seq] for seq in done)
        if ending is not None:
            break
    ending = life.step(seed * 10 + 9)
    assert ending is not None
    assert ending.reason is None
    assert set(life.ledger.states.values()) <= {State.DONE, State.FAILED}
    assert len(life.ledger.items) == count
    for (item, _), unit in life.ledger.pieces.items():
        outcome = life.ledger.outcomes[unit]
        if outcome.state is State.DONE:
            assert outcome.attempt is not None
            assert outcome.attempt.reply is not None
            assert outcome.attempt.reply.content == life.texts[item]
