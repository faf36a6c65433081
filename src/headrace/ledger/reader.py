"""Reading a ledger: pending units for the feed, facts and counts for status, rows for the output. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from headrace import canon
from headrace.errors import LedgerError
from headrace.ledger.connection import connect_reader, mapped
from headrace.ledger.statements import HASH_LISTS, PENDING_LISTS, PROCESSES, SQL
from headrace.values import Slice, State, Unit, UnitKind


class StoredUnit(Struct, frozen=True):
    """A pending unit, the place of the record that it is rendered from, and its last attempt."""

    unit: Unit
    place: tuple[int, int, int]
    attempt: int | None


class StoredReply(NamedTuple):
    content: str | None
    finish: str | None
    reasoning: str | None
    refusal: str | None
    kind: str | None
    message: str | None


class StoredScore(NamedTuple):
    """A unit of one of the run's own kinds: its hash, its state, and its reply's likeliest tokens where there are any."""

    hash: bytes
    state: State
    likeliest: list[tuple[str, float]] | None


class StoredReduction(NamedTuple):
    """What a reducing request joins: the answers from `first` up to `stop` of the level below, and these as texts."""

    level: int
    n: int
    first: int
    stop: int
    is_last: bool
    answers: list[str]


class StoredConfig(Struct, frozen=True):
    number: int
    made_at: float
    content_hash: str
    content: dict[str, Any]
    operating: dict[str, Any]


class StoredRow(NamedTuple):
    """What the output says of one item; the columns of the query `rows`, in its order."""

    seq: int
    file: int
    offset: int
    length: int
    number: int
    readable: int
    item_notes: int
    id: str | None
    item_error: str | None
    unit: int | None
    state: int | None
    unit_error: str | None
    hash: bytes | None
    notes: int | None
    answer: str | bytes | None
    content: str | bytes | None
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    seconds: float | None
    reasoning: str | bytes | None
    confidence: float | None


ShortRow = tuple[int, int, int, int, int, str | bytes | None, bytes | None, str | bytes | None]
"""seq, file, offset, length, code, error, answer, content.

`code` is notes * 16 + (is it rejected) * 8 + the unit's state (0 without a unit); of an unreadable record ~ of that. The
answer's JSON text, and the content where that is the answer, are there for done units only.
"""
_LARGEST = 2**63 - 1
_PART = 1000  # attempts; their pages fit SQLite's cache


class LedgerReader:
    """One reading connection. Sees what was committed when each query began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = connect_reader(path)

    def close(self) -> None:
        self._db.close()

    # -- facts

    def meta(self, key: str, default: Any = None) -> Any:
        row = self.one("get_meta", (key,))
        return default if row is None else self._decoded(row[0])

    def _decoded(self, text: str) -> Any:
        try:
            return canon.decode(text)
        except ValueError as error:
            raise LedgerError(f"{self.path} is damaged: a fact in it is no JSON ({error}).") from error

    def configs(self) -> list[StoredConfig]:
        return [
            StoredConfig(number, made_at, content_hash, self._decoded(content), self._decoded(operating))
            for number, made_at, content_hash, content, operating in self.all("configs")
        ]

    # -- for the feed

    def pending(self, after: int, limit: int) -> list[StoredUnit]:
        """Pending units with seq > after, in order."""
        return list(map(_stored_unit, self.all("pending", (after, limit))))

    def pending_these(self, seqs: list[int]) -> list[StoredUnit]:
        """Those of these units that are pending, in the order asked for."""
        found = {row[0]: _stored_unit(row) for row in self._listed(PENDING_LISTS, seqs)}
        return [found[seq] for seq in seqs if seq in found]

    def leased(self) -> list[StoredUnit]:
        """Units of the job itself whose lease a dead process left open, in order."""
        return list(map(_stored_unit, self.all("leased_records")))

    def repeatable(self, count: int) -> list[StoredUnit]:
        """So many answered units of the job itself, in the order of their hashes."""
        return list(map(_stored_unit, self.all("repeatable", (count,))))

    def pending_of(self, kind: UnitKind, after: int) -> list[Unit]:
        """Pending units of one of the run's own kinds with seq > after, in order. They belong to no item."""
        return [
            Unit(seq=r[0], hash=r[1], item=-1, n=r[2], kind=kind, config=r[3], ask=r[4], spent=r[5], age_s=r[6])
            for r in self.all("pending_of_kind", (int(kind), after))
        ]

    def of_kind(self, kind: UnitKind) -> list[StoredScore]:
        """All units of one of the run's own kinds, in order."""
        return [StoredScore(r[0], State(r[1]), as_likeliest(r[2])) for r in self.all("of_kind", (int(kind),))]

    def pending_made(self) -> list[int]:
        """The numbers of pending units that were made of answers."""
        return [seq for (seq,) in self.all("pending_made")]

    def count_made(self) -> int:
        """How many units were made of answers."""
        return int(self.one("count_made")[0])

    def slices(self, item: int) -> list[Slice]:
        """What each piece of an item holds of its divided fields, piece by piece; nothing of an item that is whole."""
        return [Slice(item, n, as_text(field) or "", *ends) for _, n, field, *ends in self.all("slices", (item,))]

    def reduction(self, item: int, unit: int) -> StoredReduction:
        """What a reducing unit joins. Raises LedgerError for one that is not there."""
        row = self.one("reduction", (item, unit))
        if row is None:
            raise LedgerError(f"{self.path} is damaged: it does not say which answers unit {unit} joins.")
        level, n, first, stop, is_last = row
        if level == 1:
            rows = self.all("piece_answers", (item, first, stop))
        else:
            rows = self.all("level_answers", (item, first, stop, level - 1))
        return StoredReduction(level, n, first, stop, bool(is_last), [as_answer(*row) for row in rows])

    def last_reply(self, attempt: int) -> StoredReply | None:
        row = self.one("last_reply", (attempt,))
        if row is None:
            return None
        content, finish, reasoning, refusal, kind, message = row
        return StoredReply(as_text(content), as_text(finish), as_text(reasoning), as_text(refusal), kind, as_text(message))

    def hash_of(self, seqs: list[int]) -> list[bytes]:
        """Full hashes by sequence number, in the order asked for. Raises LedgerError for one that is not there."""
        found: dict[int, bytes] = dict(self._listed(HASH_LISTS, seqs))
        try:
            return [found[seq] for seq in seqs]
        except KeyError as error:
            raise LedgerError(f"{self.path} is damaged: it lacks unit {error.args[0]}.") from None

    def hashes(self, name: str = "hashes") -> Iterator[bytes]:
        """All hashes in order of sequence number, a thousand at a time in one blob; `read_hashes`: of units that were read."""
        with mapped(self.path):
            cursor = self._db.execute(SQL[name])
            while rows := cursor.fetchmany(1000):
                yield b"".join([row[0] for row in rows])

    # -- for status

    def processes(self) -> tuple[list[range], bool]:
        """The attempts of each process of the run, by number; and whether all processes noted where theirs begin."""
        (end,) = self.one("next_attempt")
        noted: list[int] = self.meta(PROCESSES, [])
        starts = sorted({1, *(at for at in noted if at < end), end})
        return [range(*bounds) for bounds in pairwise(starts)], noted[:1] == [1]

    def parts(
        self, *names: str, thresholds: Sequence[int] = (), among: range | None = None
    ) -> Iterator[list[list[Any]]]:  # fmt: skip
        """What statements say of one part of the attempts after another: for each part the rows of each statement.

        The parts are so small that a part's pages are read once for all statements. `thresholds` are of `known_uses`; `among`:
        of these attempts alone.
        """
        given = {"thresholds": canon.encode(list(thresholds)).decode()}
        numbers = range(self.one("next_attempt")[0]) if among is None else among
        for first in numbers[::_PART]:
            last = min(first + _PART, numbers.stop) - 1
            yield [self.all(name, {"first": first, "last": last, **given}) for name in names]

    # -- for the output

    def rows(self, first: int = 0, last: int = _LARGEST) -> Iterator[StoredRow]:
        """The rows of the items from `first` to `last`."""
        with mapped(self.path):
            cursor = self._db.execute(SQL["rows"], (first, last))
            while rows := cursor.fetchmany(500):
                yield from map(StoredRow._make, rows)

    def piece_rows(self, first: int = 0, last: int = _LARGEST) -> Iterator[list[StoredRow]]:
        """The same for a job that divides its records: the rows of each item's pieces, in order; one row of an item that has
        none.
        """
        with mapped(self.path):
            cursor = self._db.execute(SQL["piece_rows"], (first, last))
            held: list[StoredRow] = []
            for values in cursor:
                row = StoredRow._make(values)
                if held and held[0].seq != row.seq:
                    yield held
                    held = []
                held.append(row)
            if held:
                yield held

    def reduction_rows(self, item: int) -> list[tuple[StoredRow, int, bool]]:
        """What joins an item's answers, each with its level and whether it gives the item's answer, in order."""
        return [(StoredRow._make(row[:-2]), row[-2], bool(row[-1])) for row in self.all("reduction_rows", (item,))]

    def short_rows(self, at_once: int) -> Iterator[list[ShortRow]]:
        """The same for an output without details: so many items at a time, as plain tuples."""
        with mapped(self.path):
            cursor = self._db.execute(SQL["short_rows"])
            while rows := cursor.fetchmany(at_once):
                yield rows

    # -- statements

    def _listed(self, lists: list[tuple[int, str]], seqs: list[int]) -> Iterator[Any]:
        """The rows of a statement for all these numbers; `lists` has it for lists of several widths."""
        most = lists[-1][0]
        with mapped(self.path):
            for at in range(0, len(seqs), most):
                part = seqs[at : at + most]
                width, statement = next(wide for wide in lists if wide[0] >= len(part))
                yield from self._db.execute(statement, part + part[-1:] * (width - len(part)))

    def all(self, name: str, values: tuple[Any, ...] | dict[str, Any] = ()) -> list[Any]:
        with mapped(self.path):
            return self._db.execute(SQL[name], values).fetchall()

    def one(self, name: str, values: tuple[Any, ...] = ()) -> Any:
        """The first row, or None."""
        with mapped(self.path):
            return self._db.execute(SQL[name], values).fetchone()

    def stream(self, name: str, values: tuple[Any, ...] = ()) -> Iterator[Any]:
        with mapped(self.path):
            yield from self._db.execute(SQL[name], values)

    def snapshot(self) -> None:
        """Begin to see one state only, so that figures from several queries agree; until `close`."""
        with mapped(self.path):
            self._db.execute("BEGIN")


def _stored_unit(r: Any) -> StoredUnit:
    return StoredUnit(
        Unit(seq=r[0], hash=r[1], item=r[2], n=r[3], kind=UnitKind(r[4]), config=r[5], ask=r[6], spent=r[7], age_s=r[8]),
        (r[10], r[11], r[12]),
        r[9],
    )


def as_likeliest(stored: str | None) -> list[tuple[str, float]] | None:
    """Likeliest tokens as they were stored."""
    return None if stored is None else [(token, value) for token, value in canon.decode(stored)]


def as_answer(answer: str | bytes | None, content: str | bytes | None) -> str:
    """An answer as a reducing prompt shows it: a text as it is, any other value as its JSON text."""
    text = as_text(answer)
    if text is None:
        return as_text(content) or ""
    value = canon.decode(text) if text.startswith('"') else None
    return value if isinstance(value, str) else text


def as_text(value: str | bytes | None) -> str | None:
    """Text as it was stored: one with a lone surrogate was kept as bytes."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
