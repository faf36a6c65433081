"""Reading a job's input as a run would, with nothing kept: which units there are, and which of them are still to be sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headrace.canon import HASH_BYTES
from headrace.ledger.dedupe import DedupeIndex
from headrace.ledger.reader import LedgerReader
from headrace.policy import tokens
from headrace.policy.tokens import Span
from headrace.runs.intake import InputIntake, Reading, Stores
from headrace.runs.lifecycle import Choice, Way
from headrace.runs.making import Making
from headrace.runs.prompttexts import PromptTexts, prompt_texts
from headrace.runs.reuse import Reuse
from headrace.runs.savings import Beginnings
from headrace.runs.shapes import shape_of
from headrace.sources.open import OpenedSource
from headrace.values import Item, Unit

_AT_ONCE = 1000  # records
_SHOWN = 20  # kinds of rejects told apart


class TokenCounter(Protocol):
    """Counts a request's tokens exactly. `name` says by what; `has_template`: the chat template's are among them."""

    @property
    def name(self) -> str: ...

    @property
    def has_template(self) -> bool: ...

    def count(self, requests: Sequence[PromptTexts]) -> list[float]: ...


class _Hashes:
    """What each unit met so far asks: 16 bytes a unit, where a run would look into its ledger."""

    def __init__(self) -> None:
        self._blob = bytearray()

    def add(self, units: Sequence[Unit]) -> None:
        self._blob += b"".join([unit.hash for unit in units])

    def of(self, seqs: list[int]) -> list[bytes]:
        return [bytes(self._blob[seq * HASH_BYTES : (seq + 1) * HASH_BYTES]) for seq in seqs]


class _NoCopies:
    """Takes records that a run would copy, and forgets them."""

    length = 0

    def append(self, raws: Iterable[bytes]) -> list[tuple[int, int]]:
        return [(0, len(raw)) for raw in raws]

    def sync(self) -> None: ...

    def close(self) -> None: ...


def _stores(source: OpenedSource, hashes: _Hashes) -> Stores:
    """Stores of which nothing is left: no file is made."""
    return Stores(source, _NoCopies(), None, None, DedupeIndex(hashes.of))


class Rest:
    """Which units a command would still send: all, none, or those that a run has not settled."""

    def __init__(self, known: Iterable[bytes] | None = None, *, is_open: bool = False) -> None:
        """`known` are hashes: with `is_open` of the units that wait, else of those that are settled; None: a new run."""
        self._is_open = is_open
        self._known: NDArray[np.uint64] | None = None
        if known is not None:
            self._known = np.sort(_prefixes(known))

    def of(self, units: Sequence[Unit]) -> list[Unit]:
        if self._known is None or not units:
            return list(units)
        wanted = _prefixes(unit.hash for unit in units)
        places = np.searchsorted(self._known, wanted)
        is_known = np.zeros(len(units), bool)
        inside = places < len(self._known)
        is_known[inside] = self._known[places[inside]] == wanted[inside]
        return [unit for unit, known in zip(units, is_known.tolist(), strict=True) if known == self._is_open]


def rest_of(choice: Choice) -> Rest:
    """What the command would send. Raises LedgerError."""
    if choice.way is Way.NEW or choice.folder is None:
        return Rest()
    if choice.way is Way.REPEAT:
        return Rest((), is_open=True)
    reader = LedgerReader(choice.folder.ledger)
    try:
        is_read = bool(reader.meta("reading", {}).get("done", False))
        rows = reader.stream("open_hashes" if is_read else "settled_hashes")
        return Rest((row[0] for row in rows), is_open=is_read)
    finally:
        reader.close()


def _prefixes(hashes: Iterable[bytes]) -> NDArray[np.uint64]:
    """The first 8 bytes of each."""
    return np.frombuffer(b"".join(hashes), np.uint64)[::2].copy()


class Group(Struct):
    """Records that are rejected for one reason. `example`: the id of the first, else its number."""

    kind: str
    message: str
    count: int
    example: Any


class Rejects:
    """Rejected records by reason; what differs from record to record tells no reasons apart."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.error is None:
                continue
            kind, _, message = item.error.partition(": ")
            shape = shape_of(message)
            if shape not in self._groups and len(self._groups) >= _SHOWN:
                shape = message = "other reasons"
            example = item.number if item.id is None else item.id
            group = self._groups.setdefault(shape, Group(kind, message, 0, example))
            group.count += 1

    def groups(self) -> list[Group]:
        """The most first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)


class Rehearsal:
    """What reading the input has shown. Without a `counter` tokens are estimated by characters."""

    def __init__(self, making: Making, rest: Rest, counter: TokenCounter | None) -> None:
        self.making = making
        self.counter = counter
        self.items = self.pieces = self.units = self.rejected = self.excluded = 0
        self.requests = self.settled = self.reused = self.messages = self.others = self.bytes = 0
        self.rejects = Rejects()
        self.divided: Counter[int] = Counter()  # how many items have so many pieces, whose answers are joined each by itself
        self._joined: set[int] = set()  # the pieces of these
        self.beginnings = Beginnings(making.renderer.shared_bytes)
        self._rest = rest
        self._profile = tokens.profile(b"")
        self._exact = 0.0
        self._longest = b""

    @property
    def is_exact(self) -> bool:
        """Whether the counts are what a server's would be."""
        return self.counter is not None and self.counter.has_template

    def read(self, source: OpenedSource, reuse: Reuse | None) -> None:
        """Read the whole input. Raises InputError, as a run would."""
        hashes = _Hashes()
        stores = _stores(source, hashes)
        intake = InputIntake(self.making, stores, reading=Reading(), next_unit=0, reuse=reuse)
        try:
            done = False
            while not done:
                taken = intake.take(_AT_ONCE)
                done = taken.done
                hashes.add(taken.units)
                self.items += len(taken.items)
                self.pieces += len(taken.pieces)
                self.units += len(taken.units)
                if self.making.dividing is not None:
                    self._count_divided(taken.pieces)
                self.rejected += taken.rejected
                self.excluded = taken.meta["reading"]["excluded"]
                if taken.rejected:
                    self.rejects.add(taken.items)
                self._pass_on(taken.units, {outcome.unit for outcome in taken.outcomes})
        finally:
            stores.index.close()

    def _count_divided(self, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Items of equal pieces have equal requests that join their answers, unless these print something of the record."""
        assert self.making.dividing is not None
        reducing = self.making.dividing.reducing
        prints_records = reducing is not None and reducing.prompt.fields != frozenset()
        units: dict[int, list[int]] = {}
        for item, _, unit in pieces:
            units.setdefault(item, []).append(unit)
        for asked in units.values():
            value = 0 if prints_records or len(asked) == 1 else hash(tuple(asked))
            if value not in self._joined:
                self.divided[len(asked)] += 1
            if value:
                self._joined.add(value)

    def _pass_on(self, units: list[Unit], lent: set[int]) -> None:
        """Count those that are to be sent."""
        rest = self._rest.of(units)
        self.settled += len(units) - len(rest)
        payloads = [unit.payload for unit in rest if unit.payload is not None and unit.seq not in lent]
        self.reused += len(rest) - len(payloads)
        self.add(payloads)

    def add(self, payloads: Sequence[bytes]) -> None:
        if not payloads:
            return
        self.requests += len(payloads)
        self.bytes += sum(map(len, payloads))
        self.beginnings.add(payloads)
        self._longest = max(self._longest, max(payloads, key=len), key=len)
        found = list(prompt_texts(payloads))
        self.messages = found[0].messages
        self.others += sum([one.others for one in found])
        if self.counter is not None:
            self._exact += sum(self.counter.count(found))
        else:
            self._profile += tokens.profile(tokens.joined(text for one in found for text in one.texts))

    def counted(self, requests: Sequence[PromptTexts]) -> list[float]:
        """The figure of each request that `total` adds up."""
        if self.counter is not None:
            return self.counter.count(requests)
        return [sum(map(tokens.estimate, one.texts)) for one in requests]

    def total(self) -> Span:
        """The prompts' tokens as far as their texts say."""
        return Span(self._exact, self._exact, self._exact) if self.counter is not None else tokens.weigh(self._profile)

    def longest(self) -> list[PromptTexts]:
        return list(prompt_texts([self._longest])) if self._longest else []
