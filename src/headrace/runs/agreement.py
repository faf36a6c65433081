"""What two runs answered to the records that both have: how many alike, which not, and what became of the labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from headrace import canon
from headrace.ledger.columns import Numbers, columns
from headrace.ledger.reader import LedgerReader, StoredRow, as_text
from headrace.runs.answertext import answer_json, written_out
from headrace.runs.divided import join_of, whole_item
from headrace.values import State

LABELS = 200  # so many distinct answers at most are held to be labels,
LABEL_BYTES = 100  # none longer than this
EXAMPLES = 10
PAIRS = 20
_STATUSES = ("pending", "done", "failed", "quarantined", "rejected")
_CODES = {State.PENDING: 0, State.LEASED: 0, State.DONE: 1, State.FAILED: 2, State.QUARANTINED: 3}
_REJECTED = 4
_ROWS_AT_ONCE = 128
DONE = 1  # among the statuses of `Answers`


class Answers(Struct, frozen=True):
    """What a run answered, 37 bytes an item, in input order: 64-bit hashes of the item's name, of its answer and of what was
    asked, its status, the number of its label (-1 beyond `LABELS`), and the bytes of its answer's JSON.
    """

    names: Numbers
    answers: Numbers
    asked: Numbers
    statuses: Numbers
    labels: Numbers
    sizes: Numbers


class Labels(dict[bytes, int]):
    """A number for each distinct answer, of all runs that are compared; -1 for all where there are too many."""

    @property
    def is_full(self) -> bool:
        return len(self) > LABELS

    def __missing__(self, answer: bytes) -> int:
        if self.is_full or len(answer) > LABEL_BYTES:
            return -1
        self[answer] = number = len(self)
        return number


def read_answers(reader: LedgerReader, labels: Labels) -> Answers:
    """Read a run's answers. Memory grows by 37 bytes an item, whatever the answers' length."""
    found = columns((_coded(row, labels) for row in item_rows(reader)), 6, np.int64)
    return Answers(
        found[0], found[1], found[2], found[3].astype(np.int8), found[4].astype(np.int32), found[5].astype(np.int32)
    )  # fmt: skip


def _coded(row: StoredRow, labels: Labels) -> tuple[int, int, int, int, int, int]:
    # Python's own hash of bytes: 64 bits, keyed for each process, so that nobody can make two that are equal on purpose.
    name = hash(row.id.encode() if row.id is not None else b"%d" % row.number)
    asked = hash(row.hash) if row.hash is not None else 0
    status = _REJECTED if row.item_error is not None else _CODES[State(row.state or 0)]
    if status != DONE:
        return name, 0, asked, status, -1, 0
    text = answer_json(row.answer, row.content)
    return name, hash(text), asked, status, labels[text], len(text)


def answers_of(reader: LedgerReader) -> Iterator[bytes]:
    """The JSON text of each accepted answer, in input order."""
    if join_of(reader) is not None:
        for row in item_rows(reader):
            if row.item_error is None and row.state == State.DONE:
                yield answer_json(row.answer, row.content)
        return
    for batch in reader.short_rows(_ROWS_AT_ONCE):
        for _, _, _, _, code, _, answer, content in batch:
            if code >= 0 and code & 15 == State.DONE:
                yield answer if answer is not None else written_out(content)


class Compared(Struct, frozen=True):
    """`common`: items that both have; `both`: those that both have answered, of which `equal` got the same answer.

    `same_request`: common items that were asked word for word the same. `statuses`: how many went from which to which status.
    `pairs`: changed labels and how many, most first; `shift`: each label's share of each run's answers among `both`.
    """

    common: int
    only_a: int
    only_b: int
    repeated: int
    same_request: int
    both: int
    equal: int
    statuses: list[tuple[str, str, int]]
    pairs: list[tuple[Any, Any, int]]
    shift: list[tuple[Any, float, float]]
    examples: list[dict[str, Any]]

    @property
    def changed(self) -> int:
        return self.both - self.equal


def matched(a: Answers, b: Answers) -> tuple[Numbers, Numbers]:
    """Where the items that both have stand in each, in the order of A."""
    _, in_a, in_b = np.intersect1d(a.names, b.names, return_indices=True)
    order = np.argsort(in_a)
    return in_a[order], in_b[order]


def compare(a: Answers, b: Answers, readers: tuple[LedgerReader, LedgerReader], labels: Labels) -> Compared:
    """Compare by the items' names. Of a name that comes twice in a run the first counts."""
    in_a, in_b = matched(a, b)
    distinct = [len(np.unique(one.names)) for one in (a, b)]
    both = (a.statuses[in_a] == DONE) & (b.statuses[in_b] == DONE)
    is_equal = both & (a.answers[in_a] == b.answers[in_b])
    changed = np.flatnonzero(both & ~is_equal)
    places = [(int(in_a[n]), int(in_b[n])) for n in changed[:EXAMPLES]]
    moved = a.statuses[in_a].astype(np.int64) * len(_STATUSES) + b.statuses[in_b]
    kinds, counts = np.unique(moved[a.statuses[in_a] != b.statuses[in_b]], return_counts=True)
    pairs, shift = _labels(a.labels[in_a[both]], b.labels[in_b[both]], labels)
    return Compared(
        common=len(in_a), only_a=distinct[0] - len(in_a), only_b=distinct[1] - len(in_a),
        repeated=len(a.names) + len(b.names) - sum(distinct),
        same_request=int(((a.asked[in_a] == b.asked[in_b]) & (a.asked[in_a] != 0)).sum()),
        both=int(both.sum()), equal=int(is_equal.sum()),
        statuses=[
            (_STATUSES[kind // len(_STATUSES)], _STATUSES[kind % len(_STATUSES)], int(count))
            for kind, count in sorted(zip(kinds.tolist(), counts.tolist(), strict=True), key=lambda row: -row[1])
        ],
        pairs=pairs, shift=shift, examples=[_example(*readers, *place) for place in places],
    )  # fmt: skip


def _labels(a: Numbers, b: Numbers, labels: Labels) -> tuple[list[tuple[Any, Any, int]], list[tuple[Any, float, float]]]:
    """The changed pairs and the shares, where the answers are labels."""
    if labels.is_full or not len(a) or (a < 0).any() or (b < 0).any():
        return [], []
    names = [canon.decode(text) for text in labels]
    count = len(names)
    kinds, counts = np.unique(a.astype(np.int64) * count + b, return_counts=True)
    pairs = [(names[kind // count], names[kind % count], n) for kind, n in zip(kinds.tolist(), counts.tolist(), strict=True)]
    changed = sorted((pair for pair in pairs if pair[0] != pair[1]), key=lambda pair: -pair[2])
    shares = [np.bincount(one, minlength=count) / len(one) for one in (a, b)]
    order = np.argsort(-shares[0], kind="stable").tolist()
    shift = [(names[n], float(shares[0][n]), float(shares[1][n])) for n in order if shares[0][n] or shares[1][n]]
    return changed[:PAIRS], shift


def _example(a: LedgerReader, b: LedgerReader, in_a: int, in_b: int) -> dict[str, Any]:
    rows = [next(item_rows(reader, seq)) for reader, seq in ((a, in_a), (b, in_b))]
    shown = [canon.decode(answer_json(row.answer, row.content)) for row in rows]
    name = canon.decode(as_text(rows[0].id) or "null") if rows[0].id is not None else rows[0].number
    return {"id": name, "a": shown[0], "b": shown[1]}


def item_rows(reader: LedgerReader, only: int | None = None) -> Iterator[StoredRow]:
    """The items' rows, or that of one item, each with the answer that its pieces come to."""
    span = () if only is None else (only, only)
    how = join_of(reader)
    if how is None:
        yield from reader.rows(*span)
        return
    for pieces in reader.piece_rows(*span):
        yield whole_item(pieces, how, reader).row
