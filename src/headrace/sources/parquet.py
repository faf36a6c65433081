"""Parquet files, by pyarrow, which is imported when the first one is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from headrace import canon
from headrace.errors import InputBrokenError, InputError
from headrace.sources.fingerprint import FileFingerprint
from headrace.sources.jsonl import KEPT_BYTES, too_large
from headrace.sources.names import Names
from headrace.sources.paths import cause, shown
from headrace.values import Record

_BATCH_BYTES = 2**21
_BATCH_ROWS = 4_096
_BUFFER_BYTES = 2**20


class ParquetTable:
    """Reads the records of one Parquet file, batch by batch. Numbers count rows. `headrace.sources.arrow` says how values map.

    A record with a value that has no JSON form (bytes above all) is unreadable; its reason names the column.
    """

    def __init__(self, fingerprint: FileFingerprint, names: Names, *, max_record: int) -> None:
        """Raises InputError: no pyarrow, no Parquet, no columns, a name twice."""
        self.done = False
        self._fingerprint = fingerprint
        self._path = fingerprint.path
        self._max_record = max_record
        self._arrow, self._errors, opened = _opened(fingerprint)
        self._file: Any = opened
        schema = self._file.schema_arrow
        self._columns: list[str] = schema.names
        twice = [name for name, count in Counter(self._columns).items() if count > 1]
        if twice or not self._columns:
            self._file.close()
            problem = f"has more than one column named {twice[0][:60]!r}" if twice else "has no columns"
            raise InputError(f"input {shown(self._path)}: {problem}")
        self._suspects = [index for index, kind in enumerate(schema.types) if self._arrow.may_be_unmapped(kind)]
        names.add(self._columns)
        self._rows_total: int = self._file.metadata.num_rows
        self._batches = self._batches_from(0)
        self._rows: list[Record] = []
        self._next = 0
        self._before = 0  # records before `_rows`

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them. Raises InputBrokenError when the records before are given."""
        if self._next >= len(self._rows) and not self._load():
            self.done = True
            return []
        start = self._next
        while self._next < len(self._rows) and self._next - start < limit and size > 0:
            size -= len(self._rows[self._next].raw)
            self._next += 1
        return self._rows[start : self._next]

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        return [self._before + self._next]

    def skip(self, mark: list[int]) -> None:
        """Go on after so many records; called before the first read. Row groups before them are not read."""
        count = mark[0]
        group = 0
        metadata = self._file.metadata
        while group < metadata.num_row_groups and self._before + metadata.row_group(group).num_rows <= count:
            self._before += metadata.row_group(group).num_rows
            group += 1
        self._batches = self._batches_from(group)
        while self._before + len(self._rows) < count and self._load():
            pass
        self._next = count - self._before

    def close(self) -> None:
        self._file.close()

    def _batches_from(self, group: int) -> Iterator[Any]:
        """The batches from a row group on, none over two groups: what stands before damage is still given."""
        metadata = self._file.metadata
        for each in range(group, metadata.num_row_groups):
            content, rows = metadata.row_group(each).total_byte_size, metadata.row_group(each).num_rows
            size = max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(content, 1)))
            yield from self._file.iter_batches(batch_size=size, row_groups=[each], use_threads=False)

    def _load(self) -> bool:
        """Replace the batch at hand by the next one; False at the end."""
        self._before += len(self._rows)
        self._rows = []
        self._next = 0
        try:
            batch = next(self._batches, None)
            if batch is None:
                return False
            columns = [self._arrow.values(column) for column in batch.columns]
        except self._errors as error:
            raise InputBrokenError(
                f"input {shown(self._path)}: its Parquet data break off after {self._before} records"
            ) from error
        first = self._before + 1
        self._rows = [self._record(first + index, row) for index, row in enumerate(zip(*columns, strict=True))]
        # The file is not read from front to back; the hash keeps pace with the records instead.
        share = (self._before + len(self._rows)) / max(self._rows_total, 1)
        self._fingerprint.advance(int(self._fingerprint.size * min(share, 1.0)))
        return True

    def _record(self, number: int, row: tuple[Any, ...]) -> Record:
        fields = dict(zip(self._columns, row, strict=True))
        for index in self._suspects:
            found = None if type(row[index]) is str else self._arrow.first_unmapped(row[index])
            if found is not None:
                readable = {name: None if self._arrow.first_unmapped(value) else value for name, value in fields.items()}
                reason = f"column {self._columns[index][:60]!r} {found.reason}"
                return Record(number, canon.encode(readable)[:KEPT_BYTES], None, reason)
        raw = canon.encode(fields)
        if len(raw) > self._max_record:
            return Record(number, raw[:KEPT_BYTES], None, too_large(len(raw), self._max_record))
        return Record(number, raw, fields)


def _opened(fingerprint: FileFingerprint) -> tuple[ModuleType, tuple[type[Exception], ...], Any]:
    """The mapping, what pyarrow raises, and the open file."""
    where = f"input {shown(fingerprint.path)}"
    try:
        import pyarrow as pa  # noqa: PLC0415 - 46 MB, and optional
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

        from headrace.sources import arrow  # noqa: PLC0415 - imports pyarrow
    except ImportError as error:
        raise InputError(f"{where}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        file = pq.ParquetFile(fingerprint.path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        file.schema_arrow.names  # noqa: B018 - decodes the names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{where}: not a Parquet file, or a damaged one") from error
    except OSError as error:
        raise InputError(f"{where}: cannot be read as Parquet: {cause(error)}") from error
    return arrow, (pa.ArrowException, OSError), file
