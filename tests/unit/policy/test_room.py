"""Tokens in flight against what a cache holds of them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.room import Room


def test_without_a_budget_everything_goes() -> None:
    room = Room()
    room.take(1e9)
    assert room.is_open
    assert room.takes(1e9)


def test_a_unit_that_does_not_fit_closes_the_room_until_it_does() -> None:
    room = Room()
    room.allow(100.0)
    room.take(60.0)
    room.take(30.0)
    assert room.is_open
    assert not room.takes(20.0)
    assert not room.is_open
    room.give_back(30.0)
    assert room.is_open
    assert room.takes(20.0)
    room.take(20.0)
    assert (room.held, room.units) == (80.0, 2)


def test_a_unit_larger_than_all_of_it_goes_alone() -> None:
    room = Room()
    room.allow(100.0)
    assert room.takes(500.0)
    room.take(500.0)
    assert not room.is_open
    assert not room.takes(1.0)
    room.give_back(500.0)
    assert room.is_open
    assert room.held == 0.0


def test_a_larger_budget_opens_and_a_smaller_one_closes() -> None:
    room = Room()
    room.take(60.0)
    room.allow(50.0)
    assert not room.is_open
    room.allow(math.inf)
    assert room.is_open


@given(st.lists(st.floats(0.1, 60.0), max_size=60), st.floats(1.0, 200.0))
def test_more_than_the_budget_is_held_only_for_one_unit_alone(units: list[float], budget: float) -> None:
    room = Room()
    room.allow(budget)
    inside: list[float] = []
    for tokens in units:
        while not room.takes(tokens):
            room.give_back(inside.pop(0))
        room.take(tokens)
        inside.append(tokens)
        assert room.held <= budget + 1e-6 or room.units == 1
