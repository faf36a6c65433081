"""Time limits in whole lives of a run: slow endpoints, stragglers, and a process that does not run for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.engine.knobs import Ending, Knobs, Pace
from headrace.events import Event, Warned
from headrace.testing import NEVER, FakeEndpoint, Laws
from headrace.testing.life import Life
from headrace.values import Failure, Kind, Reply, Request, Sent, State

EIGHT = Pace(8)


def knobs(**more: object) -> Knobs:
    return Knobs(**{"run": "life", "config": 1, "max_tokens": 64, **more})  # type: ignore[arg-type]


def lived(endpoint: FakeEndpoint, count: int = 100, pace: Pace = EIGHT, **more: object) -> tuple[Life, Ending, list[Event]]:
    events: list[Event] = []
    life = Life([f"text {n}" for n in range(count)], endpoint, knobs=knobs(**more), pace=pace, observers=[events.append])
    ending = life.step(1)
    assert ending is not None
    return life, ending, events


def seconds_of(life: Life) -> float:
    return life.ledger.samples[-1].at - life.ledger.samples[0].at


@pytest.mark.parametrize("pace", [EIGHT, Pace(6, (1, 64))], ids=["fixed", "auto"])
def test_a_server_that_is_slow_for_all_is_not_cut_for_ever(pace: Pace) -> None:
    """It takes 250 s for everything, and the first limit is 76 s: what was in flight by then is lost, and little else."""
    life, ending, _ = lived(endpoint := FakeEndpoint(Laws(latency_ms=250_000)), pace=pace)
    assert ending.reason is None
    assert life.count(State.DONE) == 100
    assert endpoint.failures[Kind.TIMEOUT] <= 12


def test_what_a_server_has_shown_to_take_is_granted_to_all_later_attempts() -> None:
    limits: list[float] = []

    def script(request: Request, _n: int) -> Reply | Failure | None:
        limits.append(request.timeout_s)
        return None

    lived(FakeEndpoint(Laws(latency_ms=50_000), script=script))
    assert limits[0] == 76.0
    assert all(150.0 <= limit <= 180.0 for limit in limits[30:])


def test_RTL_08_timeouts_reduce_a_fixed_window() -> None:  # noqa: N802 - the case's id
    endpoint = FakeEndpoint(Laws(latency_ms=500, slots=4))
    life, ending, _ = lived(endpoint, 300, pace=Pace(64), attempt_timeout=2.0, max_attempts=20)
    assert ending.reason is None
    assert life.count(State.DONE) == 300
    windows = [sample.window for sample in life.ledger.samples]
    assert min(windows) <= 16
    assert endpoint.failures[Kind.TIMEOUT] < 300


def test_NET_01_requests_that_hang_are_cut_and_the_window_stays() -> None:  # noqa: N802 - the case's id
    endpoint = FakeEndpoint(Laws(latency_ms=1000, hang_rate=0.1))
    life, ending, _ = lived(endpoint, 400, max_attempts=10)
    assert ending.reason is None
    assert life.count(State.DONE) == 400
    assert {sample.window for sample in life.ledger.samples} == {8}


# -- stragglers


def hangs_once(unit: int) -> FakeEndpoint:
    """One unit's first request is never answered; the others take a second."""

    class Hanging(FakeEndpoint):
        async def send(self, request: Request) -> Reply | Failure:
            if request.unit == unit and not self.sends_by_unit[unit]:
                self.sends_by_unit[unit] += 1
                await asyncio.sleep(request.timeout_s)
                return Failure(Kind.TIMEOUT, "no reply", Sent.MAYBE)
            return await super().send(request)

    return Hanging(Laws(latency_ms=1000))


def warnings(events: Sequence[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


def test_a_request_that_is_in_flight_far_too_long_is_told_once() -> None:
    _, _, events = lived(hangs_once(30), 2_000, max_tokens=2_000)
    (told,) = warnings(events)
    assert told.startswith("http://fake/v1: a request has been in flight for 61 s, and 19 of 20 replies took less than 1.")


def test_nothing_is_told_where_replies_take_long_or_are_few() -> None:
    for endpoint, count in ((FakeEndpoint(Laws(latency_ms=70_000)), 100), (hangs_once(2), 8)):
        assert warnings(lived(endpoint, count, max_tokens=2_000)[2]) == []


def test_the_ledger_knows_what_has_been_in_flight_the_longest() -> None:
    life = Life([f"text {n}" for n in range(100)], hangs_once(30), knobs=knobs(max_tokens=2_000), pace=EIGHT)
    assert life.step(1, kill_at_s=100.0) is None
    seen = life.ledger.meta["in_flight"]
    assert (seen["now"], seen["unit"]) == (1, 30)
    assert seen["since"] == pytest.approx(1_700_000_004.0, abs=2.0)


# -- a process that does not run


class Sleeper(FakeEndpoint):
    """While one unit is sent the whole process stands still for so long, and nothing of it was lost on the server's side."""

    def __init__(self, laws: Laws, unit: int, seconds: float) -> None:
        super().__init__(laws)
        self.sleeps = (unit, seconds)

    async def send(self, request: Request) -> Reply | Failure:
        unit, seconds = self.sleeps
        if request.unit == unit and not self.sends_by_unit[unit]:
            asyncio.get_running_loop()._now += seconds  # type: ignore[attr-defined]  # no loop offers it
        return await super().send(request)


def test_time_in_which_the_process_did_not_run_costs_no_attempt() -> None:
    """Whatever was in flight has passed its limit at once; each is sent again, though an attempt is all that there is."""
    endpoint = Sleeper(Laws(latency_ms=2000), 40, 3_000.0)
    life, ending, _ = lived(endpoint, 100, max_attempts=1)
    assert ending.reason is None
    assert life.count(State.DONE) == 100
    assert 1 <= endpoint.failures[Kind.TIMEOUT] <= 8
    messages = {attempt.message for attempt in life.ledger.attempts if attempt.kind is Kind.TIMEOUT}
    assert all(message is not None and "this process did not run for 3000 s of it" in message for message in messages)
    assert {sample.window for sample in life.ledger.samples} == {8}


def test_with_never_what_may_have_been_billed_is_not_sent_again_even_so() -> None:
    endpoint = Sleeper(Laws(latency_ms=2000), 40, 3_000.0)
    life, _, _ = lived(endpoint, 100, retry_ambiguous=False)
    assert life.count(State.FAILED) == endpoint.failures[Kind.TIMEOUT] >= 1
    assert max(endpoint.sends_by_unit.values()) == 1


def test_time_in_which_the_process_did_not_run_is_no_unit_s_time() -> None:
    busy = Failure(Kind.SERVER_ERROR, "boom", status=500)

    class Failing(Sleeper):
        async def send(self, request: Request) -> Reply | Failure:
            if request.unit % 20 == 3 and self.sends_by_unit[request.unit] < 3:
                self.sends_by_unit[request.unit] += 1
                return busy
            return await super().send(request)

    endpoint = Failing(Laws(latency_ms=200), 30, 7_200.0)
    life, ending, _ = lived(endpoint, 100, attempt_timeout=100_000.0)
    assert ending.reason is None
    assert life.count(State.DONE) == 100


def test_time_in_which_the_process_did_not_run_is_held_against_no_endpoint() -> None:
    """The endpoint is down for some minutes, and in these the process sleeps for an hour: it is probed, not given up."""
    boom = Failure(Kind.SERVER_ERROR, "boom", status=500)

    class Down(FakeEndpoint):
        async def send(self, request: Request) -> Reply | Failure:
            if not self.requests_seen:
                asyncio.get_running_loop().call_later(60.0, self.sleep)
            return await super().send(request)

        def sleep(self) -> None:
            asyncio.get_running_loop()._now += 3_600.0  # type: ignore[attr-defined]  # no loop offers it

    life, ending, _ = lived(Down(Laws(latency_ms=50), outages=[(1.0, 3_900.0, boom)]), 400, give_up_after_s=600.0)
    assert ending.reason is None
    assert life.count(State.DONE) == 400
    _, ending, _ = lived(Down(Laws(latency_ms=50), outages=[(1.0, NEVER, boom)]), 400, give_up_after_s=600.0)
    assert ending.reason == "endpoint_down"
    assert ending.message is not None
    assert "has been down for 600 s" in ending.message
