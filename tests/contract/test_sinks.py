"""Every sink against the one contract."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.protocols import Row, Sink
from headrace.sinks.columns import infer
from headrace.sinks.open import open_sink
from headrace.sinks.parquet import ParquetSink
from headrace.testing.contracts.sink import SinkContract, answer, compact, row, utf8


class TestJsonl(SinkContract):
    suffix = ".jsonl"

    def open(self, path: Path, rows: Sequence[Row]) -> Sink:
        return open_sink(path)

    def read(self, path: Path) -> list[dict[str, Any]]:
        lines = path.read_bytes().split(b"\n")
        assert lines.pop() == b""
        return [json.loads(line.decode("utf-8")) for line in lines]

    def shown(self, value: Any, *, uniform: bool = True) -> Any:
        return value


class TestCsv(SinkContract):
    suffix = ".csv"

    def open(self, path: Path, rows: Sequence[Row]) -> Sink:
        return open_sink(path, None, lambda: rows)

    def read(self, path: Path) -> list[dict[str, Any]]:
        csv.field_size_limit(1 << 30)
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, strict=True))

    def shown(self, value: Any, *, uniform: bool = True) -> Any:
        if value is None:
            return ""
        return utf8([value])[0] if isinstance(value, str) else compact(value)


class TestParquet(SinkContract):
    suffix = ".parquet"

    def open(self, path: Path, rows: Sequence[Row]) -> Sink:
        return ParquetSink(path, infer(rows), row_group_rows=50)

    def read(self, path: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found

    def shown(self, value: Any, *, uniform: bool = True) -> Any:
        if isinstance(value, str):
            return utf8([value])[0]
        return value if uniform or value is None else compact(value)

    def test_OUT_05_every_row_group_has_the_one_schema(self, tmp_path: Path) -> None:  # noqa: N802 - a case's id
        rows = [row({"n": n}, answer(None if n < 100 else {"k" * (n % 5): n})) for n in range(200)]
        path = tmp_path / "out.parquet"
        self.written(path, rows)
        file = pq.ParquetFile(path)
        assert file.num_row_groups == 4
        schemas = [file.read_row_group(n).schema for n in range(4)]
        assert all(schema == schemas[0] for schema in schemas)
        assert str(schemas[0].field("answer").type) == "string"
