from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.backoff import BASE_S, CAP_S, backoff_s, on_return_s

SEEDS = st.integers(0, 2**32)


class Fixed(random.Random):
    """Draws one number for ever."""

    def __init__(self, drawn: float) -> None:
        super().__init__(0)
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


def test_waits_double_from_half_a_second_to_a_minute() -> None:
    longest = [backoff_s(failures, Fixed(1.0)) for failures in range(1, 11)]
    assert longest == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    shortest = [backoff_s(failures, Fixed(0.0)) for failures in range(1, 11)]
    assert shortest == [wait / 2 for wait in longest]


@given(st.integers(1, 10**9), SEEDS)
def test_a_wait_lies_in_the_upper_half_of_its_step(failures: int, seed: int) -> None:
    full = min(CAP_S, BASE_S * 2.0 ** min(failures - 1, 100))
    assert full / 2 <= backoff_s(failures, random.Random(seed)) <= full


@given(st.integers(1, 6), SEEDS, SEEDS)
def test_RTL_06_gaps_grow_below_the_cap_whatever_is_drawn(failures: int, one: int, other: int) -> None:  # noqa: N802 - the case's id
    first, second = backoff_s(failures, random.Random(one)), backoff_s(failures + 1, random.Random(other))
    assert 0.25 <= first <= second


@pytest.mark.slow
@given(st.integers(1, 100), SEEDS, st.floats(0.001, 10), st.floats(10, 1000))
def test_base_and_cap_can_be_named(failures: int, seed: int, base_s: float, cap_s: float) -> None:
    wait = backoff_s(failures, random.Random(seed), base_s, cap_s)
    assert min(base_s, cap_s) / 2 <= wait <= cap_s


def test_units_that_failed_together_do_not_return_together() -> None:
    rng = random.Random(7)
    waits = [backoff_s(4, rng) for _ in range(100)]
    assert len(set(waits)) == 100
    assert max(waits) - min(waits) > 1.5  # of the two seconds that are random


def test_equal_seeds_give_equal_waits() -> None:
    assert backoff_s(3, random.Random(1)) == backoff_s(3, random.Random(1))


@given(st.floats(0.001, 1e6), SEEDS)
def test_RTL_04_a_named_wait_is_a_floor(wait_s: float, seed: int) -> None:  # noqa: N802 - the case's id
    assert wait_s <= on_return_s(wait_s, random.Random(seed)) <= wait_s * 1.1


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, 61.0), (0.5, 64.05)])
def test_a_tenth_at_most_comes_on_top(drawn: float, expected: float) -> None:
    assert on_return_s(61.0, Fixed(drawn)) == pytest.approx(expected)
