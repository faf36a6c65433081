"""The same job under both classes, against the same faults, on virtual time."""

from __future__ import annotations

import pytest

from headrace.engine.knobs import Knobs, Pace
from headrace.policy.classes import CLASSES
from headrace.testing import FakeEndpoint, Laws, by_unit
from headrace.testing.fake_endpoint import Script
from headrace.testing.life import Life
from headrace.values import Failure, Kind, Sent, State

ERROR = Failure(Kind.SERVER_ERROR, "boom", status=500)
BUSY = Failure(Kind.OVERLOADED, "full", status=503)


def knobs(name: str, **more: object) -> Knobs:
    of = CLASSES[name]
    values = {
        "max_attempts": of.max_attempts, "attempt_timeout": of.attempt_timeout, "unit_deadline_s": of.unit_deadline,
        "give_up_after_s": of.give_up_after, "drain_s": of.drain, "manners": of, **more,
    }  # fmt: skip
    return Knobs(run="life", config=1, **values)  # type: ignore[arg-type]  # of many types


def lived(name: str, endpoint: FakeEndpoint, count: int = 12, **more: object) -> tuple[Life, str | None, float]:
    life = Life([f"text {n}" for n in range(count)], endpoint, knobs=knobs(name, **more), pace=Pace(4))
    ending = life.step(1)
    assert ending is not None
    return life, ending.reason, life.ledger.samples[-1].at - 1_700_000_000 if life.ledger.samples else 0.0


def flaky(failures: int) -> Script:
    """Unit 3 fails so often, between others that do not, so that the endpoint is not held to be down."""
    return by_unit({3: [ERROR] * failures})


def test_online_gives_a_unit_up_that_batch_brings_home() -> None:
    life, _, _ = lived("online", endpoint := FakeEndpoint(Laws(latency_ms=50), script=flaky(4)))
    assert (life.count(State.DONE), life.count(State.FAILED), endpoint.sends_by_unit[3]) == (11, 1, 3)
    life, _, _ = lived("batch", endpoint := FakeEndpoint(Laws(latency_ms=50), script=flaky(4)))
    assert (life.count(State.DONE), endpoint.sends_by_unit[3]) == (12, 5)


@pytest.mark.parametrize("failure", [ERROR, BUSY], ids=["broken", "full"])
def test_an_endpoint_that_is_away_for_ten_minutes_ends_online_and_is_waited_for_by_batch(failure: Failure) -> None:
    for name, reason, done, within in (("online", "endpoint_down", 37, (119, 140)), ("batch", None, 300, (600, 680))):
        endpoint = FakeEndpoint(Laws(latency_ms=50), outages=[(0.52, 600.0, failure)])
        life, ended, seconds = lived(name, endpoint, 300)
        assert ended == reason
        assert life.count(State.DONE) == done
        assert life.count(State.DONE) + life.count(State.PENDING) == 300
        assert within[0] <= seconds <= within[1]


def test_online_asks_again_sooner_where_failures_go_on() -> None:
    gaps = {}
    for name in CLASSES:
        endpoint = FakeEndpoint(Laws(latency_ms=50), script=lambda request, n: BUSY if request.unit == 3 and n < 12 else None)
        _, _, gaps[name] = lived(name, endpoint)
    assert gaps["online"] < 70
    assert gaps["batch"] > 200


def test_a_hanging_request_is_cut_sooner_by_online() -> None:
    hang = Failure(Kind.TIMEOUT, "nothing", Sent.MAYBE)
    limits = {}
    for name in CLASSES:
        seen: list[float] = []

        def script(request, n, seen=seen):
            if request.unit == 3:
                seen.append(request.timeout_s)
                return hang if n == 0 else None
            return None

        lived(name, FakeEndpoint(Laws(latency_ms=50), script=script), max_tokens=100)
        limits[name] = seen
    assert limits == {"online": [30.0, 60.0], "batch": [85.0, 170.0]}
