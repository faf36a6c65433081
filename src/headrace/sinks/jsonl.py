"""JSON Lines: each input record as it was, with our fields spliced in before its closing brace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.protocols import Row
from headrace.sinks.durable import ReplacedFile
from headrace.sinks.encoding import encode_answers, one_line

_WHITE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_OPEN, _CLOSE, _SPACE = b"{} "
_LF, _CR = b"\n\r"


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

    def splice(self, raws: Sequence[bytes | None], fields: Sequence[bytes]) -> None:
        """Write rows whose fields of ours are JSON text already: as `encode_answers` makes it, without its braces."""
        self._file.write(_joined(raws, fields))
        self._rows += len(raws)

    def close(self) -> None:
        self._file.commit()

    def abort(self) -> None:
        self._file.discard()


def line(row: Row) -> bytes:
    """The row's line with its end. A `raw` that is no JSON object counts as none."""
    return _spliced(row.raw, encode_answers(row)[1:-1])


def _joined(raws: Sequence[bytes | None], fields: Sequence[bytes]) -> bytes:
    parts: list[bytes] = []
    for raw, ours in zip(raws, fields, strict=True):
        # The common form: an object of at least one field, on one line, with its closing brace directly behind it.
        if (
            raw and ours and raw[0] == _OPEN and raw[-1] == _CLOSE and raw[-2] > _SPACE and raw[-2] != _OPEN
            and _LF not in raw and _CR not in raw
        ):  # fmt: skip
            parts += (raw[:-1], b",", ours, b"}\n")
        else:
            parts.append(_spliced(raw, ours))
    return b"".join(parts)


def _spliced(raw: bytes | None, ours: bytes) -> bytes:
    alone = b"{" + ours + b"}\n"
    if raw is None:
        return alone
    raw = one_line(raw)
    if not _is_object(raw):
        raw = raw.removeprefix(_BOM).strip(_WHITE)
        if not _is_object(raw):
            return alone
    if not ours:
        return raw + b"\n"
    head = raw[:-1].rstrip(_WHITE)
    if head == b"{":
        return alone
    return b"".join((head, b",", ours, b"}\n"))


def _is_object(raw: bytes) -> bool:
    return len(raw) > 1 and raw[0] == _OPEN and raw[-1] == _CLOSE
