from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.pause import FIRST_PAUSE_S, LEAST_JUDGED, LONGEST_PAUSE_S, Pause


class Low(random.Random):
    """Adds no jitter, so that trajectories can be written down."""

    def random(self) -> float:
        return 0.0


LOW = Low()


def completions(pause: Pause, text: str, window: int = 6) -> str:
    """One letter a completion, `x` is overload; what each led to: `!` where it is to pause."""
    told = ""
    for letter in text:
        pause.on_completion(overload=letter == "x", window=window)
        told += "!" if pause.is_overloaded(window) else "."
    return told


def test_it_is_off_at_first() -> None:
    pause = Pause()
    assert not pause.is_on(0.0)
    assert not pause.is_on(1e9)


def test_RTL_04_a_named_wait_is_a_floor_with_a_tenth_on_top_at_most() -> None:  # noqa: N802 - the case's id
    for seed in range(50):
        pause = Pause()
        pause.on_named_wait(61.0, 100.0, "rate limit", random.Random(seed))
        assert 161.0 <= pause.until <= 167.1
        assert pause.is_on(160.999)
        assert pause.why == "rate limit"


def test_clients_do_not_return_as_one() -> None:
    rng, untils = random.Random(3), set()
    for _ in range(20):
        pause = Pause()
        pause.on_named_wait(10.0, 0.0, "", rng)
        untils.add(pause.until)
    assert len(untils) == 20


def test_the_longest_named_wait_counts() -> None:
    pause = Pause()
    pause.on_named_wait(10.0, 0.0, "long", LOW)
    pause.on_named_wait(2.0, 1.0, "short", LOW)
    assert (pause.until, pause.why) == (10.0, "long")
    pause.on_named_wait(20.0, 1.0, "longer", LOW)
    assert (pause.until, pause.why) == (21.0, "longer")


@pytest.mark.parametrize("wait_s", [0.0, -5.0])
def test_a_wait_that_is_none_changes_nothing(wait_s: float) -> None:
    pause = Pause()
    pause.on_named_wait(wait_s, 100.0, "odd", LOW)
    assert pause.until == 0.0
    pause.on_named_wait(4.0, 200.0, "real", LOW)
    assert pause.until == 204.0


def test_nothing_is_judged_before_sixteen_completions() -> None:
    pause = Pause()
    assert completions(pause, "x" * 16) == "." * 15 + "!"


def test_a_wider_window_needs_as_many_completions() -> None:
    pause = Pause()
    assert completions(pause, "x" * 64, window=64) == "." * 63 + "!"


@pytest.mark.parametrize("window", [1, 6, 16])
def test_a_lone_503_does_not_pause(window: int) -> None:
    assert "!" not in completions(Pause(), "............x..................", window)


def test_a_tenth_of_503s_does_not_pause() -> None:
    assert "!" not in completions(Pause(), ("." * 9 + "x") * 40, 64)


@pytest.mark.parametrize(("window", "enough"), [(6, 5), (16, 5), (20, 6), (30, 9), (64, 20), (70, 21), (130, 39)])
def test_thirty_percent_of_the_last_ones_pause(window: int, enough: int) -> None:
    judged = max(LEAST_JUDGED, window)
    assert completions(Pause(), "." * judged + "x" * enough, window) == "." * (judged + enough - 1) + "!"


def test_only_the_last_ones_count() -> None:
    pause = Pause()
    completions(pause, "xxxx" + "." * 16)
    assert "!" not in completions(pause, "xxxx")
    assert completions(pause, "x") == "!"


def test_a_window_that_shrank_is_judged_by_fewer() -> None:
    pause = Pause()
    completions(pause, "." * 64, window=64)
    assert completions(pause, "xxxxx", window=8) == "....!"


def test_after_a_pause_counting_begins_anew() -> None:
    pause = Pause()
    completions(pause, "x" * 16)
    pause.on_overload_episode(0.0, "busy", LOW)
    assert completions(pause, "x" * 16) == "." * 15 + "!"


def test_pauses_grow_while_nothing_succeeds() -> None:
    pause, now, lengths = Pause(), 0.0, []
    for _ in range(9):
        lengths.append(pause.on_overload_episode(now, "busy", LOW))
        now = pause.until
        assert not pause.is_on(now)
    assert lengths == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert (lengths[0], lengths[-1]) == (FIRST_PAUSE_S, LONGEST_PAUSE_S)
    assert pause.why == "busy"


def test_a_success_between_makes_the_next_pause_short_again() -> None:
    pause = Pause()
    lengths = []
    for now, text in ((0.0, "x"), (10.0, "x"), (20.0, "x."), (30.0, "x")):
        completions(pause, text)
        lengths.append(pause.on_overload_episode(now, "busy", LOW))
    assert lengths == [1.0, 2.0, 1.0, 2.0]


def test_what_comes_back_in_a_pause_makes_no_new_one() -> None:
    pause = Pause()
    pause.on_overload_episode(0.0, "busy", LOW)
    assert completions(pause, "x" * 16)[-1] == "!"
    assert pause.on_overload_episode(0.25, "still busy", LOW) == 0.75
    assert pause.until == 1.0
    assert completions(pause, "x") == "."
    assert pause.on_overload_episode(1.0, "busy", LOW) == 2.0  # the next after it has grown once


def test_overload_judged_within_a_named_wait_keeps_the_longer_end() -> None:
    pause = Pause()
    pause.on_named_wait(30.0, 0.0, "named", LOW)
    assert pause.on_overload_episode(0.5, "busy", LOW) == 1.0
    assert (pause.until, pause.why) == (30.0, "named")


def test_jitter_lies_on_top_of_a_judged_pause_too() -> None:
    lengths = {Pause().on_overload_episode(0.0, "busy", random.Random(seed)) for seed in range(30)}
    assert len(lengths) == 30
    assert all(1.0 <= length <= 1.1 for length in lengths)


STEPS = st.lists(
    st.tuples(st.floats(0, 50), st.sampled_from(["named", "judged", "ok", "overload", "look"]), st.floats(-1, 100)),
    max_size=60,
)


@pytest.mark.slow
@given(STEPS, st.integers(0, 1000))
def test_the_longest_pause_counts_whatever_comes(steps: list[tuple[float, str, float]], seed: int) -> None:
    pause, rng, now, until = Pause(), random.Random(seed), 0.0, 0.0
    for passed, step, wait_s in steps:
        now += passed
        if step == "named":
            pause.on_named_wait(wait_s, now, "", rng)
        elif step == "judged":
            pause.on_overload_episode(now, "", rng)
        elif step in {"ok", "overload"}:
            pause.on_completion(overload=step == "overload", window=6)
        assert pause.until >= until
        assert pause.is_on(now) == (now < pause.until)
        until = pause.until


@pytest.mark.slow
@given(st.lists(st.booleans(), max_size=150), st.integers(1, 80))
def test_it_is_judged_by_the_share_among_the_last(overloads: list[bool], window: int) -> None:
    pause, judged = Pause(), max(LEAST_JUDGED, window)
    for number, overload in enumerate(overloads, start=1):
        pause.on_completion(overload=overload, window=window)
        last = overloads[:number][-judged:]
        assert pause.is_overloaded(window) == (number >= judged and sum(last) * 10 >= 3 * judged)
