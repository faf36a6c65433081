"""CSV and TSV: rows framed by their quotes, cells as the exact text that stands there."""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any, NamedTuple

import orjson

from headrace.errors import InputBrokenError, InputError
from headrace.sources.blocks import BLOCK_BYTES, FileBytes, Text
from headrace.sources.framing import Lines, OpenPart
from headrace.sources.jsonl import KEPT_BYTES, too_large
from headrace.sources.names import Names
from headrace.sources.paths import shown
from headrace.values import Record

_QUOTE = 0x22
_LARGEST_FIELD_LIMIT = 2**31 - 1  # a C long everywhere
_NAMES_SHOWN = 5
_NAME_SHOWN = 60


class Row(NamedTuple):
    """A framed row: its cells, or the reason why there are none. `raw` are its bytes, of a large row the first 4,000."""

    cells: list[str]
    reason: str | None
    raw: bytes


class QuoteScan:
    """Follows quotes through the bytes of a row as the csv module does, to find where a row that is not kept ends."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode("ascii")
        self._state = self._at_start
        self._at = 0

    def feed(self, data: bytes | bytearray) -> None:
        self._at = 0
        while self._at < len(data):
            self._state = self._state(data)

    @property
    def open(self) -> bool:
        """Whether a line end here would be inside quotes."""
        return self._state == self._in_quotes

    # Each state looks at data[self._at], moves on and says the next state.

    def _at_start(self, data: bytes | bytearray) -> Any:
        byte = data[self._at]
        if byte == _QUOTE:
            self._at += 1
            return self._in_quotes
        return self._unquoted

    def _unquoted(self, data: bytes | bytearray) -> Any:
        return self._after(data, self._delimiter, self._at_start, self._unquoted)

    def _in_quotes(self, data: bytes | bytearray) -> Any:
        return self._after(data, b'"', self._after_quote, self._in_quotes)

    def _after_quote(self, data: bytes | bytearray) -> Any:
        if data[self._at] == _QUOTE:
            self._at += 1
            return self._in_quotes
        return self._unquoted

    def _after(self, data: bytes | bytearray, sought: bytes, found: Any, otherwise: Any) -> Any:
        place = data.find(sought, self._at)
        self._at = place + 1 if place >= 0 else len(data)
        return found if place >= 0 else otherwise


class _TooLargeError(Exception):
    """Thrown through the csv module, which then forgets the row that it was at."""


class _RowLines:
    """Feeds the csv module with lines and remembers those of the row at hand."""

    def __init__(self, lines: Lines, max_record: int) -> None:
        self._lines = lines
        self._max_record = max_record
        self._batch: list[bytes] = []
        self._next = 0
        self.row = bytearray()  # the line ends between its lines included
        self.last = b""  # the last line or part in it
        self.undecodable = False
        self._ended = False

    def at_end(self) -> bool:
        return self._ended

    def begin(self) -> None:
        self.row = bytearray()
        self.undecodable = False

    def part(self) -> bytes | None:
        """The next line or part of one, None at the end."""
        if self._next >= len(self._batch):
            self._batch = self._lines.next()
            self._next = 0
            if not self._batch:
                self._ended = True
                return None
        line = self._batch[self._next]
        self._next += 1
        return line

    def pass_unquoted(self) -> int:
        """Go over those of the lines at hand that hold no quote; how many bytes they are with their line ends."""
        size = 0
        batch = self._batch
        while self._next < len(batch) and b'"' not in batch[self._next] and type(batch[self._next]) is not OpenPart:
            size += len(batch[self._next]) + 1
            self._next += 1
        return size

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        line = self.part()
        if line is None:
            raise StopIteration
        row = self.row
        if row:
            row += b"\n"
        row += line
        self.last = line
        if len(row) > self._max_record and (type(line) is OpenPart or len(row) - line.endswith(b"\r") > self._max_record):
            raise _TooLargeError
        try:
            return line.decode() + "\n"
        except UnicodeDecodeError:
            self.undecodable = True
            return line.decode("utf-8", "surrogateescape") + "\n"


class Rows:
    """The rows of a CSV text. Blank lines are no rows."""

    def __init__(self, text: Text, delimiter: str, max_record: int, block_bytes: int = BLOCK_BYTES) -> None:
        self._delimiter = delimiter
        self._encoding = text.encoding.upper()
        self._max_record = max_record
        self._lines = _RowLines(Lines(text, max_record + 1, block_bytes), max_record)
        csv.field_size_limit(max(csv.field_size_limit(), min(max_record + 1, _LARGEST_FIELD_LIMIT)))
        self._reader = csv.reader(self._lines, delimiter=delimiter)

    def next(self) -> Row | None:
        """The next row, None at the end. Raises InputBrokenError."""
        lines = self._lines
        while not lines.at_end():
            lines.begin()
            try:
                cells = next(self._reader, None)
            except _TooLargeError:
                size, raw = self._skip()
                return Row([], too_large(size, self._max_record), raw)
            except csv.Error:
                return Row([], "a carriage return stands in a cell without quotes", self._skip()[1])
            if cells is None:
                return None
            if lines.at_end():
                return Row([], "a quoted cell begins here and its closing quote is missing", self._raw())
            if lines.undecodable:
                return Row([], f"bytes that are not {self._encoding}", self._raw())
            if cells:
                return Row(cells, None, self._raw())
        return None

    def _raw(self) -> bytes:
        return bytes(self._lines.row).removesuffix(b"\r")

    def _skip(self) -> tuple[int, bytes]:
        """Go behind the row at hand, holding none of it; its size and first bytes."""
        lines = self._lines
        scan = QuoteScan(self._delimiter)
        part: bytes | None = lines.last
        size = len(lines.row)
        head = bytes(lines.row[:KEPT_BYTES])
        scan.feed(lines.row[: size - len(lines.last)])
        lines.begin()
        while part is not None:
            scan.feed(part)
            if type(part) is not OpenPart:
                if not scan.open:
                    return size - part.endswith(b"\r"), head
                size += 1 + lines.pass_unquoted()  # the line end is content here
            part = lines.part()
            size += len(part or b"")
        return size, head


class Table:
    """Reads the records of one CSV or TSV file: string fields named by the header. Numbers count rows, the header excluded."""

    def __init__(self, base: FileBytes, rows: Rows, names: Names) -> None:
        """Reads the header. Raises InputError where it cannot be used."""
        self.done = False
        self._base = base
        self._rows = rows
        self._number = 0
        self._broken: InputBrokenError | None = None
        self._header = _header(rows.next(), base)
        names.add(self._header)

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them. Raises InputBrokenError when the records before are given."""
        if self._broken is not None:
            raise self._broken
        records: list[Record] = []
        width = len(self._header)
        while len(records) < limit and size > 0:
            try:
                row = self._rows.next()
            except InputBrokenError as error:
                if not records:
                    raise
                self._broken = error
                break
            if row is None:
                self.done = True
                break
            self._number += 1
            cells, reason, raw = row
            size -= len(raw)
            if reason is None and len(cells) != width:
                reason = f"{len(cells)} cells where the header has {width}"
            if reason is not None:
                records.append(Record(self._number, raw, None, reason))
                continue
            fields = dict(zip(self._header, cells, strict=True))
            records.append(Record(self._number, orjson.dumps(fields), fields))
        return records

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        return [self._number]

    def skip(self, mark: list[int]) -> None:
        """Go on after so many records; called before the first read."""
        while self._number < mark[0] and self._rows.next() is not None:
            self._number += 1

    def close(self) -> None:
        self._base.close()


def _header(row: Row | None, base: FileBytes) -> list[str]:
    where = f"input {shown(base.path)}"
    if row is None:
        raise InputError(f"{where}: has no header line; the first line names the fields")
    if row.reason is not None:
        raise InputError(f"{where}: its header cannot be read: {row.reason}")
    if "" in row.cells:
        raise InputError(f"{where}: column {row.cells.index('') + 1} of its header has no name; found {_listed(row.cells)}")
    twice = [name for name, count in Counter(row.cells).items() if count > 1]
    if twice:
        raise InputError(f"{where}: its header names {_listed(twice)} more than once")
    return row.cells


def _listed(names: list[str]) -> str:
    """Names for a message, escaped and not too many."""
    listed = ", ".join(repr(name if len(name) <= _NAME_SHOWN else name[:_NAME_SHOWN] + "…") for name in names[:_NAMES_SHOWN])
    return listed + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "")
