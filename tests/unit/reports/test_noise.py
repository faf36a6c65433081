"""Whether two figures differ by more than each varies by itself."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.reports.noise import BATCHES, BEYOND, LEAST, Measured, batched, share, verdict


def mean(values: np.ndarray) -> float:
    return float(values.mean())


def test_the_error_is_that_of_the_batches_means() -> None:
    values = np.repeat(np.arange(BATCHES, dtype=float), 10)  # each batch is one value: its mean
    found = batched(values, mean)
    assert found.value == 9.5
    assert found.error == pytest.approx(np.std(np.arange(BATCHES), ddof=1) / BATCHES**0.5)


def test_what_follows_each_other_alike_is_no_evidence_for_more() -> None:
    """A slow half makes the plain standard error ten times too small."""
    values = np.concatenate([np.full(1000, 1.0), np.full(1000, 2.0)])
    error = batched(values, mean).error
    assert error is not None
    assert error > 5 * values.std(ddof=1) / len(values) ** 0.5


def test_of_few_observations_nothing_is_said() -> None:
    few = batched(np.arange(LEAST - 1, dtype=float), mean)
    assert few.error is None
    assert batched(np.empty(0), mean) == Measured(None)
    assert verdict(few, batched(np.arange(1000.0), mean)) == "unknown"
    assert share(1, LEAST - 1).error is None
    assert share(0, 0) == Measured(None)


def test_a_share_of_nothing_has_an_error_too() -> None:
    none, some = share(0, 1000), share(1, 1000)
    assert none.error is not None
    assert none.error > 0
    assert verdict(none, some) == "noise"
    assert verdict(none, share(50, 1000)) == "differs"


@pytest.mark.parametrize(
    ("b", "said"),
    [
        (Measured(1.0, 0.1), "equal"),
        (Measured(1.0 + 0.99 * BEYOND * 0.1 * 2**0.5, 0.1), "noise"),
        (Measured(1.0 + 1.01 * BEYOND * 0.1 * 2**0.5, 0.1), "differs"),
        (Measured(2.0), "unknown"),
        (Measured(None), "unknown"),
    ],
)
def test_the_border_lies_at_so_many_errors(b: Measured, said: str) -> None:
    assert verdict(Measured(1.0, 0.1), b) == said
    assert verdict(b, Measured(1.0, 0.1)) == said


def test_two_halves_of_one_run_are_seldom_said_to_differ() -> None:
    """One in a hundred, and the t distribution of 20 batches makes it one or two more: over 400 pairs at most 5 %."""
    rng = np.random.default_rng(1)
    said = []
    for _ in range(400):
        a, b = rng.lognormal(size=(2, 600))
        said.append(verdict(batched(a, mean), batched(b, mean)))
    assert said.count("differs") <= 20
    slower = [verdict(batched(rng.normal(1, 0.1, 600), mean), batched(rng.normal(1.1, 0.1, 600), mean)) for _ in range(20)]
    assert slower == ["differs"] * 20
