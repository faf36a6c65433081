"""The output: one row per item, in input order, joined from the ledger and the records; and the check that none is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from headrace.errors import LedgerError
from headrace.ledger.notes import from_bits
from headrace.ledger.reader import LedgerReader, ShortRow, StoredRow, as_text
from headrace.runs.answertext import answer_json, written_out
from headrace.runs.divided import PIECES, SHARE, TIED, VOTED, Whole, join_of, whole_item
from headrace.sinks.encoding import encode, encode_answers, encoded_answers
from headrace.sinks.jsonl import JsonlSink
from headrace.sinks.open import open_sink
from headrace.sinks.row import OutputRow, clash_free
from headrace.sources.records import RecordPlaces
from headrace.values import State, Status

T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])
BASIC = ("answer", "answer_status", "answer_error", "answer_notes")
SCORED = ("answer_confidence",)
DETAILS = (
    "answer_model", "answer_attempts", "answer_prompt_tokens", "answer_completion_tokens", "answer_cached_tokens",
    "answer_seconds", "answer_unit", "answer_raw",
)  # fmt: skip
UNREADABLE = ("answer_record", "answer_input")
SHOWN_CHARS = 1000
ROWS_AT_ONCE = 128  # of two thousand bytes they stay in a processor's cache
BYTES_AT_ONCE = 4 << 20  # of records, which are held several times while they are joined
_LENGTH = 3  # the column in which both kinds of row have their record's length
_STATUS = {
    State.PENDING: Status.PENDING, State.LEASED: Status.PENDING, State.DONE: Status.DONE, State.FAILED: Status.FAILED,
    State.QUARANTINED: Status.QUARANTINED,
}  # fmt: skip


class Selection(Struct, frozen=True):
    """Which items are written, and with what."""

    only: frozenset[Status] | None = None
    details: bool = False
    with_fields: bool = True  # false: the input is not what it was; rows carry id and answer fields alone


def write_output(reader: LedgerReader, places: RecordPlaces, path: Path, selection: Selection) -> int:
    """Write the output to `path`, atomically; returns the number of rows.

    Checks that every item of the ledger has come exactly once, in order. Raises OutputError, SpecError, InputBrokenError.
    """
    layout = _Layout(reader, selection)
    rows = _Rows(reader, places, layout, selection)
    columns = layout.columns() if path.suffix.lower() not in {".jsonl", ".ndjson"} else None
    sink = open_sink(path, columns, lambda: rows)
    try:
        is_plain = not selection.details and not layout.is_scored and layout.how is None
        if isinstance(sink, JsonlSink) and selection.with_fields and is_plain:
            seen = _Lines(reader, places, rows, selection).write(sink)
        else:
            for batch in rows.batches():
                sink.write(batch)
            seen = rows.seen
        if seen != layout.items:
            raise LedgerError(f"{path}: {layout.items} items, but {seen} rows came; nothing was written. This is a bug.")
        sink.close()
    except BaseException:
        sink.abort()
        raise
    return sink.rows


def output_rows(reader: LedgerReader, places: RecordPlaces, selection: Selection) -> Iterable[OutputRow]:
    """The rows that `write_output` would write."""
    return _Rows(reader, places, _Layout(reader, selection), selection)


def answer_names(reader: LedgerReader, selection: Selection) -> dict[str, str]:
    """Our fields in the output, under the names that they have there."""
    return _Layout(reader, selection).names


class _Layout:
    """Which fields of ours the output has, and what they are called there: decided once."""

    def __init__(self, reader: LedgerReader, selection: Selection) -> None:
        self.items, _ = reader.one("count_items")
        names: list[str] = reader.meta("reading", {}).get("names", []) if selection.with_fields else ["id"]
        (unreadable,) = reader.one("count_unreadable")
        self.is_scored = any(stored.content.get("answer", {}).get("method") == "score" for stored in reader.configs())
        self.how = join_of(reader)
        ours = (
            BASIC
            + (SCORED if self.is_scored else ())
            + (VOTED if self.how == "vote" else ())
            + (DETAILS if selection.details else ())
            + ((PIECES,) if selection.details and self.how is not None else ())
            + (UNREADABLE if unreadable else ())
        )
        self.input_names = names
        self.names = clash_free(names, ours)

    def columns(self) -> list[str]:
        return [*self.input_names, *self.names.values()]


class _Rows:
    """Output rows, made anew at each iteration; tables need two passes. `seen` counts the items of the last one."""

    def __init__(self, reader: LedgerReader, places: RecordPlaces, layout: _Layout, selection: Selection) -> None:
        self._reader = reader
        self._places = places
        self.names = layout.names
        self._how = layout.how
        self._selection = selection
        self._sends: dict[int, int] | None = None
        self.seen = 0

    def __iter__(self) -> Iterator[OutputRow]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[OutputRow]]:
        self.seen = 0
        only = self._selection.only
        if self._how is not None:
            yield from self._divided_batches(self._how)
            return
        for batch in _batches(self._reader.rows()):
            self.seen = _counted(batch, self.seen)
            chosen = batch if only is None else [row for row in batch if _status(row) in only]
            for part in _portions(chosen):
                yield list(map(self.row, part, self._raws(part)))

    def _divided_batches(self, how: str) -> Iterator[list[OutputRow]]:
        """Item by item, so that the pieces of no more than one are held."""
        only = self._selection.only
        for rows in self._reader.piece_rows():
            self.seen = _counted(rows[:1], self.seen)
            item = whole_item(rows, how, self._reader)
            if only is None or _status(item.row) in only:
                yield [self._divided_row(item)]

    def _divided_row(self, item: Whole) -> OutputRow:
        names = self.names
        made = self.row(item.row, self._raws([item.row])[0])
        if SHARE in names:
            made.answers[names[SHARE]], made.answers[names[TIED]] = item.share, item.tied
        if PIECES in names:
            made.answers[names["answer_attempts"]] = (
                sum(self._sent(row) or 0 for _, _, row in item.pieces) if item.pieces else None
            )
            made.answers[names[PIECES]] = item.details
        return OutputRow(made.raw, {name: made.answers[name] for name in names.values()}, made.answer_json)

    def _sent(self, row: StoredRow) -> int | None:
        """How often a row's unit was sent."""
        if self._sends is None:
            self._sends = dict(self._reader.all("count_sends_of_many"))
        return None if row.unit is None else self._sends.get(row.unit, 1 if row.seconds is not None else 0)

    def _raws(self, rows: list[StoredRow]) -> list[bytes]:
        if self._selection.with_fields:
            return self._places.fetch([(row.file, row.offset, row.length) for row in rows])
        return [b'{"id":%b}' % (row.id.encode() if row.id is not None else str(row.number).encode()) for row in rows]

    def row(self, row: StoredRow, raw: bytes) -> OutputRow:
        names = self.names
        state = row.state
        error = as_text(row.item_error if row.item_error is not None else row.unit_error)
        notes = row.item_notes | (row.notes or 0)
        answers: dict[str, Any] = {
            names["answer"]: None,
            names["answer_status"]: _status(row).value,
            names["answer_error"]: error,
            names["answer_notes"]: from_bits(notes) if notes else [],
        }
        if "answer_confidence" in names:
            answers[names["answer_confidence"]] = row.confidence if state == State.DONE else None
        if self._selection.details:
            self._add_details(row, answers)
        readable = row.readable or not self._selection.with_fields
        if "answer_record" in names:
            answers[names["answer_record"]] = None if row.readable else row.number
            answers[names["answer_input"]] = None if row.readable else _shown(raw)
        value = None
        if state == State.DONE:
            value = answer_json(row.answer, row.content)
        return OutputRow(raw if readable else None, answers, value)

    def _add_details(self, row: StoredRow, answers: dict[str, Any]) -> None:
        names = self.names
        sends = self._sent(row)
        settled = row.state in {State.DONE, State.QUARANTINED, State.FAILED}
        raw = as_text(row.content) if settled else None
        values = (
            row.model, sends, row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.seconds,
            row.hash.hex() if row.hash is not None else None, raw,
        )  # fmt: skip
        for name, value in zip(DETAILS, values, strict=True):
            answers[names[name]] = value


class _Lines:
    """The same rows as lines of JSON Lines, without details: joined from text that is encoded once for many rows."""

    def __init__(self, reader: LedgerReader, places: RecordPlaces, rows: _Rows, selection: Selection) -> None:
        self._reader = reader
        self._places = places
        self._rows = rows
        self._only = selection.only
        self._opening = encode(rows.names["answer"]) + b":"
        self._rest = _Rest(rows.names)

    def write(self, sink: JsonlSink) -> int:
        """Write them; returns how many items were seen."""
        seen = 0
        for batch in self._reader.short_rows(ROWS_AT_ONCE):
            seen = _counted(batch, seen)
            chosen = batch if self._only is None else [row for row in batch if _coded_status(row[4]) in self._only]
            for part in _portions(chosen):
                sink.splice(*self._texts(part))
        return seen

    def _texts(self, rows: list[ShortRow]) -> tuple[list[bytes | None], list[bytes]]:
        """Each row's record, and our fields of it without the braces."""
        opening, rest = self._opening, self._rest
        raws: list[bytes | None] = [*self._places.fetch([row[1:4] for row in rows])]
        answers = encoded_answers(
            [answer if answer is not None else written_out(content) for _, _, _, _, _, _, answer, content in rows]
        )
        fields = [
            opening + answer + (rest[code] if error is None else rest.with_error(code, error))
            for (_, _, _, _, code, error, _, _), answer in zip(rows, answers, strict=True)
        ]
        if "answer_record" in self._rows.names:
            for place, row in enumerate(rows):
                if row[4] < 0:
                    raws[place], fields[place] = None, self._unreadable(row[0], raws[place] or b"")
        return raws, fields

    def _unreadable(self, seq: int, raw: bytes) -> bytes:
        (row,) = self._reader.rows(seq, seq)
        return encode_answers(self._rows.row(row, raw))[1:-1]


class _Rest(dict[int, bytes]):
    """Our fields behind the answer as JSON text, by the row's code, for rows without an error."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, code: int) -> bytes:
        self[code] = text = self.with_error(code, None)
        return text

    def with_error(self, code: int, error: str | bytes | None) -> bytes:
        """The same for a row with this error, kept for no other."""
        names = self._names
        values = {
            names["answer_status"]: _coded_status(code).value,
            names["answer_error"]: as_text(error),
            names["answer_notes"]: from_bits(code >> 4),
        }
        for name in UNREADABLE:
            if name in names:
                values[names[name]] = None
        return b"," + encode(values)[1:-1]


def _coded_status(code: int) -> Status:
    known = code if code >= 0 else ~code
    return Status.REJECTED if known & 8 else _STATUS[State(known & 7)]


def _status(row: StoredRow) -> Status:
    if row.item_error is not None:
        return Status.REJECTED
    return Status.PENDING if row.state is None else _STATUS[State(row.state)]


def _shown(raw: bytes) -> str:
    return raw[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS]


def _counted(batch: Sequence[tuple[Any, ...]], seen: int) -> int:
    """How many items were seen after this batch. Raises LedgerError where one is left out or comes twice."""
    after = seen + len(batch)
    if [row[0] for row in batch] != list(range(seen, after)):
        missing = next(number for number, row in enumerate(batch, seen) if row[0] != number)
        raise LedgerError(f"item {missing} is missing from the ledger.")
    return after


def _portions(rows: list[R]) -> Iterator[list[R]]:
    """The rows in parts with at most `BYTES_AT_ONCE` of records, or one record."""
    if sum([row[_LENGTH] for row in rows]) <= BYTES_AT_ONCE:
        yield rows
        return
    part: list[R] = []
    held = 0
    for row in rows:
        if part and held + row[_LENGTH] > BYTES_AT_ONCE:
            yield part
            part, held = [], 0
        part.append(row)
        held += row[_LENGTH]
    yield part


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    batch: list[T] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
