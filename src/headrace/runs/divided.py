"""What becomes of an item that may be divided: its status, its answer and its notes, from those of its pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headrace import canon
from headrace.ledger.reader import LedgerReader, StoredRow, as_text
from headrace.runs.answertext import answer_json
from headrace.slicing.join import join
from headrace.values import State, Status

SHARE, TIED, PIECES = "answer_share", "answer_tied", "answer_pieces"
VOTED = (SHARE, TIED)
_STATUS = {State.DONE: Status.DONE, State.FAILED: Status.FAILED, State.QUARANTINED: Status.QUARANTINED}


class Whole(NamedTuple):
    """An item as one row of the output says it, and beside it what is known of its pieces.

    `pieces` are those, and what joins them, in order: level (0 for a piece), number, row.
    """

    row: StoredRow
    share: float | None
    tied: list[Any]
    pieces: list[tuple[int, int, StoredRow]]

    @property
    def details(self) -> list[dict[str, Any]]:
        """Each piece's own answer, and each that joins some: nothing of what was paid for is lost."""
        return [_detail(level, number, row) for level, number, row in self.pieces]


def join_of(reader: LedgerReader) -> str | None:
    """How a run joins the answers to pieces: concat, list, vote or reduce; None where it divides nothing."""
    for stored in reader.configs():
        split = stored.content.get("slice", {}).get("split")
        if split is not None:
            return split["join"] if isinstance(split["join"], str) else "reduce"
    return None


def whole_item(rows: Sequence[StoredRow], how: str, reader: LedgerReader) -> Whole:
    """Put an item together from the rows of its pieces."""
    head = rows[0]
    if head.unit is None:  # rejected: it has none
        return Whole(head, None, [], [])
    levels = reader.reduction_rows(head.seq) if how == "reduce" and len(rows) > 1 else []
    pieces = [(0, n, row) for n, row in enumerate(rows, 1)]
    numbers: dict[int, int] = {}
    for row, level, _ in levels:
        numbers[level] = numbers.get(level, 0) + 1
        pieces.append((level, numbers[level], row))
    state, error = _state(pieces)
    whole = _summed(head, [row for _, _, row in pieces])._replace(state=state, unit_error=error)
    if state != State.DONE:
        return Whole(whole, None, [], pieces)
    if how == "reduce":
        last = levels[-1][0] if levels else head
        return Whole(_like(whole, last), None, [], pieces)
    if how == "concat" and len(rows) == 1:
        return Whole(_like(whole, head), None, [], pieces)
    gaps = [gap for (gap,) in reader.all("gaps", (head.seq,))] if how == "concat" else []
    joined = join(how, [canon.decode(answer_json(row.answer, row.content)) for row in rows], gaps)
    answer = canon.encode(joined.value)
    confidence = _confidence(rows, answer) if how == "vote" else None
    whole = whole._replace(answer=answer, content=whole.content if len(rows) == 1 else None, confidence=confidence)
    return Whole(whole, joined.share, joined.tied, pieces)


def _state(pieces: Sequence[tuple[int, int, StoredRow]]) -> tuple[int, str | None]:
    """The item's state, and why it is not done. It is pending while anything of it is."""
    if any(row.state is None or row.state < State.DONE for _, _, row in pieces):
        return State.PENDING, None
    for state in (State.FAILED, State.QUARANTINED):
        found = [(level, number, row) for level, number, row in pieces if row.state == state]
        if found:
            return state, _error(found, sum(level == 0 for level, _, _ in pieces))
    return State.DONE, None


def _error(found: Sequence[tuple[int, int, StoredRow]], count: int) -> str:
    """`kind: cause` of the first, with its number."""
    level, number, row = found[0]
    kind, _, cause = (as_text(row.unit_error) or "").partition(": ")
    if level:
        return f"{kind}: joining the pieces' answers, request {number} of level {level}: {cause}"
    if count == 1:
        return f"{kind}: {cause}"
    more = f" (and {len(found) - 1} more pieces)" if len(found) > 1 else ""
    return f"{kind}: piece {number} of {count}{more}: {cause}"


def _summed(head: StoredRow, rows: Sequence[StoredRow]) -> StoredRow:
    """The item's row with what its units took together."""
    notes = 0
    for row in rows:
        notes |= row.notes or 0
    return head._replace(
        notes=notes, prompt_tokens=_sum(row.prompt_tokens for row in rows),
        completion_tokens=_sum(row.completion_tokens for row in rows), cached_tokens=_sum(row.cached_tokens for row in rows),
        seconds=_sum(row.seconds for row in rows), hash=head.hash if len(rows) == 1 else None,
        content=head.content if len(rows) == 1 else None,
    )  # fmt: skip


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _like(whole: StoredRow, last: StoredRow) -> StoredRow:
    """The item's row with the answer of the one unit that gives it."""
    return whole._replace(
        answer=last.answer, content=last.content, hash=last.hash, model=last.model, reasoning=last.reasoning,
        confidence=last.confidence,
    )  # fmt: skip


def _confidence(rows: Sequence[StoredRow], answer: bytes) -> float | None:
    """The mean confidence of the pieces that gave the answer."""
    known = [row.confidence for row in rows if row.confidence is not None and answer_json(row.answer, row.content) == answer]
    return round(sum(known) / len(known), 6) if known else None


def _detail(level: int, number: int, row: StoredRow) -> dict[str, Any]:
    state = State(row.state or 0)
    text = as_text(row.content)
    return {
        "level": level, "n": number, "status": _STATUS.get(state, Status.PENDING).value,
        "answer": canon.decode(answer_json(row.answer, row.content)) if state is State.DONE else None,
        "error": as_text(row.unit_error), "unit": row.hash.hex() if row.hash is not None else None,
        "raw": text if state is State.QUARANTINED or (state is State.DONE and row.answer is not None) else None,
    }  # fmt: skip
