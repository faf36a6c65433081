"""Whatever bytes lie in an input file: records, rejects and at most one line about where it broke off, from any place on."""

from __future__ import annotations

import codecs
import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InputBrokenError, InputError
from headrace.sources import OpenedSource
from headrace.values import Record

MAX_RECORD = 40
KEPT = 4_000
PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"\n", b"\r\n", b"\r", b" ", b"\t", b"\x00", b"\xff", b"\xed\xa0\x80", b"1", b"null",
     b'{"a": 1}', b'{"a": "b"}\n', b'"a"', b"a,b\n", b'"x""y"', b"1e999", b"9" * 25, b"\xe2\x80\xa8", b"x" * 50, b"NaN", b'{"a": [', b"]}"]
)  # fmt: skip
CONTENTS = st.lists(PIECES | st.binary(max_size=6), max_size=14).map(b"".join)
OPENINGS = st.sampled_from([b"", b"", b"[", b'{"records": [', b"a,b\n", b'{"a": 1}\n'])
MARKS = st.sampled_from(
    [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE]
)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip


def read_on(source: OpenedSource, limit: int) -> tuple[list[Record], list[tuple[str, int]], str | None]:
    """The records, each chunk's position with the number of records before it, and why it broke off."""
    records: list[Record] = []
    positions: list[tuple[str, int]] = []
    try:
        while True:
            chunk = source.read(limit)
            assert len(chunk.records) <= limit
            records += chunk.records
            if chunk.done:
                return records, positions, None
            positions.append((chunk.position, len(records)))
    except InputBrokenError as error:
        return records, positions, check(error)
    finally:
        source.close()


def check(error: InputError) -> str:
    assert str(error).isprintable()
    assert len(str(error)) < 1_000
    return str(error)


class Written(NamedTuple):
    """A file's name, and its bytes: packed, and cut off at the end."""

    name: str
    content: bytes


@st.composite
def files(draw: st.DrawFn) -> Written:
    packed = draw(st.sampled_from(sorted(PACKED)))
    content = PACKED[packed](draw(MARKS) + draw(OPENINGS) + draw(CONTENTS))
    cut = draw(st.none() | st.integers(0, 60))
    suffix = draw(st.sampled_from([".jsonl", ".json", ".csv", ".tsv"]))
    return Written(f"in{suffix}{packed}", content if cut is None else content[: max(len(content) - cut, 0)])


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files(), st.integers(1, 50), st.integers(1, 4))
def test_any_bytes_are_records_and_reading_goes_on_behind_any_chunk(
    tmp_path: Path, file: Written, block: int, limit: int
) -> None:
    path = tmp_path / file.name
    path.write_bytes(file.content)

    def opened() -> OpenedSource:
        return OpenedSource([path], max_record=MAX_RECORD, block_bytes=block)

    try:
        source = opened()
    except InputError as error:
        check(error)
        return
    records, positions, broken = read_on(source, limit)
    assert all(later.number > earlier.number for earlier, later in itertools.pairwise(records))
    for record in records:
        assert (record.fields is None) == (record.reason is not None)
        assert record.fields is not None or len(record.raw) <= KEPT
        assert record.reason is None or record.reason.isprintable()
        if record.offset >= 0:
            assert path.read_bytes()[record.offset : record.offset + len(record.raw)] == record.raw
    for position, before in positions:
        again = opened()
        again.seek(position)
        rest, _, ended = read_on(again, limit)
        assert (rest, ended) == (records[before:], broken)
        assert again.fingerprint() == source.fingerprint() or broken is not None
