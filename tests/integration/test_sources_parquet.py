from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
import uuid
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import InputBrokenError, InputError
from headrace.sources import OpenedSource, arrow, open_source
from headrace.values import Record

MAX = 10_000_000


def read_all(source: OpenedSource, limit: int = 1000) -> list[Record]:
    records: list[Record] = []
    while True:
        chunk = source.read(limit)
        records += chunk.records
        if chunk.done:
            return records


def read(folder: Path, table: pa.Table, *, max_record: int = MAX, **how: Any) -> list[Record]:
    pq.write_table(table, folder / "in.parquet", **how)
    source = open_source("in.parquet", folder, max_record=max_record)
    try:
        return read_all(source)
    finally:
        source.close()


def column(folder: Path, array: pa.Array) -> list[Any]:
    records = read(folder, pa.table({"x": array}))
    for record in records:
        assert record.fields is None or orjson.loads(record.raw) == record.fields
    return [record.fields and record.fields["x"] for record in records]


def test_inp_08_nullable_integers_stay_exact_integers(tmp_path: Path) -> None:
    values = [1, None, 9007199254740993, -(2**63)]
    found = column(tmp_path, pa.array(values, pa.int64()))
    assert found == values
    assert repr(found) == repr(values)
    assert column(tmp_path, pa.array([2**64 - 1], pa.uint64())) == [2**64 - 1]


def test_inp_10_arrow_values_become_plain_json_and_bytes_reject_their_record(tmp_path: Path) -> None:
    table = pa.table(
        {
            "tags": pa.array([["a", "b"], None], pa.list_(pa.string())),
            "at": pa.array([dt.datetime(2024, 5, 6, 7, 8, 9, 500_000, dt.UTC).replace(tzinfo=None), None], pa.timestamp("us")),
            "price": pa.array([decimal.Decimal("12.50"), None], pa.decimal128(10, 2)),
            "data": pa.array([None, b"\x00"], pa.binary()),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "text": pa.array(["long", "er"], pa.large_string()),
        }
    )
    first, second = read(tmp_path, table)
    assert first.fields == {
        "tags": ["a", "b"],
        "at": "2024-05-06T07:08:09.5",
        "price": "12.50",
        "data": None,
        "kind": "x",
        "text": "long",
    }
    assert orjson.loads(first.raw) == first.fields
    assert second.fields is None
    assert second.reason == "column 'data' holds bytes; decode it first"
    assert orjson.loads(second.raw)["text"] == "er"


NS = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([NS], pa.timestamp("ns")), "2023-11-14T22:13:20.123456789"),
        (pa.array([NS], pa.timestamp("ns", tz="Europe/Berlin")), "2023-11-14T22:13:20.123456789Z"),
        (pa.array([1_700_000_000_000], pa.timestamp("ms", tz="UTC")), "2023-11-14T22:13:20Z"),
        (pa.array([0], pa.timestamp("ms")), "1970-01-01T00:00:00"),
        (pa.array([-1], pa.timestamp("us")), "1969-12-31T23:59:59.999999"),
        (pa.array([253_402_300_800], pa.timestamp("s")), "10000-01-01T00:00:00"),
        (pa.array([0], pa.date32()), "1970-01-01"),
        (pa.array([dt.date(2024, 2, 29)], pa.date32()), "2024-02-29"),
        (pa.array([dt.date(2024, 2, 29)], pa.date64()), "2024-02-29"),
        (pa.array([3_723_004], pa.time32("ms")), "01:02:03.004"),
        (pa.array([3_723], pa.time32("s")), "01:02:03"),
        (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
        (pa.array([-1_500], pa.duration("ms")), "-PT1.5S"),
        (pa.array([1.5], pa.float32()), 1.5),
        (pa.array([math.nan]), None),
        (pa.array([-math.inf]), None),
        (pa.array([True]), True),
        (pa.array([decimal.Decimal("0.00000001")], pa.decimal128(20, 8)), "0.00000001"),
        (pa.array([None], pa.null()), None),
        (pa.array([[1, None]], pa.large_list(pa.int32())), [1, None]),
        (pa.array([[1.5, math.inf]], pa.list_(pa.float64(), 2)), [1.5, None]),
        (pa.array([{"a": 1, "b": [dt.date(2024, 1, 1)]}]), {"a": 1, "b": ["2024-01-01"]}),
        (pa.array([[("k", 1), ("l", None)]], pa.map_(pa.string(), pa.int8())), {"k": 1, "l": None}),
        (pa.array([[(1, "v")]], pa.map_(pa.int8(), pa.string())), [[1, "v"]]),
    ],
    ids=range(24),
)
def test_each_type_has_its_documented_form(tmp_path: Path, array: pa.Array, expected: Any) -> None:
    assert column(tmp_path, array) == [expected]
    assert column(tmp_path, pa.concat_arrays([pa.nulls(2, array.type), array, pa.nulls(1, array.type)])) == [
        None,
        None,
        expected,
        None,
    ]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([None, [b"x"]], pa.list_(pa.binary())),
        pa.array([{"a": None}, {"a": b"x"}], pa.struct([("a", pa.large_binary())])),
        pa.array([[("k", None)], [("k", b"x")]], pa.map_(pa.string(), pa.binary())),
        pa.array([None, b"xy"], pa.binary(2)),
    ],
    ids=range(4),
)
def test_bytes_at_any_depth_reject_their_record(tmp_path: Path, array: pa.Array) -> None:
    first, second = read(tmp_path, pa.table({"x": array}))
    assert first.fields is not None
    assert second.fields is None
    assert second.reason == "column 'x' holds bytes; decode it first"


def test_a_uuid_is_its_text_and_a_view_is_its_string(tmp_path: Path) -> None:
    one = uuid.UUID(int=1)
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, None], pa.binary(16)))
    table = pa.table({"x": array, "y": pa.array(["a", "b"], pa.string_view())})
    assert [record.fields for record in read(tmp_path, table)] == [{"x": str(one), "y": "a"}, {"x": None, "y": "b"}]


def test_a_type_without_a_json_form_rejects_its_records() -> None:
    array = pa.array([pa.MonthDayNano([1, 2, 3]), None], pa.month_day_nano_interval())
    first, second = arrow.values(array)
    assert arrow.may_be_unmapped(array.type)
    assert arrow.first_unmapped([{"a": first}]).reason == "is of type month_day_nano_interval, which has no JSON form"
    assert second is None


def test_a_string_that_is_not_utf8_rejects_its_record_only(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"\xff", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    records = read(tmp_path, pa.table({"x": text}))
    assert [record.fields for record in records] == [{"x": "a"}, None, {"x": None}]
    assert records[1].reason == "column 'x' holds bytes that are not UTF-8"


def test_a_record_over_the_limit_is_rejected_alone(tmp_path: Path) -> None:
    records = read(tmp_path, pa.table({"x": ["a", "b" * 9000, "c"]}), max_record=1000)
    assert [record.fields and record.fields["x"] for record in records] == ["a", None, "c"]
    assert records[1].reason == "too large: 9,008 bytes; input.max_record is 1,000"
    assert len(records[1].raw) == 4000


@pytest.mark.parametrize("group", [7, 10, 1000])
@pytest.mark.parametrize("limit", [1, 4, 10, 1000])
def test_reading_goes_on_at_any_chunk_border(tmp_path: Path, group: int, limit: int) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"x": list(range(30))}), path, row_group_size=group)
    source = OpenedSource([path, path], max_record=MAX)
    chunks = [source.read(limit)]
    while not chunks[-1].done:
        chunks.append(source.read(limit))
    source.close()
    whole = [record for chunk in chunks for record in chunk.records]
    assert [record.number for record in whole] == [*range(1, 31)] * 2
    before = 0
    for chunk in chunks[:-1]:
        before += len(chunk.records)
        again = OpenedSource([path, path], max_record=MAX)
        again.seek(chunk.position)
        assert read_all(again, limit) == whole[before:]
        assert again.fingerprint() == source.fingerprint()
        again.close()
    assert [entry["hashed"] for entry in source.fingerprint()] == [path.stat().st_size] * 2


def test_records_before_damage_are_given_before_the_error(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(
        pa.table({"x": [f"{n:0500d}" for n in range(4000)]}), path, row_group_size=1000, compression="none", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 + 200_000
    content[middle - 300_000 : middle] = b"\xff" * 300_000
    path.write_bytes(content)
    source = open_source("in.parquet", tmp_path, max_record=MAX)
    first = [source.read(100) for _ in range(10)]
    with pytest.raises(InputBrokenError, match=r"in\.parquet: its Parquet data break off after [12]\d\d\d records"):
        read_all(source)
    source.close()
    assert [record.number for chunk in first for record in chunk.records] == list(range(1, 1001))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"a,b\n1,2\n"])
def test_what_is_no_parquet_is_refused_at_opening(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.parquet").write_bytes(content)
    with pytest.raises(
        InputError, match=r"in\.parquet: not a Parquet file, or a damaged one|cannot be read as Parquet"
    ) as caught:
        open_source("in.parquet", tmp_path, max_record=MAX)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a\n", "a\n"])
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(InputError, match=r"has more than one column named 'a\\n'"):
        open_source("in.parquet", tmp_path, max_record=MAX)


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({}), tmp_path / "in.parquet")
    with pytest.raises(InputError, match="has no columns"):
        open_source("in.parquet", tmp_path, max_record=MAX)


def test_without_pyarrow_the_line_to_type_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install pyarrow"):
        open_source("in.parquet", tmp_path, max_record=MAX)


def test_names_are_the_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [1], "a": [2]}), tmp_path / "in.parquet")
    source = open_source("in.parquet", tmp_path, max_record=MAX)
    source.close()
    assert source.names == ["b", "a"]
    assert source.in_place == (False,)
