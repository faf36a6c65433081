"""Shifts against known values, and how often equal runs raise an alarm."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy")

from headrace.policy.drift import (
    Finding,
    divergence,
    holm,
    label_shift,
    length_difference,
    marginal_homogeneity,
    rate_difference,
    verdict,
)


def test_a_shift_of_labels() -> None:
    found = label_shift([500, 300, 200], [400, 350, 250])
    assert found is not None
    assert found.p == pytest.approx(3.513157e-05, rel=1e-5)
    assert found.cramers_v == pytest.approx(0.101274, abs=1e-6)
    assert found.js == pytest.approx(0.0074122, abs=1e-6)
    assert found.psi == pytest.approx(0.041179, abs=3e-4)
    assert found.psi_noise == pytest.approx(0.002 * 5.991465, abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "psi", "js"),
    [
        ([250, 250, 250, 250], [300, 250, 250, 200], 0.020273, None),
        ([6000, 3000, 1000], [3500, 3500, 3000], 0.362179, 0.0631432),
    ],
)
def test_indices(a: list[int], b: list[int], psi: float, js: float | None) -> None:
    found = label_shift(a, b)
    assert found is not None
    assert found.psi == pytest.approx(psi, rel=0.01)
    assert js is None or found.js == pytest.approx(js, abs=1e-6)


def test_the_noise_line_is_wide_for_few() -> None:
    few, many = label_shift([10] * 10, [10] * 10), label_shift([100] * 10, [100] * 10)
    assert few is not None
    assert many is not None
    assert (few.psi_noise, many.psi_noise) == pytest.approx((0.338, 0.0338), abs=1e-3)


def test_disjoint_and_equal_shares() -> None:
    assert divergence([1, 0], [0, 1]) == pytest.approx(1.0)
    assert divergence([0.5, 0.5], [0.5, 0.5]) == 0.0
    new_class = label_shift([100, 0], [50, 50])
    assert new_class is not None
    assert new_class.p < 1e-10


def test_nothing_to_compare() -> None:
    assert label_shift([], []) is None
    assert label_shift([3], [0]) is None
    only = label_shift([30], [40])
    assert only == (0.0, 1.0, 0.0, 0.0, 0.0)


def test_rare_classes_are_taken_together() -> None:
    merged = label_shift([90, 4, 3, 3], [90, 3, 4, 3])
    assert merged is not None
    assert merged.psi_noise == pytest.approx(0.02 * 3.841459, abs=1e-6)  # two classes are left
    pairs = np.diag([90.0, 3, 3, 3])
    pairs[1, 2] = 1
    paired = label_shift([90, 4, 3, 3], [90, 3, 4, 3], pairs)
    assert paired is not None
    assert paired.p == 1.0


def test_pairs_that_move_one_way_are_seen_where_shares_alone_are_not() -> None:
    pairs = np.array([[480.0, 20], [2, 498]])
    a, b = pairs.sum(axis=1).astype(int).tolist(), pairs.sum(axis=0).astype(int).tolist()
    alone, paired = label_shift(a, b), label_shift(a, b, pairs)
    assert alone is not None
    assert paired is not None
    assert alone.p > 0.3
    assert paired.p == pytest.approx(0.000124, rel=0.02)  # (20 - 2)^2 / 22 on one degree of freedom
    three = np.array([[50.0, 5, 0], [1, 60, 4], [0, 0, 70]])
    assert marginal_homogeneity(three) == pytest.approx(np.exp(-10 / 3), abs=1e-6)  # 160 / 24 on two degrees of freedom
    assert marginal_homogeneity(np.diag([5.0, 5])) == 1.0
    assert marginal_homogeneity(np.array([[5.0, 0, 3], [0, 9, 0], [3, 0, 5]])) == 1.0


def test_rates_and_lengths() -> None:
    assert rate_difference(10, 100, 30, 100) == pytest.approx(0.00065041, abs=1e-7)
    assert rate_difference(0, 0, 5, 10) == 1.0
    rng = np.random.default_rng(3)
    a = rng.integers(50, 150, 400)
    assert length_difference(a, rng.integers(50, 150, 400), paired=False) > 0.001
    assert length_difference(a, a + 20, paired=False) < 1e-6
    assert length_difference(a, a, paired=True) == 1.0
    assert length_difference(a, np.maximum(a - rng.integers(0, 3, 400), 1), paired=True) < 1e-6
    same = np.full(20, 7)
    assert length_difference(same, same, paired=False) == 1.0
    assert length_difference(same, same + 1, paired=False) == 0.0
    assert length_difference(same[:0], same, paired=False) == 1.0
    nearly = np.array([100_000] * 500 + [100_001])
    assert length_difference(nearly, nearly[::-1], paired=False) == pytest.approx(1.0)


def test_holm() -> None:
    assert holm([0.001, 0.008, 0.039, 0.041, 0.042, 0.06]) == pytest.approx([0.006, 0.04, 0.156, 0.156, 0.156, 0.156])
    assert holm([0.06, 0.001]) == pytest.approx([0.06, 0.002])
    assert holm([]) == []


def test_a_verdict_needs_an_effect_and_enough() -> None:
    shift = label_shift([500, 500], [490, 510])
    assert verdict([Finding("labels", 1e-9, matters=True)], shift, 1000)[0] == "drifted"
    assert verdict([Finding("labels", 1e-9, matters=False)], shift, 1000)[0] == "same"
    assert verdict([Finding("labels", 0.04, matters=True), Finding("length", 0.5, matters=True)], shift, 1000)[0] == "same"
    assert verdict([Finding("labels", 0.5, matters=False)], shift, 20)[0] == "not enough to tell"
    assert verdict([], label_shift([10] * 10, [10] * 10), 100)[0] == "not enough to tell"
    assert verdict([], None, 100) == ("same", {})


def test_equal_runs_seldom_raise_an_alarm_and_a_shift_is_seen() -> None:
    rng = np.random.default_rng(11)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    moved = np.array([0.3, 0.3, 0.25, 0.15])

    def alarms(other: np.ndarray, runs: int = 1000, n: int = 500) -> float:
        found = 0
        for _ in range(runs):
            a, b = rng.multinomial(n, shares), rng.multinomial(n, other)
            shift = label_shift(a.tolist(), b.tolist())
            assert shift is not None
            refused = rate_difference(*(int(x) for x in (rng.binomial(n, 0.02), n, rng.binomial(n, 0.02), n)))
            tests = [Finding("labels", shift.p, matters=True), Finding("refusal", refused, matters=True)]
            found += verdict(tests, shift, n)[0] == "drifted"
        return found / runs

    assert alarms(shares) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert alarms(moved, 200) >= 0.8
