from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.sources.layout import Layout, layout_of

ARRAY, RECORD, LINES = "array", "record", "lines"


class Given:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, size: int) -> bytes:
        block, self._content = self._content[:size], self._content[size:]
        return block


def layout(content: bytes, longest: int = 1000, block_bytes: int = 5) -> Layout:
    return layout_of(Given(content), longest, Path("in.json"), block_bytes)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[", Layout(ARRAY, 0)),
        (b" \r\n\t      [1]", Layout(ARRAY, 10)),
        (b'{"data": []}', Layout(ARRAY, 9, '"data"')),
        (b'\n{ "d\\"a" :[{"a": 1}, 2 ] }\n\n', Layout(ARRAY, 11, '"d\\"a"')),
        (b'{"data": [], "n": 1}', Layout(RECORD)),
        (b'{"n": 1, "data": []}', Layout(RECORD)),
        (b'{"data": {"a": []}}', Layout(RECORD)),
        (b'{"a": 1}', Layout(RECORD)),
        (b'{"a": 1}   \n\n      ', Layout(RECORD)),
        (b"{}", Layout(RECORD)),
        (b'{"a": 1}\n{"a": 2}\n', Layout(LINES)),
        (b'{"a": 1} \r\n\n\n\n\n\n\n\nx', Layout(LINES)),
        (b'{"data": []}\n{"data": [1]}\n', Layout(LINES)),
        (b'{"a": NaN}\n{"a": 2}', Layout(LINES)),
        (b'{"a": "x}\n{"a": 2}\n', Layout(LINES)),
        (b'{"a": [}\n{"a": 2}\n', Layout(LINES)),
        (b'{"a": "x', Layout(RECORD)),
        (b'{"a": [}\n"b": 2}\n', Layout(RECORD)),
        (b'{"data": [{"a": 1}, {"a"', Layout(RECORD)),
    ],
)
def test_what_a_file_holds_is_told_by_its_beginning(content: bytes, expected: Layout) -> None:
    assert {layout(content, block_bytes=block) for block in (1, 5, 1000)} == {expected}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"data": [' + b'{"a": 1},' * 100, Layout(ARRAY, 9, '"data"')),
        (b'{"data": "' + b"x" * 1000, Layout(RECORD)),
        (b'{"n": 1, "data": [' + b'{"a": 1},' * 100, Layout(RECORD)),
    ],
)
def test_an_object_too_large_for_a_record_is_one_around_an_array_if_it_begins_so(content: bytes, expected: Layout) -> None:
    assert layout(content, longest=100) == expected


@pytest.mark.parametrize("content", [b'{"a": 1}{"a": 2}', b'{"a": 1}, {"a": 2}', b'{\n"a": 1}\n{\n"a": 2}\n', b'{"a": 1} x'])
def test_values_one_behind_another_are_refused_with_what_to_do(content: bytes) -> None:
    with pytest.raises(
        InputError, match="holds several JSON values, one behind another; put them into one array or each on a line"
    ):
        layout(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n" * 40, "is empty"),
        (b"hello", "begins with 'h'"),
        (b'"x"', "begins with '\"'"),
        (b"\x00", r"begins with '\x00'"),
        (b"\xff\xfe", r"begins with '\xff'"),
    ],
)
def test_what_holds_no_record_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        layout(content)
    assert str(caught.value) == f"input in.json: {said}; a .json file holds an array of objects, or one object"


@given(st.binary(max_size=40) | st.text('{}[]":,a1\n \\', max_size=40).map(str.encode), st.integers(1, 50))
def test_any_bytes_are_told_or_refused(content: bytes, longest: int) -> None:
    with contextlib.suppress(InputError):
        assert layout(content, longest=longest).kind in {ARRAY, RECORD, LINES}
