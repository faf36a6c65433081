from __future__ import annotations

from headrace.engine.stalls import Stalls


def test_before_the_first_beat_nothing_is_a_stall() -> None:
    stalls = Stalls()
    assert stalls.note(1e9) == 0.0
    assert stalls.within(0.0) == 0.0


def test_a_beat_that_comes_in_time_or_a_little_late_is_none() -> None:
    stalls = Stalls()
    stalls.expect(10.0)
    assert stalls.note(10.9) == 0.0
    assert stalls.within(0.0) == 0.0


def test_a_late_beat_is_one_and_is_noted_once() -> None:
    stalls = Stalls()
    stalls.expect(10.0)
    assert stalls.late_at == 11.0
    assert stalls.note(40.0) == 30.0
    assert stalls.note(40.5) == 0.0
    assert stalls.within(5.0) == 30.0


def test_only_the_part_since_a_moment_counts_and_stalls_add_up() -> None:
    stalls = Stalls()
    for due, woke in ((10.0, 40.0), (50.0, 60.0)):
        stalls.expect(due)
        stalls.note(woke)
    assert stalls.within(0.0) == 40.0
    assert stalls.within(25.0) == 25.0
    assert stalls.within(45.0) == 10.0
    assert stalls.within(60.0) == 0.0
