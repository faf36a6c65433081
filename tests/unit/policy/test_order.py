"""Trajectories of the order: units come in, units go out, answers and failures come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.input_order import InputOrder
from headrace.policy.order import Order
from headrace.policy.prefixes import MOST_NESTED
from headrace.policy.reach import NEVER_CACHED
from headrace.values import Unit, Usage

SHARED = b"c" * 200
PREFIX = 2000


def unit(seq: int, text: bytes) -> Unit:
    return Unit(seq=seq, hash=b"", item=seq, payload=SHARED + text)


def member(seq: int, group: object, size: int = 100, *, prefix: int = PREFIX) -> Unit:
    """A unit of a group: they share `prefix` bytes beyond what all share."""
    return unit(seq, f"document {group} ".encode().ljust(prefix, b"d") + f"question {seq} ".encode().ljust(size, b"q"))


def alone(seq: int, size: int = 500) -> Unit:
    return unit(seq, f"{seq} alone ".encode().ljust(size, b"a"))


class Run:
    """An order that is asked for units, one after the other. `free` slots are empty at each time."""

    def __init__(self, rule: str, *units: Unit, final: bool = False) -> None:
        self.order = Order(rule, len(SHARED))
        self.now = 0.0
        if final:
            self.order.finish()
        self.order.add(units)

    def take(self, free: int = 8) -> int | None:
        found = self.order.take(self.now, free)
        return None if found is None else found.seq

    def takes(self, count: int, free: int = 8) -> list[int | None]:
        return [self.take(free) for _ in range(count)]

    def all(self, free: int = 8) -> list[int]:
        taken = []
        while (seq := self.take(free)) is not None:
            taken.append(seq)
        return taken

    def answer(self, *seqs: int, usage: Usage | None = None) -> None:
        for seq in seqs:
            self.order.on_answer(seq, usage, 50.0)


def cached(hit: bool, prefix: int = PREFIX, size: int = 100) -> Usage:
    whole = len(SHARED) + prefix + size
    return Usage(prompt=whole // 4, completion=50, cached=(len(SHARED) + prefix - 64) // 4 if hit else len(SHARED) // 4)


# -- by length


def test_the_longest_goes_first() -> None:
    run = Run("longest", alone(0, 300), alone(1, 900), alone(2, 500), alone(3, 900))
    assert run.all() == [1, 3, 2, 0]


def test_under_longest_nobody_waits_for_anybody() -> None:
    run = Run("longest", *[member(seq, "x", 100 + seq) for seq in range(6)])
    assert run.all() == [5, 4, 3, 2, 1, 0]
    assert not run.order.has_prefixes


def test_where_long_prompts_get_short_answers_the_short_prompts_go_first() -> None:
    run = Run("longest", *[alone(seq, 300 + 40 * seq) for seq in range(40)])
    for seq in run.takes(32):
        assert seq is not None
        run.order.on_answer(seq, None, 5000.0 - 100 * seq)
    assert run.all() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_auto_keeps_the_order_of_the_input_until_all_units_are_known() -> None:
    run = Run("auto", alone(0, 300), alone(1, 900), alone(2, 500), alone(3, 700))
    assert run.takes(1) == [0]
    run.order.finish()
    run.order.finish()
    assert run.all() == [1, 3, 2]


def test_prefix_keeps_the_order_of_the_input_whatever_is_known() -> None:
    assert Run("prefix", alone(0, 300), alone(1, 900), alone(2, 500), final=True).all() == [0, 1, 2]


# -- by prefix


@pytest.mark.parametrize("rule", ["prefix", "auto"])
def test_one_of_a_group_goes_ahead_and_the_others_when_it_has_been_answered(rule: str) -> None:
    run = Run(rule, *[member(seq, "x") for seq in range(4)], *[alone(seq) for seq in (4, 5)])
    assert run.takes(3) == [0, 4, 5]
    assert run.take(0) is None
    run.answer(0)
    assert run.all() == [1, 2, 3]


def test_single_work_and_groups_take_turns_as_they_came() -> None:
    run = Run("prefix", alone(0), member(1, "x"), alone(2), member(3, "x"), alone(4))
    assert run.takes(5) == [0, 1, 2, 4, None]


def test_long_single_work_opens_before_a_group_that_takes_less() -> None:
    run = known(member(0, "x"), member(1, "x"), alone(2, 9000))
    assert run.takes(3) == [2, 0, None]


def test_a_short_prefix_is_worth_it_only_where_the_job_says_so() -> None:
    units = [member(seq, "x", prefix=100) for seq in range(3)]
    assert Run("auto", *units).all() == [0, 1, 2]
    assert Run("prefix", *units).takes(2) == [0, None]


def test_groups_open_one_after_the_other_and_the_latest_answered_goes_on() -> None:
    run = Run("prefix", *[member(seq, seq % 3) for seq in range(9)])
    assert run.takes(4) == [0, 1, 2, None]
    run.answer(1)
    assert run.take() == 4
    run.answer(0)
    assert run.takes(3) == [3, 6, 7]
    run.answer(2)
    assert run.all() == [5, 8]


def test_where_each_slot_has_a_cache_of_its_own_each_prefix_keeps_to_one() -> None:
    run = Run("prefix", *[member(seq, seq % 5) for seq in range(20)])
    run.order.has_own_caches = True
    assert run.takes(3) == [0, 1, 2]
    run.answer(1)
    assert run.take(free=1) == 6  # of the same prefix: into the slot that is empty now
    run.answer(0, 2)
    assert run.takes(2, free=2) == [7, 5]
    assert run.takes(2) == [3, 4]  # others are opened before a prefix is computed in two slots
    run.answer(6)
    assert run.take() == 11
    run.answer(*range(3, 8), 11)
    assert sorted(run.all()) == [8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19]


def test_a_leader_that_fails_is_followed_by_another() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(3)])
    assert run.takes(2) == [0, None]
    run.order.on_failure(0)
    assert run.takes(2) == [1, None]
    run.order.on_failure(1)
    assert run.takes(2) == [2, None]
    run.order.on_failure(2)
    assert len(run.order) == 0
    assert not run.order.has_prefixes
    run.order.on_failure(2)  # its next try is not the order's
    run.answer(2)


def test_a_follower_that_fails_holds_nobody() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(4)])
    assert run.take() == 0
    run.answer(0)
    assert run.take() == 1
    run.order.on_failure(1)
    assert run.all() == [2, 3]


def test_one_that_shares_with_a_unit_on_its_way_waits_for_it() -> None:
    run = Run("prefix", member(0, "x"))
    assert run.take() == 0
    run.order.add([member(1, "x")])
    assert run.take() is None
    run.answer(0)
    assert run.take() == 1


def test_units_that_come_while_their_prefix_is_warm_go_at_once() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(2)])
    assert run.take() == 0
    run.answer(0)
    assert run.take() == 1
    run.answer(1)
    run.order.add([alone(2), member(3, "x")])
    assert run.takes(2) == [3, 2]


def test_within_a_warm_prefix_longer_ones_get_leaders_of_their_own() -> None:
    inner = {letter: f"shared {letter} ".ljust(1000, letter) for letter in "ab"}
    texts = [f"document {'d' * PREFIX}{inner[letter]}{n}".encode() for n, letter in enumerate("abab")]
    run = Run("prefix", *[unit(seq, text) for seq, text in enumerate(texts)])
    assert run.takes(2) == [0, None]
    run.answer(0)
    assert run.takes(3) == [2, 1, None]  # 2 shares all with the first, 1 computes another part
    run.answer(1)
    assert run.take() == 3


def test_a_prefix_found_later_within_a_warm_one_is_warm() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(2)])
    assert run.take() == 0
    run.answer(0)
    halves = [unit(seq, b"document x ".ljust(PREFIX // 2, b"d") + b"%d" % seq * 400) for seq in (2, 3)]
    run.order.add(halves)
    assert sorted(run.all()) == [1, 2, 3]


def test_a_prefix_found_later_within_one_that_is_computed_waits_for_the_same_leader() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(2)])
    assert run.take() == 0
    run.order.add([unit(2, b"document x ".ljust(PREFIX // 2, b"d") + b"!" * 400)])
    assert run.take() is None
    run.answer(0)
    assert sorted(run.all()) == [1, 2]


def test_a_prefix_found_later_around_one_that_waits_is_led_as_a_whole() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(2)])
    run.order.add([unit(2, b"document x ".ljust(PREFIX // 2, b"d") + b"!" * 400)])
    assert run.takes(2) == [0, None]
    run.answer(0)
    assert sorted(run.all()) == [1, 2]


def test_a_failed_leader_of_the_inner_prefix_leaves_the_outer_one_open_too() -> None:
    inner = f"document {'d' * PREFIX}shared ".ljust(PREFIX + 1000, "s")
    run = Run("prefix", unit(0, inner.encode() + b"0"), unit(1, inner.encode() + b"1"), member(2, "d" * 5))
    run.order.add([unit(3, b"document " + b"d" * PREFIX + b"!" * 400)])
    first = run.take()
    assert first == 0
    run.order.on_failure(0)
    assert run.take() == 1
    run.answer(1)
    assert sorted(run.all()) == [2, 3]


# -- both


def known(*units: Unit) -> Run:
    return Run("auto", *units, final=True)


def test_of_a_group_the_shortest_goes_ahead_and_then_the_longest() -> None:
    run = known(*[member(seq, "x", size) for seq, size in enumerate((300, 900, 100, 500))])
    run.order.later = (1000, 1_000_000)
    assert run.takes(2) == [2, None]
    run.answer(2)
    assert run.all() == [1, 3, 0]


def test_the_longest_group_opens_first_and_short_single_work_is_kept_for_the_end() -> None:
    run = known(*[alone(seq, 600) for seq in range(3)], *[member(seq, seq % 2, 200 + 2000 * (seq % 2)) for seq in range(3, 9)])
    assert [seq is not None and seq % 2 for seq in run.takes(2)] == [1, 0]
    assert run.takes(3) == [0, 1, 2]


def test_work_that_would_end_last_begins_before_the_followers_of_a_warm_prefix() -> None:
    run = known(*[member(seq, "x") for seq in range(20)], alone(30, 4000))
    run.order.window = 4
    assert run.take() == 0  # leader and follower together are longer
    run.answer(0)
    run.order.later = (1000, 1_000_000)
    assert run.take() != 30
    run.order.later = (0, 0)
    run.order.window = 16
    assert run.take() == 30


def test_a_group_may_have_to_begin_before_the_followers_of_another() -> None:
    run = known(*[member(seq, "x") for seq in range(20)], *[member(seq, "y", 9000) for seq in (30, 31)])
    assert run.take() == 30
    run.answer(30)
    assert run.take() == 31
    run.order.window = 64
    run.order.add([member(seq, "z", 9000) for seq in (40, 41)])
    assert run.take() in {40, 41}


def test_followers_go_when_nothing_else_is_left_to_begin() -> None:
    run = known(*[member(seq, "x") for seq in range(4)])
    assert run.take() == 0
    run.answer(0)
    assert sorted(run.all()) == [1, 2, 3]


def test_what_became_known_late_is_ranked_by_length_too() -> None:
    run = Run("auto", *[member(seq, "x", 100 * (1 + seq % 7)) for seq in range(7)], alone(8), alone(9, 900))
    run.order.finish()
    assert run.takes(3) == [0, 9, 8]
    run.answer(0)
    assert run.all() == [6, 5, 4, 3, 2, 1]


# -- how long others wait


def test_with_no_other_work_a_prefix_is_presumed_to_be_computed_after_a_time() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(3)])
    assert run.takes(2) == [0, None]
    due = run.order.release_at
    assert due is not None
    assert 0.5 < due < 1.5  # 550 tokens
    run.now = due - 0.01
    assert run.take() is None
    run.now = due
    assert run.take(free=0) is None  # no slot is empty
    assert run.order.release_at is None
    assert run.all() == [1, 2]
    assert run.order.release_at is None


def test_nothing_is_due_where_nothing_waits() -> None:
    run = Run("prefix", member(0, "x"), member(1, "x"))
    assert run.take() == 0
    run.answer(0)
    assert run.takes(2) == [1, None]
    assert run.order.release_at is None
    assert Run("prefix").take() is None


def test_a_prefix_that_was_presumed_too_early_is_given_longer() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(3)], *[member(seq, "y") for seq in range(10, 13)])
    assert run.takes(3) == [0, 10, None]
    before = run.order.release_at
    run.now = before or 0.0
    assert run.takes(2) == [1, 2]
    run.answer(1, usage=cached(False))
    assert run.order.reach.patience == 2


def test_too_many_open_groups_wait_for_their_followers_where_those_fill_the_slots() -> None:
    run = Run("prefix", *[member(seq, seq % 6) for seq in range(60)])
    run.order.reach.most_open = 2
    run.order.window = 18
    assert run.takes(3, free=8) == [0, 1, None]
    assert run.take(free=0) is None
    run.order.window = 19  # 18 followers are too few: a slot would stay empty
    assert run.take(free=1) == 2
    assert run.take(free=1) is None
    run.answer(0)
    assert run.take() == 6


def test_another_group_opens_before_the_followers_run_out_and_not_long_before() -> None:
    run = Run("prefix", *[member(seq, seq % 3) for seq in range(30)])
    run.order.window = 4
    assert run.take() == 0
    run.answer(0)
    assert run.takes(7) == [3, 6, 9, 12, 15, 18, 1]  # three are left, which last until it has answered
    assert run.takes(3) == [21, 24, 27]
    run.answer(1)
    assert run.take() == 4


def test_nobody_is_opened_ahead_where_enough_are_computing_or_none_is_left() -> None:
    run = Run("prefix", *[member(seq, seq % 2) for seq in range(6)])
    run.order.window = 9
    assert run.takes(2) == [0, 1]
    run.answer(0)
    assert run.take() == 2
    bounded = Run("prefix", *[member(seq, seq % 3) for seq in range(9)])
    bounded.order.reach.most_open = 1
    assert bounded.takes(2, free=1) == [0, None]
    bounded.order.window = 9
    bounded.answer(0)
    assert bounded.takes(2) == [1, 3]


def test_a_lease_ahead_opens_no_group_where_followers_are_enough() -> None:
    run = Run("prefix", *[member(seq, seq % 3) for seq in range(30)])
    run.order.window = 4
    assert run.takes(2, free=0) == [0, None]
    assert run.take(free=1) == 1


def test_single_work_goes_before_one_group_too_many_is_opened() -> None:
    run = Run("prefix", *[member(seq, seq % 6) for seq in range(60)], alone(100))
    run.order.reach.most_open = 2
    assert run.takes(4) == [0, 1, 100, None]


def test_a_prefix_that_was_not_used_for_long_is_led_anew() -> None:
    run = Run("prefix", *[member(seq, seq % 6) for seq in range(60)])
    run.order.reach.most_open = 4
    run.order.window = 100
    assert run.takes(6) == [0, 1, 2, 3, 4, 5]
    for seq in range(6):
        run.answer(seq)
    run.order.window = 1
    taken = run.all(free=0)
    assert [seq % 6 for seq in taken] == [5] * 9 + [4] * 9 + [3] * 9 + [2] * 9 + [0]
    run.answer(taken[-1], usage=cached(True))  # its prefix was still there
    assert run.order.reach.most_open == 5


def test_a_prefix_within_another_is_forgotten_before_the_one_around_it() -> None:
    inner = f"document {'d' * PREFIX}part ".ljust(PREFIX + 1000, "p").encode()
    run = Run("prefix", *[unit(seq, inner + b"%d" % seq) for seq in range(3)])
    run.order.add([unit(9, b"document " + b"d" * PREFIX + b"!" * 400), member(10, "x"), member(11, "x")])
    run.order.reach.most_open = 2
    run.order.window = 100
    assert run.takes(2) == [0, 10]
    run.answer(0)
    run.answer(10)
    assert run.takes(4) == [11, 1, 9, None]  # of the first document the part is led anew
    run.answer(1)
    assert run.all() == [2]


def test_prompts_that_share_nothing_take_room_in_the_cache_too() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(4)], *[alone(seq, 9000) for seq in range(10, 30)])
    assert run.take() == 0
    run.order.reach.most_open = 8
    run.answer(0)
    assert run.takes(3) == [1, 2, 3]
    for seq in run.takes(20):
        assert seq is not None
        run.answer(seq)
    run.order.add([member(seq, "y") for seq in (40, 41)])
    assert run.take() == 40
    run.answer(40)
    run.order.add([member(seq, "x") for seq in (50, 51)])
    assert run.takes(3) == [41, 50, None]  # what the first document left there has gone


def test_followers_that_come_back_uncached_close_groups() -> None:
    run = Run("prefix", *[member(seq, "x") for seq in range(3)])
    assert run.take() == 0
    run.answer(0, usage=cached(False))  # it was the first: nothing was to be cached
    assert run.order.reach.most_open == 32
    assert run.takes(2) == [1, 2]
    run.answer(1, usage=cached(False))
    assert run.order.reach.most_open == 24
    run.answer(2, usage=Usage(prompt=100))  # says nothing of a cache
    assert run.order.reach.most_open == 24


def test_where_nothing_is_ever_cached_nobody_waits_any_more() -> None:
    run = Run("prefix", *[member(seq, seq % 2) for seq in range(60)])
    assert run.takes(2) == [0, 1]
    run.answer(0, usage=cached(False))
    taken = run.takes(NEVER_CACHED)
    assert [seq is not None and seq % 2 for seq in taken] == [0] * NEVER_CACHED
    for seq in taken:
        assert seq is not None
        run.answer(seq, usage=cached(False))
    assert not run.order.has_prefixes
    assert run.take() == 3
    run.answer(1)
    assert len(run.all()) == len(set(range(60))) - 2 - NEVER_CACHED - 1


def test_long_prompts_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.policy.order.MOST_WARM_BYTES", 5 * PREFIX)
    run = Run("prefix", *[member(seq, seq % 10) for seq in range(20)])
    assert run.takes(10) == list(range(10))
    for seq in range(10):
        run.answer(seq)
    assert run.order._warm_bytes <= 5 * PREFIX
    assert len(run.all(free=100)) == 10


def test_a_chain_of_longer_and_longer_prompts_is_followed_so_deep_and_no_deeper() -> None:
    chains = [
        [unit(seq, b"chat " + b"x" * (64 * n) + b"%d" % n * 70) for seq, n in enumerate(order)]
        for order in (range(300), range(299, -1, -1))
    ]
    for units in chains:
        run = Run("prefix", *units)
        depth = max(len(list(entry.node.path())) for entry in run.order._entries.values())
        assert 8 <= depth <= MOST_NESTED
        taken = []
        while (seq := run.take(free=1000)) is not None:
            taken.append(seq)
            run.answer(seq)
        assert sorted(taken) == list(range(300))


def test_many_answers_are_looked_at_now_and_then() -> None:
    run = Run("longest", *[alone(seq) for seq in range(400)])
    for seq in run.takes(400):
        assert seq is not None
        run.answer(seq)
    assert 0 < run.order.lengths._count < 400


# -- all at once


def test_what_waits_can_be_taken_back_and_added_again() -> None:
    run = Run("prefix", *[member(seq, seq % 3) for seq in range(9)], alone(9))
    assert run.takes(2) == [0, 1]
    run.answer(0)
    assert run.order.payloads_out() == [member(1, 1).payload]
    drained = run.order.drain()
    assert sorted(unit.seq for unit in drained) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert (len(run.order), run.order.bytes, run.take()) == (0, 0, None)
    run.order.add(drained)
    assert run.order.bytes == sum(len(unit.payload or b"") for unit in drained)
    assert run.takes(2) == [3, 6]  # still warm
    assert run.takes(3) == [2, 9, None]  # 1 is still out
    run.answer(1)
    assert run.takes(2) == [4, 7]


def test_the_order_of_the_input_is_first_come_first_served() -> None:
    order = InputOrder()
    units = [member(seq, "x") for seq in range(4)]
    order.add(units)
    order.finish()
    first = order.take(0.0, 0)
    assert first is units[0]
    order.on_answer(0, None, 1.0)
    order.on_failure(0)
    assert (len(order), order.bytes) == (3, sum(len(unit.payload or b"") for unit in units[1:]))
    assert order.drain() == units[1:]
    assert (len(order), order.bytes, order.take(0.0, 8), order.payloads_out()) == (0, 0, None, [])
    assert (order.release_at, order.has_prefixes) == (None, False)


@given(
    st.sampled_from(["prefix", "auto", "longest"]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 700)), min_size=1, max_size=50),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.booleans()), max_size=300),
    st.integers(0, 50),
    st.integers(1, 6),
    st.booleans(),
)
def test_every_unit_goes_exactly_once_whatever_comes_back(rule, shapes, events, finish_at, most_open, own) -> None:
    """Groups nest: of one document, within it of one part."""
    units = []
    for seq, (group, part, size) in enumerate(shapes):
        text = f"document {group} ".encode().ljust(400, b"d") if group else b""
        text += f"part {part} ".encode().ljust(300, b"p") if part else b""
        units.append(unit(seq, text + f"{seq} ".encode().ljust(size, b"q")))
    order = Order(rule, len(SHARED))
    order.has_own_caches = own
    order.reach.most_open = most_open
    taken: list[int] = []
    out: list[int] = []
    now, added = 0.0, 0

    def take(free: int) -> bool:
        found = order.take(now, free)
        if found is None:
            return False
        taken.append(found.seq)
        out.append(found.seq)
        return True

    for number, (what, which, hit) in enumerate(events):
        now += 0.05
        if number == finish_at:
            order.finish()
        if what == 0:
            order.add(units[added : added + which])
            added = min(len(units), added + which)
        elif what == 1 and out:
            seq = out.pop(which % len(out))
            order.on_answer(seq, Usage(1000, 50, 900 if hit else 0) if which % 3 else None, 50.0)
        elif what == 2 and out:
            order.on_failure(out.pop(which % len(out)))
        elif what == 3 and which > 50:
            order.add(order.drain())
        else:
            take(which - 5)
        assert order._stock == sum(
            node.waiting for node in order._tree.nodes()[1:] if node.parent is order._tree.root and not node.is_cold
        )
    order.add(units[added:])
    order.finish()
    while len(order):
        if not take(len(units) + 1):
            if order.release_at is None:  # then something is out, and nothing else can go before it
                assert out
                order.on_answer(out.pop(), None, 50.0)
            else:
                now = max(now, order.release_at)
    assert sorted(taken) == list(range(len(units)))
    assert order.bytes == 0
    for seq in out:
        order.on_answer(seq, None, 50.0)
    assert order._stock == 0
    assert order._warm_bytes == sum(len(node.tail) for node in order._warm)
    assert not order._computing
    assert order.payloads_out() == []
