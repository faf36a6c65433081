from __future__ import annotations

from headrace.policy.prefixes import BLOCK, Entry, Prefix, Tree, best_offer, has_some, offer
from headrace.values import Unit


def unit(seq: int, payload: bytes) -> Unit:
    return Unit(seq=seq, hash=b"", item=seq, payload=payload)


class Grown:
    """A tree and its units."""

    def __init__(self, *payloads: bytes, start: int = 0, least: int = BLOCK, by_size: bool = False) -> None:
        self.tree = Tree(start, least, by_size=by_size)
        self.entries: dict[int, Entry] = {}
        self.sharing = [shared for n, payload in enumerate(payloads) for shared in self.add(n, payload)]

    def add(self, seq: int, payload: bytes) -> list[tuple[Entry, Prefix | None]]:
        return self.tree.add([unit(seq, payload)], self.entries)

    def depths(self) -> list[int]:
        return [self.entries[seq].node.depth for seq in sorted(self.entries)]


def block(letter: str, count: int = 1) -> bytes:
    return letter.encode() * (BLOCK * count)


def test_units_that_share_nothing_hang_on_the_root() -> None:
    grown = Grown(block("a", 4), block("b", 4), b"short")
    assert grown.depths() == [0, 0, 0]
    assert grown.sharing == []
    assert len(grown.tree.root.leaves) == 3
    assert grown.tree.nodes() == [grown.tree.root]


def test_two_that_begin_alike_hang_on_what_they_share_in_whole_blocks() -> None:
    grown = Grown(block("a", 3) + b"x" * 80, block("a", 3) + b"x" * 70 + b"y" * 80)
    assert grown.depths() == [4 * BLOCK, 4 * BLOCK]
    (node,) = [made for _, made in grown.sharing if made is not None]
    assert (node.waiting, node.least, node.most, node.first) == (2, 3 * BLOCK + 80, 3 * BLOCK + 150, 0)
    assert grown.tree.root.leaves == []


def test_what_all_units_have_in_common_is_no_group() -> None:
    constant = block("c", 5) + b"c" * 10
    grown = Grown(constant + block("a", 4), constant + block("b", 4), constant + block("a", 4) + b"!", start=len(constant))
    assert grown.depths() == [9 * BLOCK, 5 * BLOCK, 9 * BLOCK]


def test_less_than_is_worth_it_counts_as_nothing() -> None:
    payloads = block("a", 3) + block("x", 3), block("a", 3) + block("y", 3)
    assert Grown(*payloads, least=4 * BLOCK).depths() == [0, 0]
    assert Grown(*payloads, least=2 * BLOCK).depths() == [3 * BLOCK] * 2
    assert Grown(*payloads, least=0).depths() == [0, 0]


def test_prefixes_nest_whatever_comes_first() -> None:
    inner = [block("a", 4) + block(letter, 2) for letter in "xy"]
    outer = [block("a", 2) + block("z", 2), block("a", 2) + block("w", 2)]
    for order in ((0, 1, 2, 3), (2, 0, 1, 3), (2, 3, 1, 0)):
        payloads = [(inner + outer)[place] for place in order]
        grown = Grown(*payloads)
        assert sorted(grown.depths()) == [2 * BLOCK, 2 * BLOCK, 4 * BLOCK, 4 * BLOCK]
        outermost, innermost = grown.tree.nodes()[1:]
        assert (outermost.waiting, innermost.waiting) == (4, 2)
        assert innermost.parent is outermost
        assert list(innermost.path()) == [innermost, outermost]


def test_a_split_keeps_the_state_of_what_it_splits() -> None:
    grown = Grown(block("a", 4) + block("x"), block("a", 4) + block("y"))
    (_, made), *_ = [pair for pair in grown.sharing if pair[1] is not None]
    assert made is not None
    made.is_warm = True
    made.out = 3
    (_, outer), *_ = grown.add(2, block("a", 2) + block("z", 3))
    assert outer is not None
    assert (outer.depth, outer.is_warm, outer.out, outer.waiting) == (2 * BLOCK, True, 3, 3)
    assert made.tail == block("a", 2)
    assert outer.children[block("a")] is made


def test_one_that_is_out_already_computes_what_another_shares_with_it() -> None:
    grown = Grown(block("a", 4) + block("x"))
    first = grown.entries[0]
    grown.tree.root.leaves.clear()
    first.since = 7.0
    ((entry, made),) = grown.add(1, block("a", 4) + block("y"))
    assert made is not None
    assert made.leader is first
    assert (made.since, made.out, made.waiting) == (7.0, 1, 1)
    assert entry.node is first.node is made


def test_equal_payloads_hang_on_their_whole_blocks() -> None:
    assert Grown(*[block("a", 2) + b"tail"] * 3).depths() == [2 * BLOCK] * 3
    assert Grown(*[block("a", 2)] * 3).depths() == [2 * BLOCK] * 3


def test_what_is_forgotten_is_shared_no_more() -> None:
    grown = Grown(block("a", 4))
    grown.tree.forget(grown.entries[0])
    grown.tree.forget(grown.entries[0])
    grown.add(1, block("a", 4) + b"!")
    assert grown.depths() == [0, 0]


def test_empty_prefixes_are_taken_off_up_to_those_that_hold_something() -> None:
    grown = Grown(block("a", 4) + block("x", 2), block("a", 4) + block("y", 2), block("a", 2) + block("z", 2))
    outer, inner = grown.tree.nodes()[1:]
    grown.tree.prune(inner)
    assert len(grown.tree.nodes()) == 3
    for seq in (0, 1):
        grown.tree.forget(grown.entries[seq])
    inner.waiting = 0
    grown.tree.prune(inner)
    assert grown.tree.nodes() == [grown.tree.root, outer]
    grown.tree.prune(inner)
    grown.tree.forget(grown.entries[2])
    outer.waiting = 0
    grown.tree.prune(outer)
    assert grown.tree.nodes() == [grown.tree.root]


def test_the_best_offer_is_the_longest_and_then_the_first_that_still_needs_a_leader() -> None:
    root = Prefix(None, 0, b"")
    nodes = []
    for first, path in ((0, 10), (5, 30), (3, 30)):
        node = Prefix(root, BLOCK, b"")
        node.first, node.leaves = first, [1]
        offer(node, path)
        nodes.append(node)
    offer(root, 1)  # nobody is there to lead it
    assert best_offer(root) is nodes[2]
    nodes[2].leader = Entry(unit(3, b""), b"", 0, nodes[2])
    assert best_offer(root) is nodes[1]
    nodes[1].leaves = []
    assert best_offer(root) is nodes[0]
    assert nodes[1].offered is None
    offer(nodes[0], 10)
    assert len(root.offers) == 1  # it stands there
    offer(nodes[0], 50)
    assert best_offer(root) is nodes[0]
    nodes[0].is_warm = True
    assert best_offer(root) is None
    assert not has_some(root)


def test_longer_prompts_rank_first_where_size_counts_and_earlier_units_where_it_does_not() -> None:
    payloads = b"a", b"bbb", b"cc", b"ddd"
    assert [rank & 0xFFFFFFFF for rank in Grown(*payloads, by_size=True).tree.root.leaves] == [
        0xFFFFFFFF - seq for seq in (0, 2, 3, 1)
    ]
    assert [0xFFFFFFFF - rank for rank in Grown(*payloads).tree.root.leaves] == [3, 2, 1, 0]
