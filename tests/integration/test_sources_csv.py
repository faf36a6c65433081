from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InputBrokenError, InputError
from headrace.sources import OpenedSource, open_source
from headrace.values import Record

MAX = 10_000_000


def read_all(source: OpenedSource, limit: int = 1000) -> list[Record]:
    records: list[Record] = []
    while True:
        chunk = source.read(limit)
        assert len(chunk.records) <= limit
        records += chunk.records
        if chunk.done:
            return records


def read(folder: Path, content: bytes, name: str = "in.csv", *, max_record: int = MAX, block: int = 2**18) -> list[Record]:
    path = folder / name
    path.write_bytes(content)
    source = OpenedSource([path], max_record=max_record, block_bytes=block)
    try:
        return read_all(source)
    finally:
        source.close()


def refused(folder: Path, content: bytes, name: str = "in.csv", *, max_record: int = MAX) -> str:
    (folder / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_source(name, folder, max_record=max_record)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fields_of(records: list[Record]) -> list[dict[str, str] | None]:
    return [record.fields for record in records]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv", b"a,b\r\n1,2\r\n"),
        ("in.tsv", b"a\tb\n1\t2\n"),
        ("in.CSV", b'"a","b"\n"1","2"'),
        ("in.csv", b"\n\na,b\n\n1,2\n\n"),
    ],
)
def test_cells_are_strings_named_by_the_header(tmp_path: Path, name: str, content: bytes) -> None:
    (record,) = read(tmp_path, content, name)
    assert record == Record(1, b'{"a":"1","b":"2"}', {"a": "1", "b": "2"}, None, 0, -1)


def test_inp_01_a_utf8_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert fields_of(read(tmp_path, b"\xef\xbb\xbfprompt,id\r\nhello,1\r\n")) == [{"prompt": "hello", "id": "1"}]


def test_inp_03_only_a_newline_outside_quotes_ends_a_row(tmp_path: Path) -> None:
    cell = "a\u2028b\u0085c\u000cd"
    records = read(tmp_path, f'p,q\n{cell},"x\ny\r\nz"\n'.encode())
    assert fields_of(records) == [{"p": cell, "q": "x\ny\r\nz"}]


def test_inp_06_a_cell_over_131072_characters_is_read(tmp_path: Path) -> None:
    content = b"prompt\na\n" + b"x" * 200_000 + b"\nb\n"
    assert [len(fields["prompt"]) for fields in fields_of(read(tmp_path, content)) if fields] == [1, 200_000, 1]


@pytest.mark.parametrize("block", [97, 50_000, 2**18])
def test_inp_06_a_row_over_the_limit_is_rejected_alone(tmp_path: Path, block: int) -> None:
    content = b"prompt\na\n" + b"x" * 200_000 + b"\nb\n"
    records = read(tmp_path, content, max_record=100_000, block=block)
    assert fields_of(records) == [{"prompt": "a"}, None, {"prompt": "b"}]
    assert records[1].reason == "too large: 200,000 bytes; input.max_record is 100,000"
    assert records[1].raw == b"x" * 4000


@pytest.mark.parametrize("block", [5, 64, 2**18])
@pytest.mark.parametrize(
    "large",
    [
        b'1,"' + b"x\n" * 100 + b'"',
        b'1,"' + b'""\n,' * 100 + b'"\r',
        b'1,5" disk' + b"," * 200,
        b'"' + b"x" * 300 + b'",2',
        b'"a""' + b"x" * 300 + b'\n""b",2',
        b'"a"b' + b"x" * 300 + b',"c\nd"',
        b",".join([b"y"] * 90) + b',"\n' + b"z" * 300 + b'"',
    ],
    ids=range(7),
)
def test_where_a_large_row_ends_is_found_by_its_quotes(tmp_path: Path, large: bytes, block: int) -> None:
    records = read(tmp_path, b"a,b\n1,2\n" + large + b'\n3,"4\n5"\n', max_record=60, block=block)
    assert fields_of(records) == [{"a": "1", "b": "2"}, None, {"a": "3", "b": "4\n5"}]
    assert records[1].reason is not None
    size = len(large.removesuffix(b"\r"))
    assert records[1].reason == f"too large: {size:,} bytes; input.max_record is 60"
    assert large.startswith(records[1].raw.rstrip(b"\r\n"))


def test_a_row_of_exactly_the_limit_is_read_whatever_its_line_end(tmp_path: Path) -> None:
    records = read(tmp_path, b"a,b\r\n12,45\r\n12,45\n12,456\n12,456\r\n", max_record=5)
    assert [record.fields is None for record in records] == [False, False, True, True]
    assert {record.reason for record in records[2:]} == {"too large: 6 bytes; input.max_record is 5"}


def test_inp_08_ids_are_the_exact_tokens(tmp_path: Path) -> None:
    records = read(tmp_path, b"id,x\n007,\n12,\n,\n9007199254740993,\n 1.0 ,\n")
    assert [fields["id"] for fields in fields_of(records) if fields] == ["007", "12", "", "9007199254740993", " 1.0 "]
    assert {fields["x"] for fields in fields_of(records) if fields} == {""}


def test_inp_11_rows_of_another_width_are_rejected_with_their_numbers(tmp_path: Path) -> None:
    records = read(tmp_path, b"a,b\n1,2\n1\n1,2,3\n3,4\n")
    assert [(record.number, record.reason) for record in records if record.fields is None] == [
        (2, "1 cells where the header has 2"),
        (3, "3 cells where the header has 2"),
    ]
    assert records[2].raw == b"1,2,3"


def test_bytes_that_are_not_utf8_reject_their_row_only(tmp_path: Path) -> None:
    records = read(tmp_path, b'a,b\n1,2\n1,"x\n\xff"\n3,4\n')
    assert fields_of(records) == [{"a": "1", "b": "2"}, None, {"a": "3", "b": "4"}]
    assert records[1].reason == "bytes that are not UTF-8"
    assert records[1].raw == b'1,"x\n\xff"'


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf16_and_utf32_are_understood(tmp_path: Path, encoding: str) -> None:
    assert fields_of(read(tmp_path, "\ufeffa,b\r\né,😀\r\n".encode(encoding))) == [{"a": "é", "b": "😀"}]


def test_a_quote_that_is_never_closed_rejects_what_it_swallowed(tmp_path: Path) -> None:
    records = read(tmp_path, b'a,b\n1,2\n3,"4\n5,6\n')
    assert fields_of(records) == [{"a": "1", "b": "2"}, None]
    assert records[1].reason == "a quoted cell begins here and its closing quote is missing"
    assert records[1].raw == b'3,"4\n5,6'


def test_a_quote_that_is_never_closed_holds_no_more_than_the_limit(tmp_path: Path) -> None:
    records = read(tmp_path, b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 1000, max_record=100, block=64)
    assert fields_of(records) == [{"a": "1", "b": "2"}, None]
    assert records[1].reason is not None
    assert records[1].reason.startswith("too large: 4,00")
    assert len(records[1].raw) <= 4000


def test_a_carriage_return_in_an_unquoted_cell_rejects_its_row(tmp_path: Path) -> None:
    records = read(tmp_path, b'a,b\n1\r2,"x\ny"\n3,4\n')
    assert fields_of(records) == [None, {"a": "3", "b": "4"}]
    assert records[0].reason == "a carriage return stands in a cell without quotes"
    assert records[0].raw == b'1\r2,"x'


def test_zero_bytes_are_content(tmp_path: Path) -> None:
    assert fields_of(read(tmp_path, b"a,b\n\x00,1\n")) == [{"a": "\x00", "b": "1"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no header line; the first line names the fields"),
        (b"\n\n", "has no header line; the first line names the fields"),
        (b"a,,b\n", "column 2 of its header has no name; found 'a', '', 'b'"),
        (b"a,b\x07,a,b\x07,c\n", r"its header names 'a', 'b\x07' more than once"),
        (b"a,\xff\n", "its header cannot be read: bytes that are not UTF-8"),
        (b'a,"b\n1,2\n', "its header cannot be read: a quoted cell begins here and its closing quote is missing"),
        (b"a\rb\r1\r2\r", "its header cannot be read: a carriage return stands in a cell without quotes"),
        (b"a" * 200, "its header cannot be read: too large: 200 bytes; input.max_record is 100"),
    ],
    ids=range(8),
)
def test_a_header_that_cannot_be_used_is_refused_at_opening(tmp_path: Path, content: bytes, message: str) -> None:
    assert refused(tmp_path, content, max_record=100) == f"input {tmp_path / 'in.csv'}: {message}"


def test_records_before_the_break_are_given_before_the_error(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\n1,2\n3,4\n") + gzip.compress(b"5,6\n" * 1000)[:30]
    (tmp_path / "in.csv.gz").write_bytes(packed)
    source = open_source("in.csv.gz", tmp_path, max_record=MAX)
    chunk = source.read(100)
    assert fields_of(chunk.records)[:2] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    with pytest.raises(InputBrokenError, match="end too early"):
        read_all(source)
    source.close()


def test_names_are_the_header(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"b,a\n")
    source = open_source("in.csv", tmp_path, max_record=MAX)
    source.close()
    assert source.names == ["b", "a"]
    assert source.in_place == (False,)


CELLS = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_what_a_writer_quotes_is_read_back(tmp_path: Path, rows: list[tuple[str, str]], block: int, end: str) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    records = read(tmp_path, text.getvalue().encode(), block=block)
    assert fields_of(records) == [{"a": a, "b": b} for a, b in rows]
    assert [orjson.loads(record.raw) for record in records] == fields_of(records)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"\xff", b"xyz"])).map(b"".join),
    st.integers(1, 20),
    st.integers(1, 3),
)
def test_any_bytes_are_rows_and_reading_goes_on_at_any_chunk_border(tmp_path: Path, body: bytes, block: int, limit: int) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n" + body)
    source = OpenedSource([path], max_record=8, block_bytes=block)
    chunks = [source.read(limit)]
    while not chunks[-1].done:
        chunks.append(source.read(limit))
    source.close()
    whole = [record for chunk in chunks for record in chunk.records]
    assert [record.number for record in whole] == list(range(1, len(whole) + 1))
    before = 0
    for chunk in chunks[:-1]:
        before += len(chunk.records)
        again = OpenedSource([path], max_record=8, block_bytes=block)
        again.seek(chunk.position)
        assert read_all(again, limit) == whole[before:]
        again.close()
