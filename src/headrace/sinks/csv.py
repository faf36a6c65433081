"""CSV as RFC 4180 quotes it, in UTF-8 without a BOM, with one line feed after each record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import OutputError
from headrace.protocols import Row
from headrace.sinks.cells import cells, text
from headrace.sinks.durable import ReplacedFile
from headrace.sinks.encoding import readable

_SPECIAL = re.compile('[",\r\n\ufeff]')  # the last only matters at the start of a file, where it would be taken for a BOM


class CsvSink:
    """One record per row under a header of `columns`, which hold for the whole file; fields without a column are left out.

    Strings stand as they are, numbers as the exact token of the input, truth values as true and false, null and absent
    values as an empty cell, anything else as JSON text. Cells that a spreadsheet would run as a formula are not altered:
    this is data, and changed data could not be joined again.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._file = ReplacedFile(path)
        self._columns = [readable(name) for name in columns]
        self._rows = 0
        try:
            self._file.write(_record(self._columns))
        except OutputError:
            self._file.discard()
            raise

    @property
    def rows(self) -> int:
        """Rows written so far, without the header."""
        return self._rows

    def write(self, rows: Sequence[Row]) -> None:
        self._file.write(b"".join([self._line(row) for row in rows]))
        self._rows += len(rows)

    def close(self) -> None:
        self._file.commit()

    def abort(self) -> None:
        self._file.discard()

    def _line(self, row: Row) -> bytes:
        found = cells(row)
        return _record([text(found.get(name)) for name in self._columns])


def _record(values: Sequence[str | None]) -> bytes:
    return (",".join([_quoted(value) for value in values]) + "\n").encode("utf-8")


def _quoted(value: str | None) -> str:
    if value is None:
        return ""
    if _SPECIAL.search(value) is None:
        return value
    return '"' + value.replace('"', '""') + '"'
