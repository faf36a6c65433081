"""One endpoint's state: when it may be asked, and when time alone makes that possible."""

from __future__ import annotations

import random

from headrace.engine.knobs import Asked, Knobs, Pace
from headrace.engine.lane import Lane
from headrace.engine.work import Work
from headrace.testing import FakeEndpoint
from headrace.values import Unit


def lane(pace: Pace) -> Lane:
    return Lane(Asked(FakeEndpoint(), pace, is_proven=True), Knobs("life", 1), random.Random(1), lambda _now: None)


def work(seq: int) -> Work:
    return Work(Unit(seq=seq, hash=b"", item=0, payload=b"[]"))


def test_a_full_window_waits_for_what_is_in_flight_and_for_no_time():
    full = lane(Pace(1))
    full.on_sent(work(0), 0.0)
    full.breaker.force_open(0.0, "it hangs")
    assert full.next_chance(0.1, None, has_supply=True) is None
    assert full.next_chance(100.0, 50.0, has_supply=True) is None  # the probe is long due, and has no slot


def test_a_probe_that_has_a_slot_is_waited_for():
    free = lane(Pace(2))
    free.on_sent(work(0), 0.0)
    free.breaker.force_open(0.0, "it hangs")
    assert free.next_chance(0.1, None, has_supply=True) == free.breaker.probe_at


def test_a_probe_that_is_due_and_may_not_go_is_waited_for_by_no_clock():
    held = lane(Pace(2))
    held.on_sent(work(0), 0.0)
    held.breaker.force_open(0.0, "it hangs")
    held.room.is_open = False  # the server's cache has no room
    assert held.next_chance(100.0, None, has_supply=True) is None
