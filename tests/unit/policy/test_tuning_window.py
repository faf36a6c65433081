"""Trajectories of the self-tuning window, in a closed loop of its own: a server, and a client that keeps the window full."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.stages import MOST_BROKEN, Stage
from headrace.policy.tuning import AUTO_START, TuningWindow
from headrace.policy.window import Move


class Loop:
    """A server with `slots`, and a client. `slots` and `supply` (requests that may be in flight at most) are of the time."""

    def __init__(
        self,
        slots: Callable[[float], int],
        *,
        sigma: float = 0.0,
        most: int | None = None,
        refused: float = 0.0,
        supply: Callable[[float], int] = lambda _: 10**9,
        window: TuningWindow | None = None,
    ) -> None:
        self.window = window or TuningWindow(AUTO_START)
        self.moves: list[Move] = []
        self.limits: list[tuple[float, int]] = []
        self.now = 0.0
        self.done = self.refusals = 0
        self._slots, self._sigma, self._most, self._refused, self._supply = slots, sigma, most, refused, supply
        self._rng = random.Random(11)
        self._sends = 0
        self._in_flight = 0
        self._serving = 0
        self._queue: list[tuple[float, int, float]] = []
        self._ends: list[tuple[float, int, float, float, bool]] = []

    def run(self, completions: int) -> Loop:
        target = self.done + completions
        self._fill()
        while self.done < target:
            self.now, send, sent_at, work, is_refused = heapq.heappop(self._ends)
            in_flight = self._in_flight
            self._in_flight -= 1
            if is_refused:
                self.refusals += 1
                move = self.window.on_refused(send, self._sends + 1)
            else:
                self._serving -= 1
                self.done += 1
                seconds = self.now - sent_at
                move = self.window.on_delivered(send, seconds, work, in_flight, self.now, self._sends + 1)
            if move is not None:
                self.moves.append(move)
                self.limits.append((self.now, move.limit))
                assert move.limit == self.window.limit
            self._fill()
        return self

    def _fill(self) -> None:
        while self._in_flight < min(self.window.limit, self._supply(self.now)):
            self._sends += 1
            self._in_flight += 1
            crowded = self._most is not None and self._in_flight > self._most
            if crowded or self._rng.random() < self._refused:
                # back before whatever was sent later: with a delay that grows by the send
                heapq.heappush(self._ends, (self.now + 0.01, self._sends, self.now, 0.0, True))
                continue
            work = 100 * self._rng.lognormvariate(-(self._sigma**2) / 2, self._sigma)
            self._queue.append((self.now, self._sends, work))
        while self._queue and self._serving < self._slots(self.now):
            sent_at, send, work = self._queue.pop(0)
            self._serving += 1
            heapq.heappush(self._ends, (self.now + work / 100, send, sent_at, work, False))


def steady(count: int) -> Callable[[float], int]:
    return lambda _: count


def rules(loop: Loop) -> list[str]:
    return [move.rule for move in loop.moves]


@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize("slots", [8, 16, 50, 100])
def test_it_fills_a_server_whose_size_nobody_told_and_goes_little_beyond(slots: int, sigma: float) -> None:
    loop = Loop(steady(slots), sigma=sigma).run(6000)
    began = loop.now
    loop.run(4000)
    assert 4000 / (loop.now - began) >= 0.93 * slots
    assert 0.6 * slots <= loop.window.limit <= 2 * slots  # a probe may be under way


def test_it_doubles_while_that_delivers_more() -> None:
    loop = Loop(steady(400)).run(800)
    assert [move.limit for move in loop.moves[:6]] == [12, 24, 48, 96, 192, 384]
    assert set(rules(loop)[:6]) == {"ramp"}


def test_what_was_sent_under_a_smaller_window_does_not_count() -> None:
    window = TuningWindow(6)
    for send in range(1, 7):
        window.on_delivered(send, 1.0, 100.0, 6, float(send), 7)
    assert (window.limit, window.stage) == (12, Stage.RAMP)
    for _ in range(100):
        assert window.on_delivered(3, 1.0, 100.0, 12, 8.0, 13) is None
    assert window.limit == 12


def test_a_window_that_is_not_full_is_no_evidence() -> None:
    loop = Loop(steady(64), supply=steady(4)).run(3000)
    assert loop.moves == []
    assert loop.window.limit == AUTO_START


def test_it_goes_on_where_a_slow_source_becomes_a_fast_one() -> None:
    loop = Loop(steady(64), supply=lambda now: 4 if now < 100 else 10**9).run(400)
    assert loop.moves == []
    loop.run(4000)
    assert loop.window.limit >= 50


def test_it_follows_a_capacity_that_halves_and_returns() -> None:
    loop = Loop(lambda now: 8 if 300 <= now < 900 else 32, sigma=0.3).run(32 * 290)
    assert 26 <= loop.window.limit <= 64
    loop.run(8 * 590)
    assert loop.now > 850
    assert loop.window.limit <= 20
    began, done = 900.0, loop.done
    loop.run(32 * 200)
    assert (loop.done - done) / (loop.now - began) >= 0.85 * 32


@pytest.mark.parametrize("too_many", [1.15, 1.35, 1.6])
def test_a_window_above_the_knee_is_taken_down_to_it_not_past_it(too_many: float) -> None:
    slots = 60
    window = TuningWindow(round(slots * too_many))
    window.on_queue(1)  # ends the ramp where it begins
    window._goes_up = False
    loop = Loop(steady(slots), sigma=0.3, window=window).run(9000)
    assert "probe_between" in rules(loop)
    between = [move.limit for move in loop.moves if move.rule == "probe_between"]
    assert all(slots * 0.75 <= limit < slots * too_many for limit in between)
    assert slots * 0.9 <= window._held <= slots * 1.12


def test_what_was_too_many_before_is_not_tried_again_but_something_nearer() -> None:
    loop = Loop(steady(60), sigma=0.3).run(20_000)
    tries = [move.limit for move in loop.moves if move.rule == "probe_up"]
    assert max(tries[len(tries) // 2 :]) <= 60 * 1.2
    began, done = loop.now, loop.done
    loop.run(5000)
    assert (loop.done - done) / (loop.now - began) >= 0.97 * 60


def test_a_ceiling_of_refusals_is_found_in_one_episode_and_seldom_touched_again() -> None:
    loop = Loop(steady(10**6), sigma=0.5, most=40).run(10_000)
    assert loop.refusals <= 100
    assert 32 <= loop.window.limit <= 41
    first = rules(loop).index("refusals_cut")
    assert max(move.limit for move in loop.moves[first + 12 :]) <= 44


def test_refusals_that_come_whatever_the_window_is_do_not_close_it() -> None:
    loop = Loop(steady(32), sigma=0.3, refused=0.05).run(10_000)
    began, done = loop.now, loop.done
    loop.run(5000)
    assert (loop.done - done) / (loop.now - began) >= 0.85 * 32


def test_an_episode_cuts_once_for_all_that_was_in_flight() -> None:
    window = TuningWindow(64)
    assert window.on_overload_episode(65) == Move(32, "overload_halves")
    assert window.on_overload_episode(65) is None
    assert window.limit == 32
    assert [window.on_refused(send, 65) for send in range(1, 65)] == [None] * 64


def test_refusals_of_one_window_take_it_down_to_half_and_no_further() -> None:
    window = TuningWindow(64)
    for send in range(1, 65):
        window.on_refused(send, 65)
    assert window.limit == 32


def test_it_stays_within_its_bounds() -> None:
    bounded = Loop(steady(400), window=TuningWindow(6, 2, 20)).run(5000)
    assert max(limit for _, limit in bounded.limits) == 20
    assert bounded.window.limit >= 16
    small = Loop(steady(1), window=TuningWindow(6, 3, 20)).run(3000)
    assert min(limit for _, limit in small.limits) == 3
    single = TuningWindow(1, 1, 1)
    assert Loop(steady(4), window=single).run(500).window.limit == 1


def test_an_equal_life_makes_equal_moves() -> None:
    assert Loop(steady(20), sigma=0.7).run(3000).moves == Loop(steady(20), sigma=0.7).run(3000).moves


@pytest.mark.slow
@given(
    st.integers(1, 30), st.integers(1, 60), st.lists(st.tuples(st.integers(0, 3), st.floats(0, 10), st.integers(1, 99)), max_size=300)
)  # fmt: skip
def test_whatever_is_observed_it_stays_within_bounds(least: int, more: int, seen: list[tuple[int, float, int]]) -> None:
    window, send, now = TuningWindow(6, least, least + more), 1, 0.0
    for what, seconds, in_flight in seen:
        send += in_flight // 10
        now += seconds / 10
        if what == 0:
            window.on_refused(max(1, send - in_flight), send + 1)
        elif what == 1 and in_flight > 90:
            window.on_overload_episode(send + 1)
        else:
            window.on_delivered(max(1, send - in_flight // 4), seconds, seconds * 9, in_flight, now, send + 1)
        assert least <= window.limit <= least + more


def test_a_server_that_comes_back_is_ramped_up_anew():
    loop = Loop(lambda _: 40).run(2000)
    assert 34 <= loop.window.limit <= 48
    move = loop.window.on_return(loop.now, loop._sends + 1)
    assert move == Move(AUTO_START, "returned")
    assert loop.window.stage is Stage.RAMP
    loop.run(2000)
    assert 34 <= loop.window.limit <= 48


# What the server itself says


def test_what_a_server_tells_is_taken_at_once_and_kept() -> None:
    window = TuningWindow(6, 1, 512)
    assert window.on_told(88, 1) == Move(88, "told")
    for send in range(2, 2000):
        window.on_delivered(send, 1.0, 10.0, 88, send / 10, send + 88)
    assert (window.limit, window.stage) == (88, Stage.TOLD)
    assert window.on_told(88, 2000) is None
    assert window.on_told(1000, 2000) == Move(512, "told")
    assert window.on_told(0, 2000) == Move(1, "told")


def test_a_server_that_tells_no_more_is_searched_from_there() -> None:
    window = TuningWindow(6)
    assert window.on_told(None, 1) is None
    window.on_told(40, 1)
    window.on_told(None, 2)
    assert (window.limit, window.stage) == (40, Stage.HOLD)


def told_and_refused(times: int) -> tuple[TuningWindow, int]:
    """A window at what was told, of which so many were refused, long after."""
    window = TuningWindow(6)
    window.on_told(88, 1)
    for send in range(1, times + 1):
        window.on_refused(send, 89)
    assert (window.stage, window.limit) == (Stage.HOLD, 88 - times)
    assert window.on_told(88, 89) is None
    for send in range(100, 1100):
        window.on_delivered(send, 1.0, 10.0, 1, float(send), send + 1)
    return window, 1100


def test_what_is_told_and_refused_all_the_same_is_searched_for_below() -> None:
    window, send = told_and_refused(MOST_BROKEN)
    assert window.on_told(88, send) is None
    assert window.stage is not Stage.TOLD
    assert window.on_told(10, send) == Move(10, "told_less")


def test_a_lone_refusal_of_what_is_told_is_forgotten() -> None:
    window, send = told_and_refused(MOST_BROKEN - 1)
    assert window.on_told(88, send) == Move(88, "told")
    assert window.stage is Stage.TOLD


def test_a_queue_at_the_server_ends_the_ramp() -> None:
    window = TuningWindow(6)
    window.on_queue(1)
    assert (window.limit, window.stage) == (6, Stage.HOLD)
    assert window.on_queue(2) is None


def test_a_queue_at_the_server_ends_a_probe_up() -> None:
    window = TuningWindow(40)
    window.on_queue(1)
    send = 0
    while window.stage is Stage.HOLD:
        send += 1
        window.on_delivered(send, 1.0, 10.0, window.limit, float(send), send + 1)
    assert window.stage is Stage.UP
    assert window.on_queue(send + 1) == Move(40, "queue_ends_probe")


def test_a_bound_that_is_told_is_kept() -> None:
    window = TuningWindow(6, 2, 512)
    window.bound(None)
    window.bound(600)
    assert window.ceiling == 512
    window.bound(128)
    assert window.ceiling == 128
    window.bound(1)
    assert window.ceiling == 2


def test_a_larger_window_that_a_second_measurement_refutes_is_given_up() -> None:
    """A server that is faster for three seconds and slower for three: what a probe gained is gone when it is looked at again."""
    loop = Loop(lambda now: 14 if int(now / 3) % 2 else 12).run(3000)
    held = [move.limit for move in loop.moves[6:] if move.rule in {"no_gain", "loss"}]
    assert len(held) >= 4
    assert max(held) <= 14  # never more than the server has when it is fast, though a larger one seemed to pay once
