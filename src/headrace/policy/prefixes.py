"""Which prompt prefixes units share: a tree of prefixes in blocks of 64 bytes, with the units that hang on each."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from msgspec import Struct

from headrace.policy.reach import Expected
from headrace.values import Unit

BLOCK = 64  # bytes; about 16 tokens, which is what servers cache by
SEQ_BITS = 32  # of a unit's number, in a rank
LAST_SEQ = (1 << SEQ_BITS) - 1
MOST_NESTED = 16  # prefixes within prefixes: beyond it a unit hangs on a shorter one than it could

Offered = tuple[int, int, int, "Prefix"]


class Entry(Struct, eq=False, gc=False):
    """A unit in the tree, until its answer has come. `node` is the longest prefix that it shares with others.

    `key` is the block by which those find it that share one more. `since`: when it was taken; below 0 it waits. Takes are
    numbered. `expects`: so many bytes of it may be cached when it is taken.
    """

    unit: Unit
    payload: bytes
    size: int
    node: Prefix
    key: bytes | None = None
    since: float = -1.0
    number: int = 0
    expects: tuple[int, Expected] | None = None

    def rank(self, *, by_size: bool) -> int:
        """The larger goes first: the longer prompt, or the earlier unit."""
        return (self.size << SEQ_BITS if by_size else 0) + LAST_SEQ - self.unit.seq


class Prefix:
    """A prefix that several units share. `depth`: its bytes; `tail`: those beyond the parent's.

    It is warm (the server is taken to hold it), or computing (`leader` was taken and has not answered), or cold. `leaves`
    are the ranks of the waiting units that share no longer prefix; `offers` are longer prefixes that need a leader.
    """

    __slots__ = (
        "children",
        "depth",
        "first",
        "height",
        "is_presumed",
        "is_warm",
        "leader",
        "least",
        "leaves",
        "most",
        "offered",
        "offers",
        "out",
        "parent",
        "since",
        "tail",
        "used_at",
        "waiting",
        "was_warm",
    )

    def __init__(self, parent: Prefix | None, depth: int, tail: bytes) -> None:
        self.parent = parent
        self.depth = depth
        self.tail = tail
        self.children: dict[bytes, Entry | Prefix] = {}  # by the block that follows
        self.leaves: list[int] = []
        self.offers: list[Offered] = []
        self.waiting = 0  # units under it that wait
        self.out = 0  # that were taken and are not back
        self.least = 0  # bytes of the shortest and the longest prompt under it, so far
        self.most = 0
        self.height = 0  # how many prefixes have nested under it, one in the other
        self.first = 0  # the smallest unit's number
        self.leader: Entry | None = None
        self.since = 0.0
        self.is_warm = False
        self.is_presumed = False
        self.used_at = 0  # when it was used, as `policy.order` counts
        self.was_warm = False  # and is cold again: too many others were used since
        self.offered: tuple[int, int] | None = None  # the key under which it stands among the parent's offers

    @property
    def is_cold(self) -> bool:
        return self.leader is None and not self.is_warm

    def path(self) -> Iterator[Prefix]:
        """Itself and the prefixes of it, without the root: the longest first."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def widen(self, entry: Entry) -> None:
        """A unit hangs under it from now on."""
        if not self.least:
            self.least = self.most = entry.size
            self.first = entry.unit.seq
            return
        self.least = min(self.least, entry.size)
        self.most = max(self.most, entry.size)
        self.first = min(self.first, entry.unit.seq)


class Tree:
    """Finds the place of a unit. `start` bytes are common to all units: no prefix ends there.

    `least` is how many more two units must have in common to count as sharing; 0: nothing is looked for. Payloads are
    compared by slices, in C. With `by_size` leaves are ranked by the prompt's bytes, else in the units' order.
    """

    def __init__(self, start: int, least: int, *, by_size: bool) -> None:
        self.root = Prefix(None, start // BLOCK * BLOCK, b"")
        self.root.is_warm = True
        self.by_size = by_size
        self._least = max(BLOCK, least // BLOCK * BLOCK) if least else 0

    def add(self, units: Iterable[Unit], entries: dict[int, Entry]) -> list[tuple[Entry, Prefix | None]]:
        """Hang waiting units on their longest shared prefixes, and enter them by number.

        Returns those that share one, with the prefix that was made for it, if any.
        """
        root, step, by_size = self.root, self._least, self.by_size
        children, leaves, depth = root.children, root.leaves, root.depth
        sharing = []
        for unit in units:
            payload = unit.payload
            assert payload is not None
            size = len(payload)
            entry = entries[unit.seq] = Entry(unit, payload, size, root)
            if step:
                key = payload[depth : depth + step]
                if key in children:
                    sharing.append((entry, self._share(entry, key)))
                    continue
                if len(key) == step:
                    children[key] = entry
                    entry.key = key
            insort(leaves, (size << SEQ_BITS) + LAST_SEQ - unit.seq if by_size else LAST_SEQ - unit.seq)
        return sharing

    def _share(self, entry: Entry, key: bytes) -> Prefix | None:
        made = self._place(entry, key)
        insort(entry.node.leaves, entry.rank(by_size=self.by_size))
        for prefix in entry.node.path():
            prefix.waiting += 1
            prefix.widen(entry)
        return made

    def forget(self, entry: Entry) -> None:
        """The unit is answered, or waits somewhere else: nobody can share with it any more."""
        if entry.key is not None:
            del entry.node.children[entry.key]
            entry.key = None

    def prune(self, node: Prefix) -> None:
        """Take off prefixes that hold nothing any more."""
        while node.parent is not None and node.is_cold and not (node.waiting or node.out or node.children):
            parent, key = node.parent, node.tail[: self._step(node.parent)]
            if parent.children.get(key) is not node:
                return
            del parent.children[key]
            node = parent

    def nodes(self) -> list[Prefix]:
        """All prefixes, each before the longer ones."""
        found = [self.root]
        for node in found:
            found += [child for child in node.children.values() if isinstance(child, Prefix)]
        return found

    def _place(self, entry: Entry, key: bytes) -> Prefix | None:
        """Find the place of a unit that has its first block in common with others."""
        payload, node = entry.payload, self.root
        level = 1
        while True:
            child = node.children.get(key)
            if child is None:
                _register(node, entry)
                return None
            if not isinstance(child, Prefix):
                if level > MOST_NESTED:
                    return None
                made = self._pair(child, entry, key)
            elif payload.startswith(child.tail, node.depth):
                entry.node = node = child
                level += 1
                key = payload[node.depth : node.depth + BLOCK]
                continue
            else:
                if level + child.height + 1 > MOST_NESTED:
                    return None
                made = self._split(child, entry, key)
            _register(made, entry)
            _raise_above(made)
            return made

    def _step(self, node: Prefix) -> int:
        return self._least if node.parent is None else BLOCK

    def _split(self, child: Prefix, entry: Entry, key: bytes) -> Prefix:
        """A prefix between a prefix and its parent, in the same state."""
        parent = entry.node
        length = _common(entry.payload, parent.depth, child.tail, len(key))
        made = Prefix(parent, parent.depth + length, child.tail[:length])
        parent.children[key] = made
        child.parent, child.tail, child.offered = made, child.tail[length:], None
        made.height = child.height + 1
        made.children[child.tail[:BLOCK]] = child
        for name in (
            "waiting",
            "out",
            "least",
            "most",
            "first",
            "leader",
            "since",
            "is_warm",
            "is_presumed",
            "was_warm",
            "used_at",
        ):
            setattr(made, name, getattr(child, name))
        entry.node = made
        return made

    def _pair(self, other: Entry, entry: Entry, key: bytes) -> Prefix:
        """A prefix for two units that hung on its parent by themselves."""
        parent = entry.node
        length = _common(entry.payload, parent.depth, other.payload[parent.depth :], len(key))
        made = Prefix(parent, parent.depth + length, entry.payload[parent.depth : parent.depth + length])
        parent.children[key] = made
        made.widen(other)
        if other.since >= 0:
            made.out = 1
            made.leader, made.since = other, other.since
        else:
            made.waiting = 1
            rank = other.rank(by_size=self.by_size)
            del parent.leaves[bisect_left(parent.leaves, rank)]
            made.leaves.append(rank)
        other.node = entry.node = made
        _register(made, other)
        return made


def _raise_above(node: Prefix) -> None:
    """Tell the shorter prefixes how high it has grown."""
    parent = node.parent
    while parent is not None and parent.height <= node.height:
        parent.height = node.height + 1
        node, parent = parent, parent.parent


def _register(node: Prefix, entry: Entry) -> None:
    """Let a unit be found by those that share one more block with it."""
    block = entry.payload[node.depth : node.depth + BLOCK]
    entry.key = block if len(block) == BLOCK else None
    if entry.key is not None:
        node.children[block] = entry


def offer(node: Prefix, path: int) -> None:
    """Put a cold prefix among those of its parent that need a leader, with the rank of what hangs on it."""
    parent, key = node.parent, (path, -node.first)
    if parent is not None and node.offered != key:
        node.offered = key
        heapq.heappush(parent.offers, (-path, node.first, id(node), node))


def best_offer(parent: Prefix) -> Prefix | None:
    """The prefix that should get a leader first; those that no longer need one are dropped."""
    offers = parent.offers
    while offers:
        path, first, _, node = offers[0]
        if node.parent is parent and node.offered == (-path, -first):
            if node.is_cold and has_some(node):
                return node
            node.offered = None
        heapq.heappop(offers)
    return None


def has_some(node: Prefix) -> bool:
    """Whether a unit under it may go, as far as its own prefixes say."""
    return bool(node.leaves) or best_offer(node) is not None


def _common(payload: bytes, depth: int, other: bytes, known: int) -> int:
    """How many bytes, in whole blocks, `other` and what follows `depth` have in common; `known` are equal."""
    low, high = known // BLOCK, min(len(payload) - depth, len(other)) // BLOCK
    while low < high:
        middle = (low + high + 1) // 2
        if payload.startswith(other[low * BLOCK : middle * BLOCK], depth + low * BLOCK):
            low = middle
        else:
            high = middle - 1
    return low * BLOCK
