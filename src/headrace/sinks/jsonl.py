"""JSON Lines: each input record as it was, with our fields spliced in before its closing brace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.protocols import Row
from headrace.sinks.durable import ReplacedFile
from headrace.sinks.encoding import encode_answers, one_line

_WHITE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_OPEN, _CLOSE = b"{}"


class JsonlSink:
    """One line per row, ended by one line feed. The input's part is its own bytes: numbers, key order, escapes, duplicates.

    Our part is escaped so that U+2028 and U+2029 stand nowhere in it; in the input's part they stay as they came.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReplacedFile(path)
        self._rows = 0

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._rows

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(b"".join([line(row) for row in rows]))
        self._rows += len(rows)

    def close(self) -> None:
        self._file.commit()

    def abort(self) -> None:
        self._file.discard()


def line(row: Row) -> bytes:
    """The row's line with its end. A `raw` that is no JSON object counts as none."""
    tail = encode_answers(row)
    raw = row.raw
    if raw is None:
        return tail + b"\n"
    raw = one_line(raw)
    if not _is_object(raw):
        raw = raw.removeprefix(_BOM).strip(_WHITE)
        if not _is_object(raw):
            return tail + b"\n"
    if tail == b"{}":
        return raw + b"\n"
    head = raw[:-1].rstrip(_WHITE)
    if head == b"{":
        return tail + b"\n"
    return b"".join((head, b",", tail[1:], b"\n"))


def _is_object(raw: bytes) -> bool:
    return len(raw) > 1 and raw[0] == _OPEN and raw[-1] == _CLOSE
