"""JSON files: the elements of one array, or one object that is a record by itself."""

from __future__ import annotations

from headrace.errors import InputBrokenError, RecordError
from headrace.sources.blocks import BLOCK_BYTES, FileBytes, Text
from headrace.sources.brackets import nests
from headrace.sources.elements import Element, Elements
from headrace.sources.jsonl import KEPT_BYTES, too_large, unreadable
from headrace.sources.layout import Layout
from headrace.sources.names import Names
from headrace.sources.paths import shown
from headrace.sources.records import parse
from headrace.values import Record

_WHITE = b" \t\r\n"


class JsonArray:
    """Reads the elements of a file's array as records, each with the bytes that stand there. Numbers count elements."""

    def __init__(
        self,
        base: FileBytes,
        text: Text,
        layout: Layout,
        names: Names,
        *,
        max_record: int,
        packed: bool,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.done = False
        self._base = base
        self._text = text
        self._names = names
        self._max_record = max_record
        self._packed = packed or text.encoding != "utf-8"
        self._framed = Elements(text, max_record, base.path, start=layout.start, key=layout.key, block_bytes=block_bytes)
        self._elements: list[Element] = []
        self._next = 0
        self._number = 0
        self._offset = 0
        self._broken: InputBrokenError | None = None

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them. Raises InputBrokenError when the records before are given."""
        if self._broken is not None:
            raise self._broken
        if self._next >= len(self._elements) and not self._load():
            return []
        records: list[Record] = []
        end = min(len(self._elements), self._next + limit)
        while self._next < end and size > 0:
            raw, length, behind = self._elements[self._next]
            record = _record(self._number + 1, raw, length, self._max_record, self._text.encoding, self._names)
            if record.fields is None and length == len(raw) and raw[:1] in {b"{", b"["} and not nests(raw):
                self._broken = InputBrokenError(
                    f"input {shown(self._base.path)}: the brackets of record {record.number}, which begins at byte "
                    f"{behind - length:,}, do not match: where it ends cannot be told"
                )
                break
            records.append(record)
            self._next += 1
            self._number += 1
            self._offset = behind
            size -= len(raw)
        if self._broken is not None and not records:
            raise self._broken
        return records

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        """How many elements were read, and the offset behind the last one in the text."""
        return [self._number, self._offset]

    def skip(self, mark: list[int]) -> None:
        """Go on at a mark; called before the first read."""
        number, offset = mark
        if self._packed:
            while self._number < number and self._load():
                self._next = min(len(self._elements), number - self._number)
                self._number += self._next
            self._offset = offset
        elif number:
            self._base.seek(self._text.bom + offset)
            self._text.drop_head()
            self._framed.go_on(number, offset)
            self._number, self._offset = number, offset

    def close(self) -> None:
        self._base.close()

    def _load(self) -> bool:
        """Replace the elements at hand by the next ones; False at the end."""
        self._elements = self._framed.next()
        self._next = 0
        self.done = not self._elements
        return not self.done


class JsonDocument:
    """Reads a file that holds one record, whatever its brackets say."""

    def __init__(self, base: FileBytes, text: Text, names: Names, *, max_record: int, block_bytes: int = BLOCK_BYTES) -> None:
        self.done = False
        self._base = base
        self._text = text
        self._names = names
        self._max_record = max_record
        self._block_bytes = block_bytes

    def read(self, limit: int, size: int) -> list[Record]:  # noqa: ARG002 - one record is the least that can be given
        """The record. Raises InputBrokenError."""
        if self.done:
            return []
        parts: list[bytes] = []
        length = 0
        while block := self._text.read(self._block_bytes):
            block = block if parts else block.lstrip(_WHITE)
            if length <= self._max_record and block:
                parts.append(block)
            length += len(block)
        raw = b"".join(parts)
        if length == len(raw):
            raw = raw.rstrip(_WHITE)
            length = len(raw)
        self.done = True
        return [_record(1, raw, length, self._max_record, self._text.encoding, self._names)]

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        return [int(self.done)]

    def skip(self, mark: list[int]) -> None:
        self.done = bool(mark[0])

    def close(self) -> None:
        self._base.close()


def _record(number: int, raw: bytes, length: int, max_record: int, encoding: str, names: Names) -> Record:
    if length > max_record:
        return Record(number, raw[:KEPT_BYTES], None, too_large(length, max_record))
    try:
        fields = parse(raw)
    except RecordError as error:
        if not raw:
            return Record(number, raw, None, "nothing stands between two commas")
        return Record(number, raw, None, unreadable(error, encoding))
    names.see(fields)
    return Record(number, raw, fields)
