"""The first request goes alone, until its answer, or for two seconds."""

from __future__ import annotations

from headrace.policy.canary import ALONE_S, LOOK_S, Canary


def test_one_is_in_flight_until_so_long_after_the_first_send() -> None:
    canary = Canary()
    assert canary.may_send(10.0, 0)
    canary.on_sent(10.0)
    assert not canary.may_send(10.0, 1)
    assert canary.next_chance(1) == 10.0 + ALONE_S
    assert canary.may_send(10.0 + ALONE_S, 1)


def test_the_next_one_goes_alone_where_the_first_came_back_with_a_failure() -> None:
    canary = Canary()
    canary.on_sent(10.0)
    assert canary.may_send(10.1, 0)
    canary.on_sent(10.1)
    assert not canary.may_send(10.2, 1)
    assert canary.next_chance(1) == 10.0 + ALONE_S  # counted from the first


def test_it_waits_for_what_the_server_says_of_itself_but_not_for_long() -> None:
    canary = Canary()
    canary.on_look(5.0)
    assert not canary.may_send(5.5, 0)
    assert canary.next_chance(0) == 5.0 + LOOK_S
    assert canary.may_send(5.0 + LOOK_S, 0)
    canary.on_looked()
    assert canary.may_send(5.0, 0)
