"""What a server's own figures allow: trajectories of polls in, budgets out."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from headrace.policy import ceiling as rules
from headrace.policy.ceiling import Ceiling, View
from headrace.values import Capacity, Gauges

VLLM = Capacity("vllm", tokens=40_000, gauges=("running", "waiting", "kv_used", "preemptions"))
AT_EASE = Gauges(running=80, waiting=0, waiting_for_capacity=0, kv_used=0.9, preemptions=0)
FULL_VIEW = View(now=0.0, in_flight=80, held=40_000.0, mean_s=2.0, mean_tokens=500.0, mean_answer=100.0)


def poll(ceiling: Ceiling, polls: Iterable[Gauges], view: View = FULL_VIEW, begin: float = 0.0) -> float:
    """A poll a second, with a full budget in flight unless the view says less. Returns the time after them."""
    now = begin
    for gauges in polls:
        held = min(view.held, ceiling.tokens) if view.held < FULL_VIEW.held else ceiling.tokens
        ceiling.on_gauges(gauges, replace(view, now=now, held=held if math.isfinite(held) else view.held))
        now += 1.0
    return now


def test_the_first_budget_is_what_the_cache_holds() -> None:
    ceiling = Ceiling(VLLM, 512)
    assert (ceiling.tokens, ceiling.requests, ceiling.rule, ceiling.is_known) == (40_000, 512, "told", True)


def test_slots_are_taken_as_said() -> None:
    assert Ceiling(Capacity("sglang", requests=8), 512).requests == 8
    assert not Ceiling(Capacity("vllm"), 512).is_known
    assert Ceiling(Capacity("vllm"), 512).tokens == math.inf


def test_the_budget_grows_while_the_cache_is_seen_to_have_room_and_stops_there() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [AT_EASE] * 3)
    assert ceiling.fill == pytest.approx(rules.FULL / 0.9)
    assert ceiling.rule == "room_left"
    filled = ceiling.fill
    poll(ceiling, [replace(AT_EASE, kv_used=0.972)] * 6, begin=10.0)
    assert ceiling.fill == filled


def test_growth_is_bounded_by_the_time_that_requests_take() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.1)] * 3)
    assert ceiling.fill == pytest.approx(rules.MOST_GROWTH_EMPTY)
    poll(ceiling, [replace(AT_EASE, kv_used=0.1)] * 2, begin=3.0)
    assert ceiling.fill == pytest.approx(rules.MOST_GROWTH_EMPTY)
    half = Ceiling(VLLM, 512)
    poll(half, [replace(AT_EASE, kv_used=0.75)] * 3)
    assert half.fill == pytest.approx(rules.MOST_GROWTH)


def test_a_budget_that_is_not_used_does_not_grow() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.2)] * 10, replace(FULL_VIEW, held=10_000.0))
    assert ceiling.fill == 1.0


def test_nothing_is_learnt_before_the_first_reply() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.2, preemptions=n) for n in range(10)], replace(FULL_VIEW, mean_s=0.0))
    assert ceiling.fill == 1.0


def test_requests_that_were_put_back_cut_once_for_what_is_in_flight() -> None:
    ceiling = Ceiling(VLLM, 512)
    now = poll(ceiling, [AT_EASE, replace(AT_EASE, preemptions=4)])
    assert (ceiling.fill, ceiling.rule) == (0.95, "preempted")
    now = poll(ceiling, [replace(AT_EASE, preemptions=9)], begin=now)
    assert ceiling.fill == 0.95
    poll(ceiling, [replace(AT_EASE, preemptions=500)], begin=now + 2.0)
    assert ceiling.fill == pytest.approx(0.95 * (1 - rules.MOST_CUT))


def test_a_count_that_began_anew_is_none() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, preemptions=n) for n in (9, 0)])
    poll(ceiling, [replace(AT_EASE, preemptions=None), AT_EASE], begin=2.0)
    assert ceiling.rule in {"told", "room_left"}


def test_what_was_too_much_is_approached_and_not_passed_until_it_is_time_to_try_again() -> None:
    ceiling = Ceiling(VLLM, 512)
    now = poll(ceiling, [AT_EASE, replace(AT_EASE, preemptions=1)])
    at_ease = replace(AT_EASE, preemptions=1, kv_used=0.93)
    now = poll(ceiling, [at_ease] * 20, begin=now)
    assert ceiling.fill == pytest.approx(rules.BACK_OFF)
    poll(ceiling, [at_ease] * 20, begin=now + 2 * 2 * rules.FIRST_REST)
    assert ceiling.fill > rules.BACK_OFF


def test_with_a_cache_that_is_half_empty_what_was_too_much_is_not_any_more() -> None:
    ceiling = Ceiling(VLLM, 512)
    now = poll(ceiling, [AT_EASE, replace(AT_EASE, preemptions=1)])
    poll(ceiling, [replace(AT_EASE, preemptions=1, kv_used=0.4)] * 6, begin=now)
    assert ceiling.fill > 1.0


def test_who_waits_for_room_in_a_full_cache_cuts() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.95, waiting=9, waiting_for_capacity=8)])
    assert (ceiling.fill, ceiling.rule) == (0.9, "waits_for_room")
    assert not ceiling.is_queueing
    poll(ceiling, [replace(AT_EASE, kv_used=0.95, waiting=9, waiting_for_capacity=8)], begin=1.0)
    assert ceiling.is_queueing


def test_who_waits_for_something_else_does_not() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.95, waiting=9)] * 3)
    assert ceiling.rule != "waits_for_room"


def test_while_prompts_wait_to_be_computed_nothing_grows_and_nothing_is_cut() -> None:
    ceiling = Ceiling(VLLM, 512)
    wavering = [
        replace(AT_EASE, running=running, waiting=50, waiting_for_capacity=40, kv_used=0.3)
        for running in (20, 31, 25, 38, 22, 30)
    ]
    poll(ceiling, wavering * 3)
    assert (ceiling.fill, ceiling.requests) == (1.0, 512)


def test_a_cache_that_runs_over_is_cut_before_anybody_is_put_back() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, kv_used=0.995)] * 3)
    assert (ceiling.fill, ceiling.rule) == (pytest.approx(rules.FULL / 0.995), "full")


def test_seats_are_learnt_where_the_same_number_runs_and_others_wait_with_room_left() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [replace(AT_EASE, running=40, waiting=40, waiting_for_capacity=40, kv_used=0.5)] * 6)
    assert ceiling.requests == 41
    assert ceiling.is_known


def test_seats_that_are_more_than_thought_are_found() -> None:
    ceiling = Ceiling(VLLM, 512)
    now = poll(ceiling, [replace(AT_EASE, running=40, waiting=40, waiting_for_capacity=40, kv_used=0.5)] * 6)
    poll(ceiling, [replace(AT_EASE, running=41, kv_used=0.5)], replace(FULL_VIEW, in_flight=41), begin=now)
    assert ceiling.requests == 45
    poll(ceiling, [replace(AT_EASE, running=20, kv_used=0.5)], replace(FULL_VIEW, in_flight=20), begin=now)
    assert ceiling.requests == 45


def test_seats_that_are_told_are_not_learnt() -> None:
    ceiling = Ceiling(replace(VLLM, server="sglang", requests=100), 512)
    poll(ceiling, [replace(AT_EASE, running=40, waiting=40, waiting_for_capacity=40, kv_used=0.5)] * 8)
    assert ceiling.requests == 100


def test_without_a_gauge_of_the_cache_its_use_is_taken_as_expected() -> None:
    ceiling = Ceiling(Capacity("sglang", tokens=40_000), 512)
    poll(ceiling, [Gauges(running=80, waiting=0)] * 3)
    assert ceiling.fill == pytest.approx(rules.FULL / 0.92)
    poll(ceiling, [Gauges(running=80, waiting=20)], begin=5.0)
    assert ceiling.rule == "waits_for_room"


def test_with_no_mean_known_nothing_is_expected() -> None:
    ceiling = Ceiling(Capacity("sglang", tokens=40_000), 512)
    poll(ceiling, [Gauges(running=0, waiting=0)] * 3, replace(FULL_VIEW, mean_tokens=0.0))
    assert ceiling.fill == pytest.approx(rules.MOST_GROWTH_EMPTY)


def test_the_size_of_a_cache_that_is_not_told_is_learnt_by_its_use() -> None:
    ceiling = Ceiling(Capacity("tensorrt-llm"), 512)
    view = replace(FULL_VIEW, held=10_000.0)
    poll(ceiling, [Gauges(running=20, kv_used=0.2)], view)
    assert ceiling.tokens == math.inf
    poll(ceiling, [Gauges(running=20, kv_used=0.4)], view, begin=1.0)
    assert ceiling.tokens == pytest.approx(25_000.0)


def test_slots_that_share_a_cache_are_never_overfilled() -> None:
    ceiling = Ceiling(Capacity("llama.cpp", requests=4, tokens=8192, context=8192), 512)
    poll(ceiling, [Gauges(running=4, waiting=3)] * 9, replace(FULL_VIEW, in_flight=7))
    assert (ceiling.requests, ceiling.tokens) == (4, 8192)


def test_slots_with_a_cache_each_need_no_budget() -> None:
    assert Ceiling(Capacity("llama.cpp", requests=8, tokens=32_768, context=4096), 512).tokens == math.inf


def test_a_number_that_is_refused_above_is_a_bound_and_no_aim() -> None:
    ceiling = Ceiling(Capacity("tgi", requests=128), 512)
    assert (ceiling.most, ceiling.requests, Ceiling(VLLM, 512).most) == (128, None, None)


def test_a_page_of_one_server_out_of_several_says_nothing() -> None:
    ceiling = Ceiling(replace(VLLM, requests=90), 512)
    now = poll(ceiling, [replace(AT_EASE, running=20)] * 4)
    assert ceiling.is_whole
    now = poll(ceiling, [replace(AT_EASE, running=20)] * 4, begin=now)
    assert not ceiling.is_whole
    assert (ceiling.tokens, ceiling.requests, ceiling.is_known) == (math.inf, None, False)
    poll(ceiling, [AT_EASE] * 5, begin=now)
    assert ceiling.is_whole
    assert ceiling.requests == 90


def test_a_page_that_does_not_say_who_runs_is_not_held_to_be_foreign() -> None:
    ceiling = Ceiling(VLLM, 512)
    poll(ceiling, [Gauges(waiting=0)] * 9)
    assert ceiling.is_whole
    poll(ceiling, [Gauges(running=3)] * 9)
    assert ceiling.is_whole


# Where seats are not told


def taken(ceiling: Ceiling, in_flight: int, **more: float) -> int | None:
    """A poll in which all that is in flight runs; what may be in flight afterwards."""
    gauges = replace(AT_EASE, **{"running": in_flight, "kv_used": 0.1, **more})
    ceiling.on_gauges(gauges, replace(FULL_VIEW, in_flight=in_flight, held=500.0 * in_flight, mean_s=0.0))
    return ceiling.requests


def test_the_budget_is_approached_by_doubling_while_nobody_waits() -> None:
    ceiling = Ceiling(VLLM, 6)
    assert ceiling.requests == 6
    assert [taken(ceiling, 6), taken(ceiling, 12), taken(ceiling, 24)] == [12, 24, 48]
    assert ceiling.is_reaching
    assert taken(ceiling, 48, running=16, waiting=32, waiting_for_capacity=32) == 48
    assert not ceiling.is_reaching


def test_what_is_not_used_is_not_doubled() -> None:
    ceiling = Ceiling(VLLM, 6)
    assert taken(ceiling, 3) == 6


def test_a_page_that_lags_behind_allows_nothing_more() -> None:
    ceiling = Ceiling(VLLM, 6)
    assert taken(ceiling, 6, running=2) == 6


def test_seats_are_found_before_the_first_reply() -> None:
    ceiling = Ceiling(VLLM, 24)
    for _ in range(6):
        taken(ceiling, 24, running=16, waiting=8, waiting_for_capacity=8)
    assert ceiling.requests == 17


def test_slots_that_are_told_are_not_approached() -> None:
    assert Ceiling(Capacity("llama.cpp", requests=64), 6).requests == 64
