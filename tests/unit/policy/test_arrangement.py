from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.arrangement import Keys, sketch

SHARED = b"c" * 100


def keys_of(payloads: list[bytes], first: int = 0) -> Keys:
    keys = Keys(len(SHARED))
    for seq, payload in enumerate(payloads, first):
        keys.add(seq, SHARED + payload)
    return keys


def arranged(payloads: list[bytes], out: list[bytes] | None = None, *, groups_from: int = 3, by_size: bool = True):
    found = keys_of(payloads).arranged([SHARED + one for one in out or []], groups_from=groups_from, by_size=by_size)
    return None if found is None else found.tolist()


def prefixed(group: int, n: int, length: int = 2000) -> bytes:
    return f"document {group} ".encode().ljust(length, b"%d" % (group % 10)) + f"question {n}".encode() * 20


def test_a_sketch_has_a_byte_for_each_depth_that_is_reached() -> None:
    assert sketch(b"a" * 63, 0) == 0
    assert sketch(b"a" * 64, 0).to_bytes(8, "big").rstrip(b"\0") == sketch(b"a" * 127, 0).to_bytes(8, "big")[:1]
    assert 0 not in sketch(b"a" * 9000, 0).to_bytes(8, "big")


def test_sketches_agree_as_deep_as_prompts_do() -> None:
    one, two = (sketch(b"a" * 600 + letter * 9000, 0).to_bytes(8, "big") for letter in (b"b", b"c"))
    assert one[:4] == two[:4]
    assert one[4:] != two[4:]
    other = sketch(b"z" + b"a" * 9599, 0).to_bytes(8, "big")
    assert sum(a == b for a, b in zip(one[:4], other[:4], strict=True)) <= 1  # what differs early differs further on


def test_members_of_a_group_stand_together_the_longest_group_first_and_then_what_shares_nothing() -> None:
    payloads = [prefixed(n % 4, n, 1000 * (1 + n % 4)) for n in range(40)]
    payloads += [f"{n} alone ".encode() * 30 for n in range(10)]
    order = arranged(payloads)
    assert order is not None
    assert sorted(order) == list(range(50))
    assert [seq % 4 for seq in order[:40:10]] == [3, 2, 1, 0]
    assert all(len({seq % 4 for seq in order[at : at + 10]}) == 1 for at in range(0, 40, 10))
    assert all(seq >= 40 for seq in order[40:])


def test_without_lengths_groups_stand_where_their_first_member_does() -> None:
    payloads = [prefixed(n % 2, n) if n % 3 else f"{n} alone ".encode() * 30 for n in range(12)]
    order = arranged(payloads, by_size=False)
    assert order is not None
    assert [order[0], *sorted(order[1:5]), *sorted(order[5:9]), *order[9:]] == [0, 1, 5, 7, 11, 2, 4, 8, 10, 3, 6, 9]


def test_what_begins_like_one_that_is_out_comes_first() -> None:
    payloads = [prefixed(n % 20, n) for n in range(100)]
    order = arranged(payloads, [prefixed(7, 999), prefixed(13, 999)])
    assert order is not None
    assert len(order) == 100
    assert {seq % 20 for seq in order[:10]} == {7, 13}


def test_long_work_goes_first_where_lengths_are_not_even_and_nothing_is_shared() -> None:
    rng = random.Random(1)
    payloads = [f"{n} ".encode() * round(20 * rng.paretovariate(1.5)) for n in range(500)]
    order = arranged(payloads, groups_from=0)
    assert order is not None
    sizes = [len(SHARED) + len(payloads[seq]) for seq in order]
    assert sizes[0] == max(sizes)
    assert all(a >= 0.8 * b for a, b in itertools.pairwise(sizes))


def test_where_nothing_is_shared_and_lengths_are_even_the_order_stays() -> None:
    payloads = [f"{n} alone ".encode() * 30 for n in range(500)]
    assert arranged(payloads) is None
    assert arranged(payloads, groups_from=0) is None
    assert arranged([]) is None


def test_units_that_have_gone_are_forgotten() -> None:
    keys = keys_of([prefixed(n % 5, n) for n in range(50)], first=10)
    keys.forget_before(5)
    assert len(keys) == 50
    keys.forget_before(30)
    assert len(keys) == 30
    order = keys.arranged([], groups_from=3, by_size=False)
    assert order is not None
    assert sorted(order.tolist()) == list(range(30, 60))
    Keys(0).forget_before(3)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=60),
    st.lists(st.integers(0, 4), max_size=5),
    st.integers(0, 3),
    st.booleans(),
)
def test_every_unit_comes_exactly_once(units, out, groups_from, by_size) -> None:
    payloads = [prefixed(group, n, 300 + length) for n, (group, length) in enumerate(units)]
    order = arranged(payloads, [prefixed(group, 0, 300) for group in out], groups_from=groups_from, by_size=by_size)
    assert order is None or sorted(order) == list(range(len(payloads)))
