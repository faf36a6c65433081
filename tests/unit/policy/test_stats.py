"""How sure a counted share is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.stats import ClassFigures, class_figures, wilson

# Computed with scipy.stats.binomtest(k, n).proportion_ci(method="wilson").
PUBLISHED = [
    (0, 20, 0.0, 0.161125),
    (1, 20, 0.008881, 0.236131),
    (5, 50, 0.043476, 0.213602),
    (8, 100, 0.041093, 0.149981),
    (0, 100, 0.0, 0.036993),
    (100, 100, 0.963007, 1.0),
    (47, 50, 0.837829, 0.979385),
    (95, 100, 0.888250, 0.978456),
    (3, 300, 0.003407, 0.028983),
    (180, 200, 0.850594, 0.934330),
]
counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(("successes", "trials", "low", "high"), PUBLISHED)
def test_the_interval_is_wilsons(successes: int, trials: int, low: float, high: float):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-7)


@given(counts)
def test_the_share_lies_inside_and_the_bounds_are_shares(count: tuple[int, int]):
    low, high = wilson(*count)
    assert 0.0 <= low <= count[0] / count[1] <= high <= 1.0


@given(counts)
def test_failures_mirror_successes(count: tuple[int, int]):
    successes, trials = count
    low, high = wilson(successes, trials)
    assert wilson(trials - successes, trials) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(counts)
def test_more_confidence_is_a_wider_interval(count: tuple[int, int]):
    low, high = wilson(*count, confidence=0.95)
    lower, higher = wilson(*count, confidence=0.99)
    assert lower <= low
    assert high <= higher


def test_no_trial_says_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 3), (4, 3), (0, -1)])
def test_what_is_no_share_is_refused(successes: int, trials: int):
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, trials)


def test_each_class_has_its_precision_recall_and_f1():
    pairs = [("a", "a"), ("a", "a"), ("a", "b"), ("b", "b"), ("b", None), ("c", "a")]
    figures = class_figures(pairs)
    assert figures["a"] == ClassFigures(n=3, answered=3, right=2, precision=2 / 3, recall=2 / 3, f1=2 / 3)
    assert figures["b"] == ClassFigures(n=2, answered=2, right=1, precision=0.5, recall=0.5, f1=0.5)
    assert figures["c"] == ClassFigures(n=1, answered=0, right=0, precision=None, recall=0.0, f1=0.0)


def test_a_class_that_nobody_knows_has_no_figures_and_keeps_its_place():
    figures = class_figures([("b", "z")], ["a", "b"])
    assert list(figures) == ["a", "b", "z"]
    assert figures["a"] == ClassFigures(0, 0, 0, None, None, None)
    assert figures["z"] == ClassFigures(0, 1, 0, 0.0, None, 0.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "b", "c", None]))))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(pairs: list[tuple[str, str | None]]):
    for figures in class_figures(pairs, "abc").values():
        if figures.precision and figures.recall:
            assert figures.f1 == pytest.approx(2 / (1 / figures.precision + 1 / figures.recall))
        else:
            assert not figures.f1
