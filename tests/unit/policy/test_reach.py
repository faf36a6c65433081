from __future__ import annotations

from headrace.policy.reach import FEWEST_OPEN, MANY_OPEN, MOST_OPEN, MOST_PATIENCE, NEVER_CACHED, Expected, Reach


def test_a_warm_prefix_that_comes_back_uncached_closes_a_quarter() -> None:
    reach = Reach()
    reach.learn(Expected.WARM, 10, 12, is_hit=False)
    assert reach.most_open == MOST_OPEN * 3 // 4


def test_what_was_taken_before_a_change_says_nothing_about_it() -> None:
    reach = Reach()
    reach.learn(Expected.WARM, 10, 50, is_hit=False)
    reach.learn(Expected.WARM, 50, 60, is_hit=False)
    assert reach.most_open == MOST_OPEN * 3 // 4
    reach.learn(Expected.WARM, 51, 61, is_hit=False)
    assert reach.most_open == MOST_OPEN * 9 // 16


def test_a_prefix_that_was_given_up_and_is_still_cached_opens_more() -> None:
    reach = Reach()
    reach.learn(Expected.LOST, 10, 12, is_hit=False)
    assert reach.most_open == MOST_OPEN
    reach.learn(Expected.LOST, 10, 12, is_hit=True)
    assert reach.most_open == MOST_OPEN + 1


def test_it_stays_within_bounds() -> None:
    reach = Reach()
    for n in range(1, 600):
        reach.learn(Expected.LOST, n, n, is_hit=True)
    assert reach.most_open == MANY_OPEN
    for n in range(600, 640):
        reach.learn(Expected.WARM, n, n, is_hit=False)
    assert reach.most_open == FEWEST_OPEN


def test_a_prefix_that_was_presumed_too_early_is_given_longer() -> None:
    reach = Reach()
    for n in range(10):
        reach.learn(Expected.PRESUMED, n, n, is_hit=False)
    assert reach.patience == MOST_PATIENCE
    assert reach.most_open == MOST_OPEN


def test_a_server_that_never_caches_shows_it_and_one_that_did_once_does_not() -> None:
    never, once = Reach(), Reach()
    once.learn(Expected.WARM, 1, 1, is_hit=True)
    for n in range(NEVER_CACHED):
        assert not never.is_useless
        for reach in (never, once):
            reach.learn(Expected.WARM, n, n, is_hit=False)
    assert never.is_useless
    assert not once.is_useless
