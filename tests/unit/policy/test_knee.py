"""Throughput against what is in flight."""

from __future__ import annotations

import pytest

from headrace.policy.knee import is_flat, knee, levels, points_of


@pytest.mark.parametrize(("most", "tried"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_levels_double_up_to_the_most(most: int, tried: list[int]) -> None:
    assert levels(most) == tried


def test_it_is_flat_when_two_levels_in_a_row_bring_no_gain() -> None:
    assert not is_flat([(1, 10.0), (2, 10.0)])
    assert is_flat([(1, 10.0), (2, 10.0), (4, 10.4)])
    assert not is_flat([(1, 10.0), (2, 10.0), (4, 10.6)])
    assert is_flat([(4, 40.0), (8, 40.0), (16, 12.0)])


def test_the_knee_is_where_more_brings_little_more() -> None:
    assert knee([(1, 1.0), (2, 2.0), (4, 4.0), (8, 7.6), (16, 8.0), (32, 8.0)]) == 8
    assert knee([(16, 8.0), (1, 1.0), (8, 7.6)]) == 8


@pytest.mark.parametrize("points", [[], [(4, 10.0)], [(1, 1.0), (2, 2.0)], [(1, 0.0), (2, 0.0)]])
def test_a_knee_that_was_not_seen_is_none(points: list[tuple[int, float]]) -> None:
    assert knee(points) is None


def test_near_numbers_in_flight_are_taken_together_and_lone_seconds_say_nothing() -> None:
    assert points_of([(30, 3, 300), (31, 3, 330), (2, 4, 8), (0, 50, 0)]) == [(30, 105.0)]
