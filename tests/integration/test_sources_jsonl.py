from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
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


def read_file(path: Path, *, max_record: int = MAX, limit: int = 1000) -> list[Record]:
    source = open_source(path.name, path.parent, max_record=max_record)
    try:
        return read_all(source, limit)
    finally:
        source.close()


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def fields_of(records: list[Record]) -> list[dict[str, Any] | None]:
    return [record.fields for record in records]


def test_records_of_a_plain_line_file_stay_in_place(tmp_path: Path) -> None:
    content = b'{"a": 1}\r\n\n  {"a": "\xc3\xa9"} \n   \n{"a": 3}'
    path = written(tmp_path, "in.jsonl", content)
    source = open_source("in.jsonl", tmp_path, max_record=MAX)
    records = read_all(source)
    source.close()
    assert source.in_place == (True,)
    assert source.files == (path,)
    assert [record.number for record in records] == [1, 3, 5]
    assert [record.raw for record in records] == [b'{"a": 1}', b'  {"a": "\xc3\xa9"} ', b'{"a": 3}']
    for record in records:
        assert record.file == 1
        assert content[record.offset : record.offset + len(record.raw)] == record.raw


def test_inp_01_a_utf8_mark_is_no_part_of_the_first_record_and_stays_in_place(tmp_path: Path) -> None:
    path = written(tmp_path, "in.jsonl", b'\xef\xbb\xbf{"prompt": "hello"}\n{"prompt": 2}\n')
    records = read_file(path)
    assert fields_of(records) == [{"prompt": "hello"}, {"prompt": 2}]
    assert [(record.offset, record.file) for record in records] == [(3, 1), (23, 1)]


def test_inp_03_only_a_newline_ends_a_record(tmp_path: Path) -> None:
    prompt = "a\u2028b\u2029c\u0085d"
    path = written(tmp_path, "in.jsonl", json.dumps({"prompt": prompt}, ensure_ascii=False).encode() + b"\n")
    assert fields_of(read_file(path)) == [{"prompt": prompt}]


def test_inp_05_content_is_utf8_whatever_the_locale_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    path = written(tmp_path, "é.jsonl", '{"a": "é😀"}\n'.encode())
    assert fields_of(read_file(path)) == [{"a": "é😀"}]


def test_inp_08_an_integer_id_beyond_2_to_the_53_is_exact(tmp_path: Path) -> None:
    path = written(tmp_path, "in.jsonl", b'{"id": 9007199254740993}\n{"id": 123456789012345678901}\n')
    assert fields_of(read_file(path)) == [{"id": 9007199254740993}, {"id": 123456789012345678901}]


def test_inp_11_what_is_no_object_rejects_its_line_only(tmp_path: Path) -> None:
    lines = ['{"prompt":"a"}', "{}", '{"prompt":null}', '{"prompt":123}', "[1]", '"str"', '{"prompt":"b"}']
    records = read_file(written(tmp_path, "in.jsonl", "\n".join(lines).encode()))
    assert [(record.number, record.reason) for record in records if record.fields is None] == [
        (5, "not a JSON object: array"),
        (6, "not a JSON object: string"),
    ]
    assert fields_of(records)[-1] == {"prompt": "b"}
    assert records[4].raw == b"[1]"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_utf16_and_utf32_are_brought_to_utf8(tmp_path: Path, encoding: str, block: int) -> None:
    path = written(tmp_path, "in.jsonl", ("\ufeff" + '{"a": "é😀"}\r\n{"b": 1}').encode(encoding))
    source = OpenedSource([path], max_record=MAX, block_bytes=block)
    records = read_all(source)
    source.close()
    assert source.in_place == (False,)
    assert fields_of(records) == [{"a": "é😀"}, {"b": 1}]
    assert [(record.file, record.offset) for record in records] == [(0, -1), (0, -1)]
    assert records[0].raw == '{"a": "é😀"}'.encode()


def test_a_broken_code_unit_rejects_its_record_only(tmp_path: Path) -> None:
    units = '\ufeff{"a": "x"}\n{"a": "'.encode("utf-16-le") + b"\x00\xd8" + '"}\n{"a": "y"}\n'.encode("utf-16-le")
    records = read_file(written(tmp_path, "in.jsonl", units + b"\x41"))
    assert fields_of(records) == [{"a": "x"}, None, {"a": "y"}, None]
    assert records[1].reason == "holds code units that are not UTF-16-LE"


def test_bytes_that_are_not_utf8_reject_their_record_only(tmp_path: Path) -> None:
    records = read_file(written(tmp_path, "in.jsonl", b'{"a": 1}\n{"a": "\xff"}\n{"a": 2}\n'))
    assert fields_of(records) == [{"a": 1}, None, {"a": 2}]
    assert records[1].reason == "not UTF-8: byte 0xff at byte 8"
    assert records[1].raw == b'{"a": "\xff"}'


@pytest.mark.parametrize("block", [7, 64, 100_000])
def test_a_line_over_the_limit_is_rejected_alone(tmp_path: Path, block: int) -> None:
    large = b'{"a": "' + b"x" * 9000 + b'"}'
    content = b'{"a": 1}\n' + large + b"\r\n" + b'{"a": 2}\n' + large
    path = written(tmp_path, "in.jsonl", content)
    source = OpenedSource([path], max_record=1000, block_bytes=block)
    records = read_all(source, limit=1)
    source.close()
    assert fields_of(records) == [{"a": 1}, None, {"a": 2}, None]
    assert [record.number for record in records] == [1, 2, 3, 4]
    assert records[3].reason == "too large: 9,009 bytes; input.max_record is 1,000"
    for record in records:
        assert content[record.offset : record.offset + len(record.raw)] == record.raw
    assert len(records[1].raw) <= 4000


def test_a_line_of_exactly_the_limit_is_read_whatever_its_line_end(tmp_path: Path) -> None:
    records = read_file(written(tmp_path, "in.jsonl", b'{"a": 1}\r\n{"a": 1}\n{"a": 12}\r\n{"a": 12}\n'), max_record=8)
    assert [record.fields is None for record in records] == [False, False, True, True]
    assert {record.reason for record in records[2:]} == {"too large: 9 bytes; input.max_record is 8"}


@pytest.mark.parametrize("content", [b"", b"\n\n \r\n", b"\xef\xbb\xbf"])
def test_a_file_without_records_is_done_at_once(tmp_path: Path, content: bytes) -> None:
    assert read_file(written(tmp_path, "in.jsonl", content)) == []


def test_chunks_hold_about_a_megabyte(tmp_path: Path) -> None:
    line = json.dumps({"a": "x" * 100_000}).encode()
    source = open_source("in.jsonl", written(tmp_path, "in.jsonl", (line + b"\n") * 40).parent, max_record=MAX)
    chunk = source.read(1000)
    source.close()
    assert 900_000 <= sum(len(record.raw) for record in chunk.records) <= 1_200_000


def test_names_are_collected_in_the_order_in_which_they_are_met(tmp_path: Path) -> None:
    path = written(tmp_path, "in.jsonl", b'{"b": 1, "a": 1}\n{"a": 1}\n[1]\n{"answer": 1}\n')
    source = open_source(path.name, tmp_path, max_record=MAX)
    read_all(source)
    source.close()
    assert source.names == ["b", "a", "answer"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
def test_packed_files_of_several_members_are_read_whole(tmp_path: Path, compress: Any, request: pytest.FixtureRequest) -> None:
    suffix = request.node.callspec.id
    content = compress(b'{"a": 1}\n{"a"') + compress(b": 2}\n") + compress(b"") + compress(b'{"a": 3}')
    path = written(tmp_path, f"in.jsonl.{suffix}", content)
    source = open_source(path.name, tmp_path, max_record=MAX)
    records = read_all(source)
    source.close()
    assert source.in_place == (False,)
    assert fields_of(records) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [record.number for record in records] == [1, 2, 3]
    assert {record.offset for record in records} == {-1}


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
@pytest.mark.parametrize("damage", ["cut", "junk"])
def test_records_before_the_break_are_given_before_the_error(
    tmp_path: Path, compress: Any, damage: str, request: pytest.FixtureRequest
) -> None:
    suffix = "gz" if "gz" in request.node.callspec.id else "zst"
    first = compress(b'{"a": 1}\n{"a": 2}\n')
    second = compress(json.dumps({"a": list(range(100_000))}).encode())
    rest = second[: len(second) // 2] if damage == "cut" else b"junk, and more of it"
    source = open_source(f"in.jsonl.{suffix}", written(tmp_path, f"in.jsonl.{suffix}", first + rest).parent, max_record=MAX)
    chunk = source.read(10)
    assert fields_of(chunk.records) == [{"a": 1}, {"a": 2}]
    assert not chunk.done
    for _ in range(2):
        with pytest.raises(InputBrokenError, match=rf"in\.jsonl\.{suffix}: its (gzip|zstd) data .* after \d+ bytes of content"):
            source.read(10)
    source.close()


def test_zero_bytes_behind_a_gzip_member_are_padding(tmp_path: Path) -> None:
    path = written(
        tmp_path, "in.jsonl.gz", gzip.compress(b'{"a": 1}\n') + b"\0" * 100 + gzip.compress(b'{"a": 2}\n') + b"\0" * 9000
    )
    assert fields_of(read_file(path)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_what_is_not_packed_as_its_suffix_says_is_refused_at_opening(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"in.jsonl.{suffix}", b'{"a": 1}\n' * 10)
    with pytest.raises(InputError, match=r"not (gzip|zstd)") as caught:
        open_source(path.name, tmp_path, max_record=MAX)
    assert caught.value.exit_code == 2


def test_a_file_that_became_shorter_breaks_the_input(tmp_path: Path) -> None:
    path = written(tmp_path, "in.jsonl", b'{"a": 1}\n' * 100_000)
    source = OpenedSource([path], max_record=MAX)
    source.read(1)
    path.write_bytes(b"")
    with pytest.raises(InputBrokenError, match="became shorter"):
        read_all(source)
    source.close()


LINE = st.sampled_from(
    [
        b'{"a": 1}',
        b"",
        b"  ",
        b'{"b": "\xc3\xa9"}\r',
        b"\xff",
        b"[1]",
        b'{"c": "' + b"x" * 70 + b'"}',
        b'{"c": "' + b"y" * 70 + b'"}\r',
    ]
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(LINE, max_size=12),
    st.sampled_from(["{}.jsonl", "{}.jsonl.gz", "{}.jsonl.zst"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.integers(1, 4),
    st.integers(1, 90),
)
def test_reading_goes_on_at_any_chunk_border(
    tmp_path: Path, lines: list[bytes], name: str, mark: bytes, limit: int, block: int
) -> None:
    content = mark + b"\n".join(lines)
    if name.endswith("gz"):
        content = gzip.compress(content)
    elif name.endswith("zst"):
        content = zstandard.ZstdCompressor().compress(content)
    files = [written(tmp_path, name.format(index), content) for index in (1, 2)]
    source = OpenedSource(files, max_record=60, block_bytes=block)
    chunks = [source.read(limit)]
    while not chunks[-1].done:
        chunks.append(source.read(limit))
    whole = [record for chunk in chunks for record in chunk.records]
    source.close()
    before = 0
    for chunk in chunks[:-1]:
        before += len(chunk.records)
        again = OpenedSource(files, max_record=60, block_bytes=block)
        again.seek(chunk.position)
        assert read_all(again, limit) == whole[before:]
        assert again.fingerprint() == source.fingerprint()
        again.close()
