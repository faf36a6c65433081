"""Which sink a path gets, and what is refused before the first row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.errors import OutputError, SpecError
from headrace.sinks.columns import ColumnType
from headrace.sinks.csv import CsvSink
from headrace.sinks.jsonl import JsonlSink
from headrace.sinks.open import open_sink
from headrace.sinks.parquet import ParquetSink
from headrace.sinks.row import OutputRow


@pytest.mark.parametrize("name", ["out.txt", "out.json", "out", "out.jsonl.gz", "out.tsv", ".jsonl"])
def test_another_ending_is_refused_with_those_that_are_served(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match=r"\.jsonl \.ndjson \.csv \.parquet") as caught:
        open_sink(tmp_path / name)
    assert caught.value.key == "output.path"
    assert list(tmp_path.iterdir()) == []


def test_the_ending_decides_whatever_its_case(tmp_path: Path) -> None:
    rows = [OutputRow(b'{"a":1}', {"answer": None})]
    for name, kind in {"a.JSONL": JsonlSink, "a.ndjson": JsonlSink, "a.Csv": CsvSink, "a.parquet": ParquetSink}.items():
        sink = open_sink(tmp_path / name, None, lambda: rows)
        assert isinstance(sink, kind)
        sink.write(rows)
        assert sink.rows == 1
        sink.abort()


def test_a_table_without_columns_or_rows_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs its columns"):
        open_sink(tmp_path / "out.csv")


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a table holds 10,000"):
        open_sink(tmp_path / "out.csv", [f"c{n}" for n in range(10_001)])
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow_names_the_line_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecError, match=r"pip install pyarrow"):
        open_sink(tmp_path / "out.parquet", ["a"])
    assert list(tmp_path.iterdir()) == []


def test_given_columns_hold_in_their_order_and_others_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    sink = open_sink(path, ["b", "answer", "a", "absent"])
    sink.write([OutputRow(b'{"a":1.0,"b":"x,y","c":3}', {"answer": True})])
    sink.close()
    assert path.read_bytes() == b'b,answer,a,absent\n"x,y",true,1.0,\n'


def test_csv_is_quoted_as_rfc_4180_says(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    sink = open_sink(path, ["\ufeffa", "answer"])
    sink.write([OutputRow(None, {"answer": text}) for text in ('q"q', "a\rb", "a\nb", " x ", "=1+1")])
    sink.close()
    assert path.read_bytes() == '"\ufeffa",answer\n,"q""q"\n,"a\rb"\n,"a\nb"\n, x \n,=1+1\n'.encode()


def test_parquet_columns_without_a_known_type_are_text(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "out.parquet"
    sink = open_sink(path, ["a", "answer_notes"])
    sink.write([OutputRow(b'{"a":1.0}', {"answer_notes": ["x"]}), OutputRow(b'{"a":{}}', {"answer_notes": []})])
    sink.close()
    assert pq.read_table(path).to_pylist() == [{"a": "1.0", "answer_notes": ["x"]}, {"a": "{}", "answer_notes": []}]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (ColumnType.INT64, b'{"a":1.5}'),
        (ColumnType.INT64, b'{"a":9223372036854775808}'),
        (ColumnType.DOUBLE, b'{"a":"x"}'),
        (ColumnType.TRUTH, b'{"a":1}'),
        (ColumnType.STRINGS, b'{"a":{}}'),
    ],
)
def test_rows_that_are_not_those_inferred_from_are_an_output_error(tmp_path: Path, kind: ColumnType, raw: bytes) -> None:
    sink = ParquetSink(tmp_path / "out.parquet", {"a": kind}, row_group_rows=1)
    with pytest.raises(OutputError, match="column 'a'"):
        sink.write([OutputRow(raw, {})])
    sink.abort()
    assert list(tmp_path.iterdir()) == []
