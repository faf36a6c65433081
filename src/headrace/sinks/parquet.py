"""Parquet: one schema for the whole file, declared before the first row; row groups of bounded size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import OutputError, SpecError
from headrace.protocols import Row
from headrace.sinks.cells import cells, strings, text
from headrace.sinks.columns import ColumnType
from headrace.sinks.durable import ReplacedFile, mapped
from headrace.sinks.encoding import readable

ROW_GROUP_ROWS = 10_000
ROW_GROUP_BYTES = 2 << 20  # of JSON text; as Python strings and Arrow arrays it takes several times as much


class ParquetSink:
    """Columns of the types given, the same in every row group; fields without a column are left out.

    The types come from `infer` over the same rows. A value that does not fit its column after all raises OutputError: the
    rows are then not those that were inferred from. A lone surrogate is written as its escape. Raises SpecError without
    pyarrow.
    """

    def __init__(self, path: Path, types: Mapping[str, ColumnType], row_group_rows: int = ROW_GROUP_ROWS) -> None:
        self._arrow, parquet = _pyarrow()
        self._types = {readable(name): kind for name, kind in types.items()}
        self._row_group_rows = row_group_rows
        self._schema = self._arrow.schema([(name, self._arrow_type(kind)) for name, kind in self._types.items()])
        self._clear()
        self._rows = 0
        self._file = ReplacedFile(path)
        try:
            with mapped(path):
                self._writer = parquet.ParquetWriter(self._file.handle, self._schema, compression="zstd")
        except OutputError:
            self._file.discard()
            raise

    @property
    def rows(self) -> int:
        """Rows taken so far."""
        return self._rows

    def write(self, rows: Sequence[Row]) -> None:
        if not self._writer.is_open:
            raise OutputError(f"cannot write {self._file.path}: it is closed")
        for row in rows:
            self._add(row)
            if self._held >= self._row_group_rows or self._held_bytes >= ROW_GROUP_BYTES:
                self._flush()

    def close(self) -> None:
        if self._writer.is_open:
            if self._held:
                self._flush()
            with mapped(self._file.path):
                self._writer.close()
        self._file.commit()

    def abort(self) -> None:
        self._clear()
        if self._writer.is_open:
            with contextlib.suppress(
                OSError, self._arrow.ArrowException
            ):  # it writes its footer; what it thinks of a full disk no longer matters
                self._writer.close()
            self._writer.is_open = False
        self._file.discard()

    def _add(self, row: Row) -> None:
        found = cells(row)
        for name, convert, column in self._buffers:
            cell = found.get(name)
            if cell is None or cell == b"null":
                column.append(None)
                continue
            try:
                column.append(convert(cell))
            except (ValueError, KeyError):
                raise self._misfit(name) from None
            self._held_bytes += len(cell)
        self._held += 1
        self._rows += 1

    def _flush(self) -> None:
        arrays = []
        for field, (name, _, column) in zip(self._schema, self._buffers, strict=True):
            try:
                arrays.append(self._arrow.array(column, field.type))
            except (self._arrow.ArrowException, OverflowError):
                raise self._misfit(name) from None
        with mapped(self._file.path):
            self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        self._clear()

    def _clear(self) -> None:
        self._buffers: list[tuple[str, Callable[[bytes], Any], list[Any]]] = [
            (name, _CONVERSIONS[kind], []) for name, kind in self._types.items()
        ]
        self._held = 0
        self._held_bytes = 0

    def _misfit(self, name: str) -> OutputError:
        return OutputError(
            f"cannot write {self._file.path}: column {name!r} holds {self._types[name].value} and then something else; "
            "the records changed while they were written, export again"
        )

    def _arrow_type(self, kind: ColumnType) -> Any:
        arrow = self._arrow
        return {
            ColumnType.TRUTH: arrow.bool_(),
            ColumnType.INT64: arrow.int64(),
            ColumnType.DOUBLE: arrow.float64(),
            ColumnType.STRING: arrow.string(),
            ColumnType.STRINGS: arrow.list_(arrow.string()),
        }[kind]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - 46 MB, loaded only by those who write Parquet
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above
    except ImportError:
        raise SpecError("writing .parquet needs pyarrow: pip install pyarrow", key="output.path", allowed=".jsonl .csv") from None
    return pa, pq


def _truth(cell: bytes) -> bool:
    return {b"true": True, b"false": False}[cell]


def _strings(cell: bytes) -> list[str | None]:
    value = strings(cell)
    if value is None:
        raise ValueError("no list of strings")
    return value


_CONVERSIONS: dict[ColumnType, Callable[[bytes], Any]] = {
    ColumnType.TRUTH: _truth,
    ColumnType.INT64: int,
    ColumnType.DOUBLE: float,
    ColumnType.STRING: text,
    ColumnType.STRINGS: _strings,
}
