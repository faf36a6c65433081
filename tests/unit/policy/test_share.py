"""Ours where others come first: what is idle is used, and given back when others queue."""

from __future__ import annotations

from itertools import pairwise

from headrace.policy.ceiling import View
from headrace.policy.share import STAND_BACK_POLLS, Share
from headrace.values import Capacity, Gauges

SLOTS = Capacity("llama.cpp", requests=8)
CACHE = Capacity("vllm", tokens=40_000)


def poll(share: Share, gauges: Gauges, in_flight: int, capacity: Capacity = SLOTS) -> int:
    share.on_gauges(gauges, capacity, View(0.0, in_flight, 0.0, 2.0, 500.0, 100.0))
    return share.limit


def test_idle_seats_but_one_are_ours() -> None:
    share = Share(512)
    assert share.limit == 1
    assert poll(share, Gauges(running=5, waiting=0), 1) == 3
    assert poll(share, Gauges(running=7, waiting=0), 3) == 3
    assert share.rule == "idle_seats"


def test_a_full_server_is_left_to_the_others() -> None:
    share = Share(512)
    poll(share, Gauges(running=5, waiting=0), 1)
    assert poll(share, Gauges(running=8, waiting=4), 3) == 0
    assert poll(share, Gauges(running=8, waiting=1), 0) == 0


def test_others_who_leave_are_believed_after_some_polls() -> None:
    share = Share(512)
    poll(share, Gauges(running=8, waiting=0), 0)
    limits = [poll(share, Gauges(running=0, waiting=0), 0) for _ in range(6)]
    assert limits[:4] == [0, 0, 0, 0]
    assert limits[-1] == 7


def test_where_seats_are_not_told_it_grows_while_nobody_waits() -> None:
    share = Share(40)
    limits = []
    for _ in range(20):
        in_flight = share.limit
        limits.append(poll(share, Gauges(running=10 + in_flight, waiting=0, kv_used=0.4), in_flight, CACHE))
    assert limits[:4] == [2, 3, 4, 5]
    assert limits[-1] == 40


def test_a_share_that_is_not_used_does_not_grow() -> None:
    share = Share(40)
    for _ in range(9):
        poll(share, Gauges(running=1, waiting=0, kv_used=0.4), 0, CACHE)
    assert share.limit == 1


def test_others_who_queue_come_first_and_are_given_time() -> None:
    share = Share(40)
    while share.limit < 20:
        poll(share, Gauges(running=share.limit, waiting=0, kv_used=0.4), share.limit, CACHE)
    assert poll(share, Gauges(running=30, waiting=5, kv_used=0.7), 20, CACHE) == 15
    assert share.rule == "others_wait"
    for _ in range(STAND_BACK_POLLS):
        assert poll(share, Gauges(running=30, waiting=0, kv_used=0.7), 15, CACHE) == 15
    assert poll(share, Gauges(running=30, waiting=0, kv_used=0.7), 15, CACHE) > 15


def test_where_only_ours_wait_nobody_is_given_way_to() -> None:
    share = Share(40)
    before = poll(share, Gauges(running=1, waiting=0, kv_used=0.1), 1, CACHE)
    assert poll(share, Gauges(running=1, waiting=1, kv_used=0.1), 2, CACHE) == before


def test_room_in_the_cache_is_left_for_others() -> None:
    share = Share(512)
    assert poll(share, Gauges(running=100, waiting=0, kv_used=0.85), 50, CACHE) == 45
    assert share.rule == "cache_full"


def test_a_server_that_does_not_say_who_runs_teaches_nothing() -> None:
    share = Share(512)
    assert poll(share, Gauges(waiting=3), 1) == 1


# Without gauges


def replies(share: Share, pace_s: float, rounds: int, send: int = 1) -> int:
    """Full rounds of replies of equal work, each taking so long; returns the next send's number."""
    for _ in range(rounds):
        for _ in range(max(16, share.limit)):
            send += 1
            share.on_delivered(send, pace_s, 100.0, share.limit, send + 1)
    return send


def test_it_doubles_while_answers_take_no_longer() -> None:
    share = Share(64)
    replies(share, 2.0, 5)
    assert share.limit == 32
    assert share.rule == "as_fast"


def test_answers_that_take_longer_cut_it_and_then_it_grows_by_one() -> None:
    share = Share(64)
    send = replies(share, 2.0, 4)
    assert share.limit == 16
    send = replies(share, 3.0, 1, send)
    assert (share.limit, share.rule) == (9, "slower")
    send = replies(share, 2.0, 1, send)
    assert share.limit == 10
    replies(share, 1e6, 9, send)
    assert share.limit == 1


def test_what_was_sent_before_a_change_says_nothing_about_it() -> None:
    share = Share(64)
    send = replies(share, 2.0, 4)
    for _ in range(50):
        share.on_delivered(send - 20, 100.0, 100.0, 16, send + 1)
    assert share.limit == 16


def test_a_time_that_is_not_clear_is_measured_longer() -> None:
    share = Share(64)
    send = replies(share, 2.0, 1)
    limits = []
    for n in range(200):
        send += 1
        share.on_delivered(send, 1.0 + 2.32 * (n % 2), 100.0, share.limit, send + 1)
        limits.append(share.limit)
    assert limits[30] == 2
    assert limits[-1] != 2


def test_a_faster_server_is_the_new_measure() -> None:
    share = Share(64)
    send = replies(share, 4.0, 2)
    send = replies(share, 2.0, 2, send)
    assert share.limit == 16
    replies(share, 4.0, 1, send)
    assert share.rule == "slower"


def test_what_was_slower_is_tried_again_after_some_rounds_and_then_more_seldom() -> None:
    share = Share(64)
    send, tried = 1, []
    for n in range(200):
        send = replies(share, 2.0 if share.limit <= 8 else 2.4, 1, send)
        tried += [n] if share.rule == "slower" else []
    assert share.limit <= 9
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 32


def test_after_long_it_is_still_held_against_the_best_seen() -> None:
    share = Share(4)
    send = replies(share, 2.0, 100)
    assert share.limit == 4
    replies(share, 3.0, 1, send)
    assert (share.limit, share.rule) == (2, "slower")


def test_a_share_that_is_not_full_is_not_raised_by_replies() -> None:
    share = Share(64)
    send = replies(share, 2.0, 5)
    for _ in range(64):
        send += 1
        share.on_delivered(send, 2.0, 100.0, 3, send + 1)
    assert share.limit == 32


def test_gauges_that_fall_silent_leave_it_to_the_replies() -> None:
    share = Share(64)
    poll(share, Gauges(running=8, waiting=4), 0)
    assert share.limit == 0
    replies(share, 2.0, 2)
    assert share.limit == 0
    share.on_no_gauges()
    assert share.limit == 1
    replies(share, 2.0, 2)
    assert share.limit == 4
