"""Line files: one JSON object a line."""

from __future__ import annotations

from typing import Any

from headrace.errors import RecordError
from headrace.sources.blocks import BLOCK_BYTES, FileBytes, Text
from headrace.sources.framing import Lines, OpenPart
from headrace.sources.names import Names
from headrace.sources.records import parse
from headrace.values import Record

KEPT_BYTES = 4_000  # of a record that is too large


def too_large(size: int, limit: int) -> str:
    return f"too large: {size:,} bytes; input.max_record is {limit:,}"


def unreadable(error: RecordError, encoding: str) -> str:
    """Why a record cannot be read, where its text was brought to UTF-8 from another encoding."""
    text = str(error)
    if encoding != "utf-8" and text.startswith("not UTF-8"):
        return f"holds code units that are not {encoding.upper()}"
    return text


class JsonLines:
    """Reads the records of one line file. `file` is its index where its records stay in place, else 0.

    `number` is the physical line; blank lines are counted and skipped. What cannot be read is a record with a reason.
    """

    def __init__(
        self, base: FileBytes, text: Text, names: Names, *, file: int, max_record: int, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.done = False
        self._base = base
        self._text = text
        self._names = names
        self._file = file
        self._max_record = max_record
        self._number = 0
        self._offset = text.bom
        self._lines: list[bytes] = []
        self._next = 0
        self._framed = Lines(text, max_record + 1, block_bytes)
        self._head = b""  # of a line that is too large, while its end is not reached
        self._size = 0
        self._ends_in_cr = False

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them; none while `done` is False means: ask again."""
        if self._next >= len(self._lines):
            self._lines = self._framed.next()
            self._next = 0
            self.done = not self._lines
        records: list[Record] = []
        number, offset, file, in_place = self._number, self._offset, self._file, self._file > 0
        longest, see, index = self._max_record, self._names.see, self._next
        end = min(len(self._lines), index + limit)
        while index < end and size > 0:
            line = self._lines[index]
            index += 1
            length = len(line)
            size -= length
            reason: str | None = None
            if length > longest or self._size:
                self._pass_part(line)
                if type(line) is OpenPart:
                    continue
                length, reason = self._end_of_long()
            if reason is not None:
                line, fields = self._head, None
            else:
                if line.endswith(b"\r"):
                    line = line[:-1]
                reason, fields = self._parsed(line)
            start = offset if in_place else -1
            number += 1
            offset += length + 1
            if fields is not None:
                see(fields)
            elif reason is None:
                continue
            records.append(Record(number, line, fields, reason, file, start))
        self._next, self._number, self._offset = index, number, offset
        return records

    @property
    def in_place(self) -> bool:
        return self._file > 0

    def mark(self) -> list[int]:
        """Where the next record begins: lines and, in place, bytes before it."""
        return [self._number, self._offset]

    def skip(self, mark: list[int]) -> None:
        """Go on at a mark; called before the first read."""
        number, offset = mark
        if self._file:
            self._base.seek(offset)
            self._text.drop_head()
        else:
            self._pass_lines(number)
        self._number, self._offset = number, offset

    def close(self) -> None:
        self._base.close()

    def _pass_lines(self, count: int) -> None:
        while count:
            self._lines = self._framed.next()
            self._next = 0
            if not self._lines:
                return
            if len(self._lines) <= count and OpenPart not in map(type, self._lines):
                count -= len(self._lines)
                self._next = len(self._lines)
                continue
            while count and self._next < len(self._lines):
                count -= type(self._lines[self._next]) is not OpenPart
                self._next += 1

    def _parsed(self, line: bytes) -> tuple[str | None, dict[str, Any] | None]:
        """(None, fields), (reason, None), or (None, None) for a blank line."""
        try:
            return None, parse(line)
        except RecordError as error:
            return (unreadable(error, self._text.encoding), None) if line.strip() else (None, None)

    def _pass_part(self, part: bytes) -> None:
        if not self._size:
            self._head = b""
            self._ends_in_cr = False
        self._head += part[: KEPT_BYTES - len(self._head)]
        self._size += len(part)
        if part:
            self._ends_in_cr = part.endswith(b"\r")

    def _end_of_long(self) -> tuple[int, str | None]:
        """A long line's bytes, and why it is not read (None: only its 0x0D was too much). `_head` is what is kept of it."""
        span, self._size = self._size, 0
        size = span - self._ends_in_cr
        self._head = self._head[:size]
        return span, too_large(size, self._max_record) if size > self._max_record else None
