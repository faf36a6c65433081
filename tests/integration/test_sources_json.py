from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InputBrokenError
from headrace.sources import OpenedSource, open_source
from headrace.values import Record

MAX = 10_000_000


def read_all(source: OpenedSource, limit: int = 1000) -> list[Record]:
    records: list[Record] = []
    while True:
        chunk = source.read(limit)
        records += chunk.records
        if chunk.done:
            return records


def read(folder: Path, content: bytes, *, name: str = "in.json", max_record: int = MAX) -> list[Record]:
    (folder / name).write_bytes(content)
    source = open_source(name, folder, max_record=max_record)
    try:
        return read_all(source)
    finally:
        source.close()


def seen(records: list[Record]) -> list[Any]:
    return [record.fields if record.fields is not None else record.reason for record in records]


def test_records_keep_the_bytes_that_stand_in_the_file_and_are_numbered(tmp_path: Path) -> None:
    content = b'[{"a": 1.0, "a":1e2 ,\r\n "b" :"\\u00e9\xc3\xa9"} ,\n{"n":12345678901234567890}]'
    records = read(tmp_path, content)
    assert [record.raw for record in records] == [
        b'{"a": 1.0, "a":1e2 ,\r\n "b" :"\\u00e9\xc3\xa9"}',
        b'{"n":12345678901234567890}',
    ]
    assert [(record.number, record.file, record.offset) for record in records] == [(1, 0, -1), (2, 0, -1)]
    assert seen(records) == [{"a": 100.0, "b": "éé"}, {"n": 12345678901234567890}]


def test_inp_03_separators_of_unicode_end_nothing(tmp_path: Path) -> None:
    prompt = "a\u2028b\u2029c\u0085d"
    content = json.dumps([{"prompt": prompt}], ensure_ascii=False).encode()
    assert seen(read(tmp_path, content)) == [{"prompt": prompt}]


def test_inp_11_what_is_no_record_is_rejected_and_the_rest_goes_on(tmp_path: Path) -> None:
    content = (
        b'[{"a": 1}, 5, null, true, "x", [1], {"a": NaN}, {"a": }, {"a" 1}, {\'a\': 1}, , {"a": "\xff"}, {"a": "\n"}, {"a": 2},]'
    )
    reasons = seen(read(tmp_path, content))
    assert reasons[0] == {"a": 1}
    assert reasons[1:6] == [f"not a JSON object: {kind}" for kind in ("number", "null", "truth value", "string", "array")]
    assert all(reason.startswith("not JSON: ") for reason in reasons[6:10])
    assert reasons[10] == "nothing stands between two commas"
    assert reasons[11] == "not UTF-8: byte 0xff at byte 8"
    assert reasons[12].startswith("not JSON: Invalid control character")
    assert reasons[13:] == [{"a": 2}]


@pytest.mark.parametrize("element", [b'{"a": "\\ud800"}', b'{"a": 123456789012345678901234567890}', b'{"a": 1, "a": 2}'])
def test_an_element_is_read_as_a_line_with_the_same_bytes_is(tmp_path: Path, element: bytes) -> None:
    of_lines = read(tmp_path, element + b"\n", name="in.jsonl")
    assert seen(read(tmp_path, b"[" + element + b"]")) == seen(of_lines)


def test_an_element_nested_too_deeply_is_rejected(tmp_path: Path) -> None:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert seen(read(tmp_path, b"[" + deep + b',{"a":1}]')) == ["not JSON: nested too deeply", {"a": 1}]


def test_an_element_that_is_too_large_is_not_held(tmp_path: Path) -> None:
    large = b'{"a": "' + b"x" * 3_000_000 + b'"}'
    records = read(tmp_path, b'[{"a": 1},' + large + b',{"a": 2}]', max_record=1000)
    assert seen(records) == [{"a": 1}, "too large: 3,000,009 bytes; input.max_record is 1,000", {"a": 2}]
    assert records[1].raw == large[:4000]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_inp_01_every_byte_order_mark_is_understood(tmp_path: Path, encoding: str) -> None:
    assert seen(read(tmp_path, '[{"a": "é🙂"}]'.encode(encoding))) == [{"a": "é🙂"}]


def test_a_broken_code_unit_rejects_its_element_alone(tmp_path: Path) -> None:
    content = '[{"a": "é"}, {"a": "X"}, {"a": "ü"}]'.encode("utf-16").replace("X".encode("utf-16-le"), b"\x00\xd8")
    assert seen(read(tmp_path, content)) == [{"a": "é"}, "holds code units that are not UTF-16-LE", {"a": "ü"}]


@pytest.mark.parametrize(
    ("content", "before", "said"),
    [
        (b'[{"a": 1}, {"a": 2', 1, "ends inside record 2"),
        (b'[{"a": 1}, {"a": 2}', 2, "the closing ] is missing"),
        (b'[{"a": 1} {"a": 2}]', 1, "a comma or ] is missing behind record 1, at byte 10"),
        (b'[{"a": 1}, {"a": [2}, {"a": 3}]', 1, "the brackets of record 2, which begins at byte 11, do not match"),
        (b'[{"a": [1}, {"a": 2}]]', 0, "the brackets of record 1, which begins at byte 1, do not match"),
    ],
)
def test_where_elements_cannot_be_told_apart_the_input_breaks_off_behind_those_before(
    tmp_path: Path, content: bytes, before: int, said: str
) -> None:
    (tmp_path / "in.json").write_bytes(content)
    source = open_source("in.json", tmp_path, max_record=MAX)
    for _ in range(before):
        assert len(source.read(1).records) == 1
    for _ in range(2):
        with pytest.raises(InputBrokenError, match=r"in\.json: ") as caught:
            source.read(1)
        assert said in str(caught.value)
        assert caught.value.exit_code == 7
    source.close()


def test_a_packed_array_that_is_cut_off_gives_what_came_before(tmp_path: Path) -> None:
    content = gzip.compress(json.dumps([{"text": str(n) * 50} for n in range(20_000)]).encode())
    (tmp_path / "in.json.gz").write_bytes(content[: len(content) // 2])
    source = open_source("in.json.gz", tmp_path, max_record=MAX)
    numbers: list[int] = []
    error = None
    while error is None:
        try:
            chunk = source.read(500)
            assert not chunk.done
            numbers += [record.number for record in chunk.records]
        except InputBrokenError as caught:
            error = caught
    source.close()
    assert "gzip data end too early" in str(error)
    assert numbers == list(range(1, len(numbers) + 1))
    assert 5_000 < len(numbers) < 15_000


def test_lines_named_json_are_read_as_lines_and_stay_in_place(tmp_path: Path) -> None:
    records = read(tmp_path, b'{"a": 1}\n\nxx\n{"a": 2}\n')
    assert [(record.number, record.file, record.offset) for record in records] == [(1, 1, 0), (3, 1, 10), (4, 1, 13)]
    assert seen(records)[::2] == [{"a": 1}, {"a": 2}]


def test_an_object_with_one_key_stands_for_its_array_and_any_other_is_one_record(tmp_path: Path) -> None:
    assert seen(read(tmp_path, b'{"data": [{"a": 1}, {"a": 2}]}')) == [{"a": 1}, {"a": 2}]
    assert seen(read(tmp_path, b'{"data": []}')) == []
    assert seen(read(tmp_path, b'{"title": "x", "authors": [{"a": 1}]}')) == [{"title": "x", "authors": [{"a": 1}]}]
    assert seen(read(tmp_path, b'\xef\xbb\xbf\n{"a":\n"x"}\n')) == [{"a": "x"}]


def test_a_document_that_is_no_json_or_too_large_is_one_rejected_record(tmp_path: Path) -> None:
    assert seen(read(tmp_path, b'{"a": {"b": 1')) == ["not JSON: Expecting ',' delimiter: line 1 column 14 (char 13)"]
    records = read(tmp_path, b'{"a": "' + b"x" * 2_000_000 + b'"}\n', max_record=1000)
    assert (len(records), records[0].reason) == (1, "too large: 2,000,010 bytes; input.max_record is 1,000")
    assert len(records[0].raw) == 4000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3) | JSON, max_size=8),
    st.integers(1, 50),
    st.integers(1, 9),
    st.sampled_from(["in.json", "in.json.gz"]),
    st.sampled_from([None, 0, 2]),
)
def test_any_array_reads_as_a_parser_reads_it_from_any_place_on(
    tmp_path: Path, values: list[Any], block: int, limit: int, name: str, indent: int | None
) -> None:
    text = json.dumps(values, indent=indent).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)

    def opened() -> OpenedSource:
        return OpenedSource([tmp_path / name], max_record=MAX, block_bytes=block)

    source = opened()
    records, positions = [], []
    while True:
        chunk = source.read(limit)
        records += chunk.records
        positions.append((chunk.position, len(records)))
        if chunk.done:
            break
    source.close()
    assert [json.loads(record.raw) for record in records] == values
    assert [record.fields for record in records] == [value if isinstance(value, dict) else None for value in values]
    for position, count in positions[:-1]:
        again = opened()
        again.seek(position)
        assert read_all(again, limit) == records[count:]
        again.close()
        assert again.fingerprint() == source.fingerprint()


@pytest.mark.slow
def test_of_a_plain_file_only_what_is_left_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.sources.blocks import FileBytes

    content = json.dumps([{"n": n, "text": "x" * 1000} for n in range(40_000)]).encode()
    (tmp_path / "in.json").write_bytes(content)
    source = open_source("in.json", tmp_path, max_record=MAX)
    position = ""
    for _ in range(38):
        position = source.read(1000).position
    stored, names = source.fingerprint(), source.names
    source.close()
    passed = 0
    read_block = FileBytes.read

    def counted(self: FileBytes, size: int) -> bytes:
        nonlocal passed
        block = read_block(self, size)
        passed += len(block)
        return block

    monkeypatch.setattr(FileBytes, "read", counted)
    again = open_source("in.json", tmp_path, max_record=MAX)
    again.restore(stored, names)
    again.seek(position)
    read_all(again)
    again.close()
    assert passed < len(content) // 10
