"""The output: one row per item, in input order, joined from the ledger and the records; and the check that none is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from msgspec import Struct

from headrace import canon
from headrace.errors import LedgerError
from headrace.ledger.notes import from_bits
from headrace.ledger.reader import LedgerReader, StoredRow, as_text
from headrace.sinks.open import open_sink
from headrace.sinks.row import OutputRow, clash_free
from headrace.sources.records import RecordPlaces
from headrace.values import State, Status

T = TypeVar("T")
BASIC = ("answer", "answer_status", "answer_error", "answer_notes")
DETAILS = (
    "answer_model", "answer_attempts", "answer_prompt_tokens", "answer_completion_tokens", "answer_cached_tokens",
    "answer_seconds", "answer_unit", "answer_raw",
)  # fmt: skip
UNREADABLE = ("answer_record", "answer_input")
SHOWN_CHARS = 1000
ROWS_AT_ONCE = 500
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
        for batch in _batches(rows):
            sink.write(batch)
        if rows.seen != layout.items:
            raise LedgerError(f"{path}: {layout.items} items, but {rows.seen} rows came; nothing was written. This is a bug.")
        sink.close()
    except BaseException:
        sink.abort()
        raise
    return sink.rows


def output_rows(reader: LedgerReader, places: RecordPlaces, selection: Selection) -> Iterable[OutputRow]:
    """The rows that `write_output` would write."""
    return _Rows(reader, places, _Layout(reader, selection), selection)


class _Layout:
    """Which fields of ours the output has, and what they are called there: decided once."""

    def __init__(self, reader: LedgerReader, selection: Selection) -> None:
        self.items, _ = reader.one("count_items")
        names: list[str] = reader.meta("reading", {}).get("names", []) if selection.with_fields else ["id"]
        (unreadable,) = reader.one("count_unreadable")
        ours = BASIC + (DETAILS if selection.details else ()) + (UNREADABLE if unreadable else ())
        self.input_names = names
        self.names = clash_free(names, ours)

    def columns(self) -> list[str]:
        return [*self.input_names, *self.names.values()]


class _Rows:
    """Output rows, made anew at each iteration; tables need two passes. `seen` counts the items of the last one."""

    def __init__(self, reader: LedgerReader, places: RecordPlaces, layout: _Layout, selection: Selection) -> None:
        self._reader = reader
        self._places = places
        self._names = layout.names
        self._selection = selection
        self._sends: dict[int, int] | None = None
        self.seen = 0

    def __iter__(self) -> Iterator[OutputRow]:
        self.seen = 0
        only = self._selection.only
        for batch in _batches(self._reader.rows()):
            for row in batch:
                if row.seq != self.seen:
                    raise LedgerError(f"item {self.seen} is missing from the ledger.")
                self.seen += 1
            chosen = batch if only is None else [row for row in batch if _status(row) in only]
            yield from map(self._row, chosen, self._raws(chosen))

    def _raws(self, rows: list[StoredRow]) -> list[bytes]:
        if self._selection.with_fields:
            return self._places.fetch([(row.file, row.offset, row.length) for row in rows])
        return [b'{"id":%b}' % (row.id.encode() if row.id is not None else str(row.number).encode()) for row in rows]

    def _row(self, row: StoredRow, raw: bytes) -> OutputRow:
        names = self._names
        state = row.state
        error = as_text(row.item_error if row.item_error is not None else row.unit_error)
        notes = row.item_notes | (row.notes or 0)
        answers: dict[str, Any] = {
            names["answer"]: None,
            names["answer_status"]: _status(row).value,
            names["answer_error"]: error,
            names["answer_notes"]: from_bits(notes) if notes else [],
        }
        if self._selection.details:
            self._add_details(row, answers)
        readable = row.readable or not self._selection.with_fields
        if "answer_record" in names:
            answers[names["answer_record"]] = None if row.readable else row.number
            answers[names["answer_input"]] = None if row.readable else _shown(raw)
        value = None
        if state == State.DONE:
            value = _answer_json(row)
        return OutputRow(raw if readable else None, answers, value)

    def _add_details(self, row: StoredRow, answers: dict[str, Any]) -> None:
        names = self._names
        if self._sends is None:
            self._sends = dict(self._reader.all("count_sends_of_many"))
        sends = None if row.unit is None else self._sends.get(row.unit, 1 if row.seconds is not None else 0)
        settled = row.state in {State.DONE, State.QUARANTINED, State.FAILED}
        raw = as_text(row.content) if settled else None
        values = (
            row.model, sends, row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.seconds,
            row.hash.hex() if row.hash is not None else None, raw,
        )  # fmt: skip
        for name, value in zip(DETAILS, values, strict=True):
            answers[names[name]] = value


def _status(row: StoredRow) -> Status:
    if row.item_error is not None:
        return Status.REJECTED
    return Status.PENDING if row.state is None else _STATUS[State(row.state)]


def _answer_json(row: StoredRow) -> bytes:
    """The answer's JSON text; an answer that is the content itself is stored once, as content."""
    if row.answer is not None:
        return row.answer if isinstance(row.answer, bytes) else row.answer.encode()
    try:
        return orjson.dumps(row.content) if isinstance(row.content, str) else canon.encode(as_text(row.content))
    except orjson.JSONEncodeError:
        return canon.encode(row.content)


def _shown(raw: bytes) -> str:
    return raw[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS]


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    batch: list[T] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
