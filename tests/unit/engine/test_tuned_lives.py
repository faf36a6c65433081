"""The engine with a window that finds its own size, and with limits per minute."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from headrace.engine.knobs import Knobs, Pace
from headrace.testing import FakeEndpoint, Laws
from headrace.testing.life import Life
from headrace.values import Kind, State

AUTO = Pace(6, (1, 256))


def texts(count: int) -> list[str]:
    return [f"text {n}" for n in range(count)]


def lived(endpoint: FakeEndpoint, count: int, pace: Pace = AUTO, longest: int | None = None) -> tuple[Life, Counter[str | None]]:
    knobs = Knobs("life", 1, max_tokens=longest)
    life = Life(texts(count), endpoint, knobs=knobs, pace=pace, max_steps=10_000_000)
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    assert life.count(State.DONE) == count
    return life, Counter(sample.bound_by for sample in life.ledger.samples)


def test_it_fills_slots_that_nobody_told_of():
    endpoint = FakeEndpoint(Laws(slots=24, latency_ms=500, jitter=0.3))
    life, bounds = lived(endpoint, 2000)
    seconds = life.ledger.samples[-1].at - life.ledger.samples[0].at
    assert 2000 / seconds >= 0.9 * 24 / 0.5
    assert bounds.most_common(1)[0][0] == "endpoint"


def test_it_keeps_under_a_bound_of_refusals():
    endpoint = FakeEndpoint(Laws(latency_ms=500, jitter=0.5, max_in_flight=20, overload_status=429))
    lived(endpoint, 3000)
    assert endpoint.failures[Kind.RATE_LIMITED] <= 60


def test_its_bounds_hold():
    endpoint = FakeEndpoint(Laws(latency_ms=200))
    _, bounds = lived(endpoint, 2000, Pace(6, (1, 12)))
    assert endpoint.peak_in_flight == 12
    assert bounds.most_common(1)[0][0] == "limit"


@pytest.mark.parametrize(
    "limit", [{"requests_per_minute": 600.0}, {"tokens_per_minute": 2400.0}], ids=["requests", "tokens"]
)  # each text takes two tokens, and its answer as many
def test_a_configured_rate_is_kept_and_named(limit: dict[str, float]):
    endpoint = FakeEndpoint(Laws(latency_ms=300))
    life, bounds = lived(endpoint, 600, replace(AUTO, **limit), longest=4)
    seconds = life.ledger.samples[-1].at - life.ledger.samples[0].at
    assert 55 <= seconds <= 70
    assert bounds.most_common(1)[0][0] == "rate"


def test_a_rate_that_the_server_tells_is_kept_without_a_refusal():
    endpoint = FakeEndpoint(Laws(latency_ms=300, requests_per_minute=600))
    life, bounds = lived(endpoint, 3000)
    seconds = life.ledger.samples[-1].at - life.ledger.samples[0].at
    assert seconds <= 1.06 * 300
    assert endpoint.failures[Kind.RATE_LIMITED] == 0
    assert bounds["rate"] > 0.9 * sum(bounds.values())
