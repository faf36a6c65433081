"""Which unit goes next: prompts that share a prefix follow one leader, long work goes before short. Pure; `now` comes in."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

from headrace.policy.lengths import Lengths
from headrace.policy.prefixes import BLOCK, LAST_SEQ, SEQ_BITS, Entry, Prefix, Tree, best_offer, has_some, offer
from headrace.policy.reach import Expected, Reach
from headrace.values import Unit, Usage

WORTH_BYTES = 4 * BLOCK  # under `auto` a shorter prefix is not worth an order of its own
PREFILL_TOKENS_PER_S = 1000.0  # a prefix is presumed to be cached when it could have been computed at this rate,
HOLD_S = 0.25  # and so long after
MOST_WARM_BYTES = 32_000_000  # of prompts that are remembered so that others are found to share them
CRITICAL = 2.0  # work that would take half of the time that is left must begin


class Order:
    """The units that wait, and which of them goes next. Rules: `prefix`, `longest`, or `auto`, which is both.

    Units that share a prompt prefix follow a leader: one of them goes ahead, the others go when its answer has come and
    the server holds the prefix, those of the latest first. While they wait other work goes. When nothing else can fill a
    free slot, a prefix is presumed to be computed after a time (`release_at` says when). A leader that fails is followed
    by another one. At most `reach.most_open` prefixes are taken to be in the server's cache; it follows what usage says of cached
    tokens, and beyond it a prefix is opened only where a slot would stay empty otherwise.

    `shared` is how many bytes all payloads have in common at their beginning: these are no group. `auto` keeps the order of
    the input until `finish` says that all units are known; from then on long work goes first, so that none ends last.
    `window` is how many are in flight at once; `later` tells units and bytes that will still come.
    """

    def __init__(self, rule: str, shared: int = 0) -> None:
        self.bytes = 0
        self.window = 1
        self.later = (0, 0)
        self.reach = Reach()
        self.release_at: float | None = None
        self.lengths = Lengths()
        self.has_own_caches = False  # each of the server's slots caches what it has computed, and no other does
        self._rule = rule
        self._shared = shared
        least = {"prefix": BLOCK, "auto": WORTH_BYTES}.get(rule, 0)
        self._tree = Tree(shared, least, by_size=rule == "longest")
        self._count = 0
        self._entries: dict[int, Entry] = {}  # all that wait or are out, by the unit's number
        self._warm: OrderedDict[Prefix, None] = OrderedDict()  # the latest used last
        self._open: OrderedDict[Prefix, None] = OrderedDict()  # warm, and something waits; the latest used last
        self._warm_bytes = 0
        self._alone_bytes = 0  # of prompts that were answered, as far as they share nothing: they take room in the cache too
        self._computing: dict[Prefix, None] = {}
        self._stock = 0  # units that wait under a prefix that is warm or computing
        self._taken = 0
        self._place = -1

    def __len__(self) -> int:
        return self._count

    @property
    def has_prefixes(self) -> bool:
        """Whether some units share one."""
        return bool(self._tree.root.offers or self._warm or self._computing)

    # -- in and out

    def add(self, units: Sequence[Unit]) -> None:
        """Units with payload that wait from now on."""
        entries = self._entries
        before = len(entries)
        sharing = self._tree.add(units, entries)
        for _, made in sharing:
            if made is not None:
                self._adopt(made)
        for entry, _ in sharing:
            self._offer(entry.node)
            change = 0
            for node in entry.node.path():
                change = not node.is_cold
            self._stock += change
        self._count += len(entries) - before
        self.bytes += sum([len(unit.payload or b"") for unit in units])

    def _adopt(self, made: Prefix) -> None:
        """A prefix that has been found: others may hang on it, in the state that it was made in."""
        if made.is_warm:
            self._warm_bytes -= len(made.tail)  # the longer one had them until now
            self._use(made)
        elif made.leader is not None:
            self._computing[made] = None
        for child in made.children.values():
            if isinstance(child, Prefix):
                self._offer(child)

    def take(self, now: float, free: int) -> Unit | None:
        """The unit that goes next; None: none now. `free` slots are empty; 0 or less: it is to wait for one."""
        root = self._tree.root
        entry: Entry | None
        if root.leaves and not (root.offers or self._open):
            entry = self._entries[LAST_SEQ - (root.leaves.pop(self._place) & LAST_SEQ)]
        else:
            entry = self._next(free)
            while entry is None and self._presume(now, free):
                entry = self._next(free)
            if entry is None:
                return None
        self.release_at = None
        self._count -= 1
        self.bytes -= entry.size
        self._taken += 1
        entry.since = now
        if entry.node is not root:
            self._on_taken(entry, now)
        return entry.unit

    def _on_taken(self, entry: Entry, now: float) -> None:
        entry.number = self._taken
        change = 0
        for node in entry.node.path():
            node.waiting -= 1
            node.out += 1
            change = node.waiting if node.is_cold else -1
            if node.is_warm:
                if entry.expects is None:
                    entry.expects = (node.depth, Expected.PRESUMED if node.is_presumed else Expected.WARM)
            else:
                node.leader, node.since = entry, now
                self._computing[node] = None
        self._stock += change

    def on_answer(self, seq: int, usage: Usage | None, answer: float) -> None:
        """A unit that was taken has been answered, with so many tokens."""
        entry = self._entries.pop(seq, None)
        if entry is None:
            return
        if entry.key is not None:
            del entry.node.children[entry.key]
        prompt = usage.prompt if usage is not None else None
        lengths = self.lengths
        if lengths.skip:
            lengths.skip -= 1
        elif lengths.learn(entry.size, prompt, answer):
            self._choose_end()
        node = entry.node
        self._alone_bytes += entry.size - node.depth
        if node.parent is None:
            return
        for prefix in node.path():
            prefix.out -= 1
        self._warm_up(node, presumed=False)
        if entry.expects is not None and usage is not None and prompt and usage.cached is not None:
            depth, expected = entry.expects
            wanted = (self._tree.root.depth + depth) / 2 * prompt / entry.size
            self.reach.learn(expected, entry.number, self._taken, is_hit=usage.cached >= wanted)
            if self.reach.is_useless:
                self._share_nothing()

    def on_failure(self, seq: int) -> None:
        """A unit that was taken came back without an answer: others need not wait for it."""
        entry = self._entries.pop(seq, None)
        if entry is None:
            return
        self._tree.forget(entry)
        change = 0
        for node in entry.node.path():
            node.out -= 1
            change = 0
            if node.leader is entry:
                node.leader = None
                del self._computing[node]
                change = -node.waiting
        self._stock += change
        self._offer(entry.node)
        self._tree.prune(entry.node)

    def finish(self) -> None:
        """All units are known."""
        if self._rule != "auto" or self._tree.by_size:
            return
        self._tree.by_size = True
        self._choose_end()
        nodes = self._tree.nodes()
        for node in nodes:
            node.leaves = sorted([self._entries[LAST_SEQ - rank].rank(by_size=True) for rank in node.leaves])
            node.offers.clear()
            node.offered = None
        for node in nodes:
            self._offer(node)

    def drain(self) -> list[Unit]:
        """All that wait, to be added again or kept elsewhere."""
        drained = []
        nodes = self._tree.nodes()
        for node in nodes:
            drained += [self._entries.pop(LAST_SEQ - (rank & LAST_SEQ)) for rank in node.leaves]
            node.leaves, node.offers, node.offered, node.waiting = [], [], None, 0
        for entry in drained:
            self._tree.forget(entry)
        for node in nodes:
            self._tree.prune(node)
        self._count = self.bytes = self._stock = 0
        return [entry.unit for entry in drained]

    def payloads_out(self) -> list[bytes]:
        """Of the units that were taken and are not back."""
        return [entry.payload for entry in self._entries.values() if entry.since >= 0]

    # -- which

    def _next(self, free: int) -> Entry | None:
        opened = self._open
        if self.has_own_caches and (entry := self._one_each()) is not None:
            return entry
        while opened:
            node = next(reversed(opened))
            if has_some(node):
                ahead = self._root_first(free) if self._is_critical() else self._lead_ahead()
                return ahead if ahead is not None else self._pick(node, best_offer(node))
            del opened[node]
        return self._root_first(free)

    def _one_each(self) -> Entry | None:
        """A unit of a prefix of which none is in flight: the latest used first, whose slot is empty now, else a new one."""
        for node in reversed(self._open):
            if not node.out and has_some(node):
                return self._pick(node, best_offer(node))
        group = best_offer(self._tree.root)
        return self._lead(group) if group is not None else None

    def _lead_ahead(self) -> Entry | None:
        """The leader of another prefix while there are still followers, but not so many that they last until it has answered.

        Prefixes that open one by one are few at a time. Where one waits for the last follower of all, all slots open one at once.
        """
        if self._stock >= self.window or len(self._computing) >= self.reach.most_open:
            return None
        group = best_offer(self._tree.root)
        return self._lead(group) if group is not None else None

    def _root_first(self, free: int) -> Entry | None:
        """Work that shares nothing, or a prefix that is to be opened."""
        root = self._tree.root
        group = best_offer(root)
        if group is not None:
            is_full, is_stocked = len(self._computing) >= self.reach.most_open, self._stock >= self.window
            if root.leaves:
                if is_full or (is_stocked and free <= 0):
                    group = None
            elif is_stocked and (is_full or free <= 0):
                return None  # what waits for its leader will fill every slot, so that none stays empty for long
        return self._pick(root, group)

    def _pick(self, node: Prefix, group: Prefix | None) -> Entry | None:
        """The longest, or the first, of what waits under a warm prefix: a unit by itself, or the leader of a longer prefix."""
        leaves = node.leaves
        if not leaves:
            return self._lead(group) if group is not None else None
        if group is not None:
            rank = leaves[self._place]
            is_ahead = group.least + group.most >= rank >> SEQ_BITS if self._tree.by_size else group.first < LAST_SEQ - rank
            if is_ahead:
                return self._lead(group)
        return self._pop(node, self._place)

    def _lead(self, group: Prefix) -> Entry:
        """The leader of a cold prefix. It has the shortest prompt, so that the others need not wait for long."""
        lost = group.depth if group.was_warm else 0
        while (deeper := best_offer(group)) is not None:
            group = deeper
            lost = group.depth if group.was_warm else lost
        shortest = bisect_left(group.leaves, (group.leaves[0] >> SEQ_BITS) + 1 << SEQ_BITS) - 1
        entry = self._pop(group, shortest)
        if lost:
            entry.expects = (lost, Expected.LOST)
        return entry

    def _pop(self, node: Prefix, place: int) -> Entry:
        return self._entries[LAST_SEQ - (node.leaves.pop(place) & LAST_SEQ)]

    def _choose_end(self) -> None:
        """From which end units go: the longest prompt first, unless long prompts get so short answers."""
        self._place = 0 if self._tree.by_size and self.lengths.slope < 0 else -1

    def _is_critical(self) -> bool:
        """Whether the longest work beside the warm prefixes has to begin now, so that it does not end last."""
        if not self._tree.by_size:
            return False
        lengths, root = self.lengths, self._tree.root
        longest = lengths.cost(root.leaves[self._place] >> SEQ_BITS) if root.leaves else 0.0
        group = best_offer(root)
        if group is not None:
            longest = max(longest, lengths.cost(group.least) + lengths.cost(group.most))
        units, size = self.later
        left = lengths.constant * (self._count + units) + lengths.slope * (self.bytes + size)
        return longest > 0 and longest * self.window * CRITICAL >= left

    # -- prefixes

    def _offer(self, node: Prefix) -> None:
        """Let what waits under a prefix be found."""
        by_size = self._tree.by_size
        while node.parent is not None and node.leader is None:
            if node.is_warm:
                self._open.setdefault(node, None)
                return
            if node.waiting:
                offer(node, node.least + node.most if by_size else 0)
            node = node.parent

    def _use(self, node: Prefix) -> None:
        """The server has used a prefix: those that it holds are the latest."""
        path = list(node.path())
        for prefix in path:  # a prefix is used later than the longer ones, so that it is not forgotten before them
            if prefix not in self._warm:
                self._warm_bytes += len(prefix.tail)
            self._warm[prefix] = None
            self._warm.move_to_end(prefix)
            prefix.used_at = self._alone_bytes
        for prefix in reversed(path):
            if prefix.waiting:
                self._open[prefix] = None
                self._open.move_to_end(prefix)
        while len(self._warm) > len(path) and self._is_forgotten(oldest := next(iter(self._warm))):
            self._cool(oldest)

    def _is_forgotten(self, oldest: Prefix) -> bool:
        """Whether more was used since than the server is taken to hold, counted in prefixes of this length."""
        others = len(self._warm) + (self._alone_bytes - oldest.used_at) // oldest.depth
        return others > self.reach.most_open or self._warm_bytes > MOST_WARM_BYTES

    def _warm_up(self, node: Prefix, *, presumed: bool) -> None:
        change = 0
        for prefix in node.path():
            change = prefix.waiting if prefix.is_cold else 0
            if prefix.leader is not None:
                prefix.leader = None
                del self._computing[prefix]
            prefix.is_presumed = presumed and (prefix.is_presumed or not prefix.is_warm)
            prefix.is_warm, prefix.was_warm = True, False
        self._stock += change
        self._use(node)

    def _cool(self, node: Prefix) -> None:
        """Too many others were used since: the next unit that shares it computes it again."""
        del self._warm[node]
        self._warm_bytes -= len(node.tail)
        self._open.pop(node, None)
        node.is_warm, node.is_presumed, node.was_warm = False, False, True
        if node.parent is self._tree.root:
            self._stock -= node.waiting
        self._offer(node)
        self._tree.prune(node)

    def _presume(self, now: float, free: int) -> bool:
        """Whether a prefix is taken to be cached although its leader has not answered: only where a slot stays empty."""
        self.release_at = None
        if free <= 0:
            return False
        dues = [(node.since + self._hold_s(node), place) for place, node in enumerate(self._computing) if node.waiting]
        if not dues:
            return False
        due, place = min(dues)
        if due > now:
            self.release_at = due
            return False
        self._warm_up(list(self._computing)[place], presumed=True)
        return True

    def _hold_s(self, node: Prefix) -> float:
        return self.reach.patience * (HOLD_S + node.depth * self.lengths.tokens_a_byte / PREFILL_TOKENS_PER_S)

    def _share_nothing(self) -> None:
        """The server caches no prefixes that prompts share: no unit waits for another any more."""
        units = self.drain()
        self._tree = Tree(self._shared, 0, by_size=self._tree.by_size)
        for entry in self._entries.values():
            entry.node, entry.key = self._tree.root, None
        self._warm.clear()
        self._warm_bytes = 0
        self._open.clear()
        self._computing.clear()
        self.add(units)
