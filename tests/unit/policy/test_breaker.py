from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.breaker import (
    FIRST_PROBE_S,
    LONGEST_FIRST_PROBE_S,
    LONGEST_PROBE_S,
    LONGEST_REFUSED_PROBE_S,
    TRIP_UNITS,
    Breaker,
    Circuit,
)


def failed(breaker: Breaker, *units: int, at: float = 0.0, allow_open: bool = True) -> list[bool]:
    return [breaker.on_failure(unit, at, f"unit {unit}", allow_open=allow_open) for unit in units]


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    assert failed(breaker, 1, 2, 3, at=at) == [False, False, True]
    return breaker


def test_three_distinct_units_open_it() -> None:
    breaker = Breaker()
    assert failed(breaker, 1, at=5.0) == [False]
    assert breaker.may_send(5.0)
    assert failed(breaker, 2, 3, at=7.0) == [False, True]
    assert breaker.circuit is Circuit.OPEN
    assert breaker.is_down
    assert breaker.down_since == 5.0
    assert breaker.why == "unit 3"
    assert not breaker.may_send(7.0)


def test_one_unit_that_fails_often_does_not() -> None:
    breaker = Breaker()
    assert not any(failed(breaker, *[1, 2] * 20))
    assert not breaker.is_down
    assert breaker.down_since is None


def test_a_success_between_begins_the_count_anew() -> None:
    breaker = Breaker()
    failed(breaker, 1, 2, at=1.0)
    assert not breaker.on_alive()  # it was not down
    assert failed(breaker, 3, 4, at=2.0) == [False, False]
    assert failed(breaker, 5, at=3.0) == [True]
    assert breaker.down_since == 2.0


def test_it_stays_closed_while_fewer_than_three_units_are_left() -> None:
    breaker = Breaker()
    assert not any(failed(breaker, 1, 2, 3, 4, allow_open=False))
    assert breaker.may_send(0.0)
    assert failed(breaker, 1, at=9.0) == [True]  # more units came: the streak has lasted all the time
    assert breaker.down_since == 0.0


def test_what_was_in_flight_when_it_opened_changes_nothing() -> None:
    breaker = opened()
    probe_at = breaker.probe_at
    assert failed(breaker, 4, 5, 6, at=0.1) == [False] * 3
    assert (breaker.circuit, breaker.probe_at, breaker.down_since) == (Circuit.OPEN, probe_at, 0.0)


def test_one_probe_at_a_time() -> None:
    breaker = opened()
    assert not breaker.may_send(FIRST_PROBE_S - 0.01)
    assert breaker.may_send(FIRST_PROBE_S)
    assert breaker.on_sent(4)
    assert breaker.circuit is Circuit.PROBING
    assert not breaker.may_send(1e9)


def test_a_send_while_it_is_closed_is_no_probe() -> None:
    breaker = Breaker()
    assert not breaker.on_sent(1)
    assert breaker.circuit is Circuit.CLOSED


def test_probes_go_at_growing_intervals() -> None:
    breaker, now, gaps = opened(), 0.0, []
    for unit in range(10, 20):
        gaps.append(breaker.probe_at - now)
        now = breaker.probe_at
        breaker.on_sent(unit)
        now += 3.0  # the probe's own time does not shorten the wait after it
        assert failed(breaker, unit, at=now) == [False]
        assert breaker.down_since == 0.0
    assert gaps == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert max(gaps) == LONGEST_PROBE_S


def test_a_sign_of_life_closes_it() -> None:
    breaker = opened()
    breaker.on_sent(4)
    assert breaker.on_alive()
    assert breaker.circuit is Circuit.CLOSED
    assert breaker.down_since is None
    assert breaker.may_send(0.0)
    assert not breaker.on_alive()


def test_a_late_success_closes_it_without_a_probe() -> None:
    breaker = opened()
    assert breaker.on_alive()
    assert breaker.may_send(0.0)


def test_after_a_recovery_it_starts_from_the_shortest_interval() -> None:
    breaker = opened()
    for unit in range(4, 8):
        breaker.on_sent(unit)
        failed(breaker, unit, at=breaker.probe_at)
    breaker.on_alive()
    assert failed(breaker, 1, 2, 3, at=100.0) == [False, False, True]
    assert breaker.probe_at == 100.0 + FIRST_PROBE_S


def test_a_probe_that_says_nothing_is_followed_by_another_at_the_same_interval() -> None:
    breaker = opened()
    breaker.on_sent(4)
    breaker.on_no_verdict(2.0, 4)
    assert breaker.circuit is Circuit.OPEN
    assert breaker.probe_at == 2.0 + FIRST_PROBE_S


@pytest.mark.parametrize("breaker", [Breaker(), opened()], ids=["closed", "open"])
def test_what_says_nothing_changes_nothing_where_no_probe_is_out(breaker: Breaker) -> None:
    before = (breaker.circuit, breaker.probe_at)
    breaker.on_no_verdict(50.0)
    assert (breaker.circuit, breaker.probe_at) == before


def test_only_the_probes_own_result_is_judged() -> None:
    breaker = opened()
    breaker.on_sent(4)
    assert failed(breaker, 5, at=60.0) == [False]  # sent before it opened, timed out since
    breaker.on_no_verdict(60.0, 6)
    breaker.force_open(60.0, "refused", 7)
    assert breaker.circuit is Circuit.PROBING
    failed(breaker, 4, at=61.0)
    assert breaker.circuit is Circuit.OPEN
    assert breaker.probe_at == 61.0 + 2 * FIRST_PROBE_S


def test_an_unnamed_probe_is_judged_by_the_next_result() -> None:
    breaker = opened()
    breaker.on_sent()
    failed(breaker, 5, at=60.0)
    assert breaker.circuit is Circuit.OPEN


def test_a_refused_connection_opens_it_at_once() -> None:
    breaker = Breaker()
    breaker.force_open(3.0, "connection refused")
    assert breaker.is_down
    assert (breaker.down_since, breaker.why, breaker.probe_at) == (3.0, "connection refused", 3.0 + FIRST_PROBE_S)


def test_an_endpoint_that_has_never_answered_is_probed_every_few_seconds() -> None:
    breaker, now, gaps = opened(), 0.0, []
    for unit in range(10, 16):
        gaps.append(breaker.probe_at - now)
        now = breaker.probe_at
        breaker.on_sent(unit)
        assert not breaker.on_failure(unit, now, "why", allow_open=True, is_proven=False)
    assert gaps == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert max(gaps) == LONGEST_FIRST_PROBE_S


def test_refusals_are_probed_every_few_seconds() -> None:
    breaker, now, gaps = Breaker(), 0.0, []
    breaker.force_open(0.0, "refused")
    for unit in range(6):
        gaps.append(breaker.probe_at - now)
        now = breaker.probe_at
        breaker.on_sent(unit)
        breaker.force_open(now, "refused", unit)
    assert gaps == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert max(gaps) == LONGEST_REFUSED_PROBE_S
    assert breaker.down_since == 0.0


def test_a_refusal_of_what_was_in_flight_changes_nothing() -> None:
    breaker = Breaker()
    breaker.force_open(0.0, "first")
    breaker.force_open(0.2, "second")
    assert (breaker.down_since, breaker.why, breaker.probe_at) == (0.0, "first", FIRST_PROBE_S)


STEPS = st.lists(st.tuples(st.sampled_from(["fail", "alive", "sent", "nothing", "refused"]), st.integers(0, 5), st.booleans()))


@pytest.mark.slow
@given(STEPS)
def test_what_holds_on_every_path(steps: list[tuple[str, int, bool]]) -> None:
    breaker = Breaker()
    failing: set[int] = set()
    for number, (step, unit, allow_open) in enumerate(steps):
        now = float(number)
        was_down = breaker.is_down
        if step == "fail":
            failing.add(unit)
            tripped = breaker.on_failure(unit, now, "why", allow_open=allow_open)
            assert tripped == (not was_down and allow_open and len(failing) >= TRIP_UNITS)
        elif step == "alive":
            failing.clear()
            assert breaker.on_alive() == was_down
            assert not breaker.is_down
        elif step == "sent" and breaker.may_send(now):
            assert breaker.on_sent(unit) == was_down
        elif step == "nothing":
            breaker.on_no_verdict(now, unit)
            assert breaker.is_down == was_down
        elif step == "refused":
            breaker.force_open(now, "why", unit)
            assert breaker.is_down
        assert (breaker.down_since is not None) == breaker.is_down
        assert breaker.down_since is None or breaker.down_since <= now
        if breaker.circuit is Circuit.OPEN:
            assert breaker.probe_at <= now + LONGEST_PROBE_S
        assert breaker.may_send(now) or breaker.is_down
