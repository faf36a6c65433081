from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.window import Move, Window


def clean(window: Window, sends: range) -> list[Move]:
    return [move for send in sends if (move := window.on_clean(send)) is not None]


def test_it_starts_at_its_ceiling_and_stays_there() -> None:
    window = Window(6)
    assert clean(window, range(1, 100)) == []
    assert window.limit == window.ceiling == 6


def test_an_episode_halves_it() -> None:
    window = Window(64)
    limits = []
    for episode in range(1, 9):
        move = window.on_overload_episode(episode * 100)
        assert move == Move(window.limit, "overload_halves")
        limits.append(window.limit)
    assert limits == [32, 16, 8, 4, 2, 1, 1, 1]


def test_one_episode_cuts_it_once() -> None:
    window = Window(64)
    assert window.on_overload_episode(65) == Move(32, "overload_halves")
    assert window.on_overload_episode(65) is None  # nothing was sent since: the rest of what was in flight
    assert window.limit == 32
    assert window.on_overload_episode(66) == Move(16, "overload_halves")


def test_a_full_round_of_clean_completions_adds_one() -> None:
    window = Window(6)
    window.on_overload_episode(10)
    assert clean(window, range(10, 12)) == []
    assert clean(window, range(12, 13)) == [Move(4, "clean_round")]
    assert clean(window, range(13, 17)) == [Move(5, "clean_round")]
    assert clean(window, range(17, 22)) == [Move(6, "clean_round")]
    assert clean(window, range(22, 100)) == []


def test_what_was_sent_before_a_cut_says_nothing() -> None:
    window = Window(8)
    window.on_overload_episode(100)
    assert clean(window, range(1, 100)) == []
    assert window.limit == 4
    assert clean(window, range(100, 104)) == [Move(5, "clean_round")]


def test_a_cut_ends_the_round_that_was_counted() -> None:
    window = Window(8)
    window.on_overload_episode(10)
    assert clean(window, range(10, 13)) == []
    window.on_overload_episode(13)
    assert window.limit == 2
    assert clean(window, range(13, 14)) == []
    assert clean(window, range(14, 15)) == [Move(3, "clean_round")]


@pytest.mark.parametrize("ceiling", [1, 2, 3])
def test_a_small_window_never_closes(ceiling: int) -> None:
    window = Window(ceiling)
    for send in range(1, 10):
        window.on_overload_episode(send)
    assert window.limit == 1


@pytest.mark.slow
@given(st.integers(1, 300), st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=200))
def test_it_always_stays_within_its_bounds_and_moves_gently(ceiling: int, steps: list[tuple[bool, int]]) -> None:
    window, sends = Window(ceiling), 0
    for overload, sent in steps:
        sends += sent
        before = window.limit
        move = window.on_overload_episode(sends + 1) if overload else window.on_clean(max(1, sends))
        assert 1 <= window.limit <= ceiling
        assert window.limit in ({before, max(1, before // 2)} if overload else {before, before + 1})
        assert move is None or move.limit == window.limit
        assert move is not None or window.limit == before


def test_RTL_08_timeouts_halve_a_fixed_window_once_for_what_was_in_flight() -> None:  # noqa: N802 - the case's id
    window = Window(8)
    moves = [window.on_timeout(send, 9) for send in range(1, 9)]
    assert moves == [None] * 7 + [Move(4, "overload_halves")]
    assert [window.on_timeout(send, 17) for send in range(9, 16)] == [None] * 7  # not enough of them yet
    assert window.on_timeout(16, 17) == Move(2, "overload_halves")
    assert window.on_timeout(16, 17) is None  # sent before the cut


def test_a_window_that_is_wide_is_halved_by_more_timeouts() -> None:
    window = Window(100)
    moves = [window.on_timeout(send, 101) for send in range(1, 101)]
    assert moves.index(Move(50, "overload_halves")) == 49


@pytest.mark.parametrize("every", [10, 3])
def test_NET_01_a_share_of_requests_that_hang_leaves_a_fixed_window_as_it_is(every: int) -> None:  # noqa: N802 - the case's id
    window = Window(8)
    assert {window.on_timeout(send, send + 8) for send in range(1, 2_000, every)} == {None}
    assert window.limit == 8


def test_a_window_that_timeouts_have_cut_grows_again() -> None:
    window = Window(8)
    for send in range(1, 9):
        window.on_timeout(send, 9)
    assert clean(window, range(9, 13)) == [Move(5, "clean_round")]
