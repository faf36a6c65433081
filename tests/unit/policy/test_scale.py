"""From estimates to a server's count: the line is found past odd answers, and the interval holds what comes."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.scale import Scale, around, fit, of_mean
from headrace.policy.tokens import Span


def counted(estimate: float, noise: float = 0.0) -> int:
    """A server with its own tokenizer and a template of 31 tokens."""
    return round(1.2 * estimate + 31 + noise)


def test_a_line_through_the_answers_is_found() -> None:
    estimates = [float(size) for size in range(50, 250, 2)]

    scale = fit(estimates, [counted(size) for size in estimates])

    assert scale is not None
    assert scale.slope == pytest.approx(1.2, abs=0.01)
    assert scale.constant == pytest.approx(31, abs=1)
    assert scale.total(100_000, 1000).expected == pytest.approx(1.2 * 100_000 + 31_000, rel=0.01)


def test_prompts_that_a_server_cut_bend_no_line() -> None:
    estimates = [float(size) for size in range(50, 250, 2)]
    counts = [min(counted(size), 2048) if n % 10 else 40 for n, size in enumerate(estimates)]

    scale = fit(estimates, counts)

    assert scale is not None
    assert scale.count == 90
    assert scale.slope == pytest.approx(1.2, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_lies_in_the_interval(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.lognormvariate(5, 0.6) for _ in range(1000)]
    counts = [counted(size, rng.gauss(0, 8)) for size in sizes]

    scale = fit(sizes[:100], counts[:100])

    assert scale is not None
    found = scale.total(sum(sizes), len(sizes))
    assert found.low <= sum(counts) <= found.high
    assert sum(counts) == pytest.approx(found.expected, rel=0.03)


def test_equal_prompts_teach_a_ratio() -> None:
    scale = fit([100.0] * 10, [130] * 10)

    assert scale == Scale(1.3, 0.0, 0.0, 10, 100.0, 0.0)
    assert scale.total(1000, 10).expected == pytest.approx(1300)


def test_one_answer_teaches_a_ratio_too() -> None:
    scale = fit([50.0], [100])

    assert scale is not None
    assert (scale.slope, scale.constant, scale.count) == (2.0, 0.0, 1)


def test_nonsense_is_no_slope() -> None:
    """Counts that fall as prompts grow say nothing of a tokenizer."""
    scale = fit([100.0, 200.0, 300.0, 400.0], [400, 300, 200, 100])

    assert scale is not None
    assert scale.constant == pytest.approx(0.0, abs=1)
    assert 0.5 < scale.slope < 1.1


def test_counts_that_no_line_goes_through_teach_a_ratio() -> None:
    """A slope that no tokenizer has is not believed, and a search for odd answers that finds others each time has an end."""
    estimates, counts = [574.0, 804.0, 72.0, 127.0, 763.0], [13735, 161, 118, 1427, 947]
    scale = fit(estimates, counts)
    assert scale is not None
    assert scale.constant == 0.0
    assert scale.slope > 0
    endless = fit([132.0, 454.0, 247.0, 952.0, 632.0], [395, 9684, 741, 190, 1896])
    assert endless is not None
    assert 3 <= endless.count <= 5


def test_the_longest_alone_do_not_tell_where_the_line_begins() -> None:
    """What was sent first may be the longest: their odd ones turn a free line, and the short ones pay for it."""
    rng = random.Random(7)
    sizes = sorted((rng.lognormvariate(5, 0.4) for _ in range(1000)), reverse=True)
    counts = [round(1.1 * size * rng.gauss(1.0 + size / 4000, 0.06) + 12) for size in sizes]

    scale = fit(sizes[:100], counts[:100], 11.0)

    assert scale is not None
    found = scale.total(sum(sizes[100:]), 900)
    assert sum(counts[100:]) == pytest.approx(found.expected, rel=0.05)
    assert found.low <= sum(counts[100:]) <= found.high


def test_other_sizes_widen_the_interval() -> None:
    scale = Scale(1.0, 0.0, 0.0, 1000, 100.0, 1e6)

    alike, longer = scale.total(100.0 * 50, 50), scale.total(200.0 * 25, 25)

    assert alike.expected == longer.expected
    assert longer.high > alike.high + 0.05 * alike.expected


def test_few_answers_add_what_a_template_usually_does() -> None:
    scale = fit([100.0, 100.0], [111, 111], 11.0)

    assert scale is not None
    assert (scale.slope, scale.constant) == (1.0, 11.0)
    assert fit([4.0], [5], 11.0) == fit([4.0], [5])


def test_without_answers_nothing_is_taught() -> None:
    assert fit([], []) is None
    assert fit([0.0, 10.0], [5, 0]) is None


def test_no_request_takes_nothing() -> None:
    assert Scale(1.0, 5.0, 1.0, 10, 100.0, 50.0).total(0.0, 0) == Span(0.0, 0.0, 0.0)


def test_few_answers_widen_the_interval() -> None:
    few, many = (Scale(1.0, 0.0, 5.0, count, 100.0, 1e4) for count in (3, 1000))

    assert few.total(10_000, 100).high > many.total(10_000, 100).high


def test_the_mean_of_answers_is_expected_of_the_next() -> None:
    found = of_mean([10, 20, 30], 100, 0.05)

    assert found.expected == pytest.approx(2000)
    assert 0 <= found.low < 1900
    assert of_mean([10], 100, 0.0).low == 0.0


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0, 1))
def test_an_interval_holds_its_middle_and_is_never_negative(expected: float, reach: float, drift: float) -> None:
    found = around(expected, reach, drift)

    assert 0 <= found.low <= found.expected <= found.high
    assert math.isfinite(found.high)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10**6)), max_size=30), st.integers(0, 10**6))
def test_any_answers_give_a_finite_interval(pairs: list[tuple[float, int]], requests: int) -> None:
    scale = fit([estimate for estimate, _ in pairs], [count for _, count in pairs])

    if scale is not None:
        found = scale.total(100.0 * requests, requests)
        assert 0 <= found.low <= found.expected <= found.high
        assert math.isfinite(found.high)
