from __future__ import annotations

import math
import random

import pytest

from headrace.policy.evidence import Evidence, gain, kink


def full(n: int, seconds: float, completions: int = 100, work: float = 10.0, scatter: float = 0.0) -> Evidence:
    rng, evidence = random.Random(3), Evidence()
    for _ in range(completions):
        factor = 1 + scatter * (2 * rng.random() - 1)
        evidence.add(seconds * factor, work * factor, n)
    return evidence


def test_a_full_window_delivers_its_size_times_work_over_time() -> None:
    assert full(8, 2.0).by_count() == pytest.approx((4.0, 0.0), abs=1e-6)
    assert full(8, 2.0).by_work() == pytest.approx((40.0, 0.0), abs=1e-6)


def test_lengths_that_scatter_as_their_times_do_are_no_noise() -> None:
    evidence = full(8, 2.0, scatter=0.9)
    assert evidence.by_work()[1] == pytest.approx(0.0, abs=1e-6)
    assert evidence.by_count()[1] > 0.02


def test_a_gain_is_told_with_its_error() -> None:
    found = gain(full(8, 1.0), full(16, 1.6))
    assert found == pytest.approx((1.25, 0.0), abs=1e-6)
    assert gain(Evidence(), full(8, 1.0)).error == math.inf


def test_a_time_that_grows_as_before_is_no_kink_and_one_that_only_queues_is_whole() -> None:
    assert kink(full(40, 2.8), full(60, 3.2), full(80, 3.6)).ratio == pytest.approx(0.0, abs=1e-9)
    rate = 60 / 3.2
    assert kink(full(40, 2.8), full(60, 3.2), full(80, 80 / rate)).ratio == pytest.approx(1.0)
    assert kink(full(60, 3.2), full(40, 2.8), full(80, 3.6)).error == math.inf


def test_a_server_that_was_full_before_has_no_knee_to_come() -> None:
    rate = 60 / 3.2
    assert kink(full(40, 40 / rate), full(60, 60 / rate), full(80, 80 / rate)) == (0.0, math.inf)


def test_where_no_time_has_passed_nothing_can_be_told() -> None:
    assert full(40, 0.0).by_work() == full(40, 0.0).by_count() == (0.0, math.inf)
    for below, middle, above in ((0.0, 3.2, 3.6), (2.8, 0.0, 3.6), (2.8, 3.2, 0.0)):
        assert kink(full(40, below), full(60, middle), full(80, above)).error == math.inf
        assert gain(full(40, below), full(60, middle)).ratio > 0.0


def test_what_another_time_has_shown_is_added_and_nothing_adds_nothing() -> None:
    one, both = full(8, 2.0, completions=10, scatter=0.5), full(8, 2.0, completions=10, scatter=0.5)
    both.add_all(None)
    assert both.by_count() == one.by_count()
    both.add_all(full(8, 1.0, completions=30))
    assert both.completions == 40
    assert both.by_count()[0] == pytest.approx(8 / ((10 * one.seconds / 10 + 30 * 1.0) / 40))


def test_what_fades_says_the_same_with_less_weight() -> None:
    evidence = full(8, 2.0, scatter=0.5)
    before, error = evidence.by_count()
    evidence.fade()
    assert evidence.by_count() == (pytest.approx(before), pytest.approx(error * 2**0.5))


def test_what_was_not_seen_adds_nothing() -> None:
    evidence = full(8, 2.0)
    evidence.add_all(None)
    assert evidence.by_count() == full(8, 2.0).by_count()


def test_a_server_that_was_full_already_has_no_knee_to_come() -> None:
    assert kink(full(2, 1.0), full(4, 2.0), full(8, 4.0)).error == math.inf
