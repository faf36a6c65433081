"""The sink for a path, chosen by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headrace.errors import SpecError
from headrace.protocols import Row
from headrace.sinks.columns import MOST_COLUMNS, ColumnType, default_type, infer, too_many_columns
from headrace.sinks.csv import CsvSink
from headrace.sinks.jsonl import JsonlSink
from headrace.sinks.parquet import ParquetSink

SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet")


def check_suffix(path: Path) -> str:
    """The path's suffix in lower case. Raises SpecError where no sink writes such a file."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        allowed = " ".join(SUFFIXES)
        raise SpecError(
            f"output.path: cannot write {path.name!r}: its ending must be one of {allowed}",
            key="output.path",
            found=suffix or path.name,
            allowed=allowed,
        )
    return suffix


def open_sink(
    path: Path,
    columns: Sequence[str] | None = None,
    infer_from: Callable[[], Iterable[Row]] | None = None,
) -> JsonlSink | CsvSink | ParquetSink:
    """Open the output for writing; the path itself is touched only when the sink is closed.

    `columns` are all columns of a table in order, input fields and ours, under their final names; JSON Lines needs none.
    `infer_from` gives the same rows that will be written, for one earlier pass: it finds the columns where `columns` is
    None, and the column types for Parquet (without it every column there is text, our notes a list). Raises SpecError for an
    unknown suffix or a missing pyarrow, OutputError where the path cannot be written or has too many columns.
    """
    suffix = check_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        return JsonlSink(path)
    if columns is None and infer_from is None:
        raise ValueError("a table needs its columns, or the rows to find them in")
    if columns is not None and len(columns) > MOST_COLUMNS:
        raise too_many_columns(len(columns))
    if suffix == ".csv":
        return CsvSink(path, columns if columns is not None else list(_inferred(infer_from)))
    types = _inferred(infer_from)
    if columns is not None:
        types = {name: types.get(name, default_type(name)) for name in columns}
    return ParquetSink(path, types)


def _inferred(infer_from: Callable[[], Iterable[Row]] | None) -> dict[str, ColumnType]:
    return {} if infer_from is None else infer(infer_from())
