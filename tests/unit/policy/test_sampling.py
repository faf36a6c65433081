"""Sample sizes, estimates and agreement against known values, and how often intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy")

from headrace.policy.sampling import (
    Stratum,
    accepts,
    allocate,
    cohen,
    plan,
    probability_of_acceptance,
    simple,
    size_for,
    size_for_none,
    standard_error,
    stratified,
)
from headrace.policy.stats import wilson


@pytest.mark.parametrize(
    ("share", "margin", "whole", "of_10_000"),
    [(0.5, 0.05, 385, 370), (0.1, 0.03, 385, 370), (0.05, 0.02, 457, 437), (0.02, 0.01, 753, 701), (0.5, 0.03, 1068, 965)],
)
def test_how_many_for_a_margin(share: float, margin: float, whole: int, of_10_000: int) -> None:
    assert (size_for(margin, None, share), size_for(margin, 10_000, share)) == (whole, of_10_000)


@pytest.mark.parametrize(("rate", "count"), [(0.05, 59), (0.02, 149), (0.01, 299), (0.001, 2995)])
def test_how_many_without_a_failure(rate: float, count: int) -> None:
    assert size_for_none(rate) == count


def test_rare_kinds_are_drawn_more_often() -> None:
    found = allocate({"red": 6000, "green": 3000, "blue": 990, "odd": 10}, 200)
    assert sum(found.values()) == 200
    assert (found["odd"], found["blue"] >= 19, found["red"] < 121) == (10, True, True)
    assert allocate({"a": 3, "b": 2}, 100) == {"a": 3, "b": 2}
    assert allocate({}, 10) == {}
    assert sum(allocate({str(n): 100 for n in range(50)}, 20).values()) == 50  # one of each at least


STRATA = [Stratum(6000, 100, 96), Stratum(3000, 60, 54), Stratum(1000, 40, 30)]


def test_a_stratified_estimate_weighs_back() -> None:
    found = stratified(STRATA)
    assert found.share == pytest.approx(1 - 0.079)
    assert standard_error(STRATA) == pytest.approx(0.0178327, abs=1e-7)
    low, high = found.interval
    assert low == pytest.approx(1 - 0.12, abs=0.006)
    assert high == pytest.approx(1 - 0.0515, abs=0.006)


def test_a_stratum_of_one_joins_another() -> None:
    assert stratified([Stratum(90, 20, 10), Stratum(10, 1, 1)]).share == pytest.approx(11 / 21)
    assert stratified([Stratum(90, 0, 0)]).share is None
    assert stratified([]).interval == (0.0, 1.0)
    assert stratified([Stratum(10, 1, 1)]).share == 1.0


def test_a_simple_estimate() -> None:
    assert simple(10**9, 50, 47).interval == pytest.approx(wilson(47, 50), abs=1e-6)
    assert simple(100, 0, 0) == (None, (0.0, 1.0))
    assert simple(100, 100, 90) == (0.9, (0.9, 0.9))
    narrow, wide = simple(100, 50, 45).interval, simple(10**6, 50, 45).interval
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("n", "c", "shares"),
    [
        (20, 0, (0.817907, 0.602688, 0.358486)), (50, 1, (0.910565, 0.643511, 0.279432)), (80, 2, (0.953447, 0.676691, 0.230621)),
        (125, 3, (0.962551, 0.618906, 0.123785)), (200, 5, (0.983977, 0.615970, 0.062342)),
    ],
)  # fmt: skip
def test_acceptance(n: int, c: int, shares: tuple[float, ...]) -> None:
    found = [probability_of_acceptance(n, c, share=share) for share in (0.01, 0.025, 0.05)]
    assert found == pytest.approx(shares, abs=1e-6)


def test_acceptance_of_a_small_lot_and_the_smallest_plan() -> None:
    assert probability_of_acceptance(80, 2, size=1000, bad=10) == pytest.approx(0.960752, abs=1e-6)
    assert probability_of_acceptance(125, 3, size=1000, bad=10) == pytest.approx(0.973227, abs=1e-6)
    assert plan(0.01, 0.05) == (132, 3)


def test_a_level_that_was_asked_for() -> None:
    assert accepts(10_000, 59, 0, 0.05) == "accepted"
    assert accepts(10_000, 50, 0, 0.05) == "not enough to tell"
    assert accepts(10_000, 60, 9, 0.05) == "rejected"
    assert accepts(10_000, 0, 0, 0.05) == "not enough to tell"
    assert accepts(1000, 258, 0, 0.009) == "accepted"  # ten bad ones would have shown


@pytest.mark.parametrize(
    ("table", "share", "kappa", "interval"),
    [
        ([[45, 5], [10, 40]], 0.85, 0.70, (0.560732, 0.839268)),
        ([[20, 5], [10, 15]], 0.70, 0.40, (0.151092, 0.648908)),
        ([[118, 5], [2, 0]], 0.944, -0.023392, None),
        ([[10, 3, 1], [2, 12, 2], [1, 2, 7]], 0.725, 0.579350, None),
    ],
)
def test_agreement(table: list[list[int]], share: float, kappa: float, interval: tuple[float, float] | None) -> None:
    found = cohen(table)
    assert (found.share, found.kappa) == (pytest.approx(share), pytest.approx(kappa, abs=1e-6))
    if interval is not None:
        assert found.interval == pytest.approx(interval, abs=1e-3)


def test_agreement_of_nothing_and_of_one_verdict() -> None:
    assert cohen([[0, 0], [0, 0]]) == (0, None, None, None)
    assert cohen([[5, 0], [0, 0]]) == (5, 1.0, None, None)


def test_intervals_cover_the_truth() -> None:
    """Over two thousand seeds of the sampling step: 95 % of them, whether simple or stratified."""
    rng = np.random.default_rng(5)
    sizes, rights = np.array([6000, 3000, 1000]), np.array([0.96, 0.9, 0.7])
    truth = np.concatenate([rng.random(size) < right for size, right in zip(sizes, rights, strict=True)])
    kinds = np.repeat(np.arange(3), sizes)
    share = truth.mean()
    covered = np.zeros(2)
    for seed in range(2000):
        draw = np.random.default_rng(seed)
        some = draw.choice(len(truth), 400, replace=False)
        low, high = simple(len(truth), 400, int(truth[some].sum())).interval
        covered[0] += low <= share <= high
        strata = []
        for kind, count in enumerate(allocate({str(n): int(size) for n, size in enumerate(sizes)}, 400).values()):
            some = draw.choice(np.flatnonzero(kinds == kind), count, replace=False)
            strata.append(Stratum(int(sizes[kind]), count, int(truth[some].sum())))
        low, high = stratified(strata).interval
        covered[1] += low <= share <= high
    assert 0.935 <= covered[0] / 2000 <= 0.965
    assert 0.935 <= covered[1] / 2000 <= 0.975
