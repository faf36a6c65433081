from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.brackets import Marks, end_of_first, nests

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],: \n', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='a"\\{}[]', max_size=4), inner, max_size=4),
    max_leaves=12,
)
CONTAINERS = VALUES.filter(lambda value: isinstance(value, dict | list))
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def nests_slowly(value: bytes) -> bool:
    open_ = []
    for token in TOKEN.findall(value):
        if token in (b"{", b"["):
            open_.append(token)
        elif token in (b"}", b"]") and (not open_ or open_.pop() != {b"}": b"{", b"]": b"["}[token]):
            return False
    return not open_


@given(CONTAINERS, st.text(alphabet='x ,"]}', max_size=5))
def test_the_end_of_a_value_is_found_whatever_follows(value: object, more: str) -> None:
    text = json.dumps(value).encode()
    assert end_of_first(text + more.encode()) == len(text)


@given(CONTAINERS, st.data())
def test_a_value_that_is_cut_off_has_no_end(value: object, data: st.DataObject) -> None:
    text = json.dumps(value).encode()
    assert end_of_first(text[: data.draw(st.integers(1, len(text) - 1))]) == -1


@given(st.lists(CONTAINERS, max_size=6), st.integers(1, 9))
def test_ends_are_the_same_in_blocks_of_any_size(values: list[object], size: int) -> None:
    text, ends = b"", []
    for value in values:
        text += json.dumps(value).encode()
        ends.append(len(text))
        text += b" , "
    marks = Marks()
    found = []
    for start in range(0, len(text), size):
        marks.feed(text[start : start + size])
        while (end := marks.end_of_brackets()) >= 0:
            found.append(start + end)
    assert found == ends


@given(st.text(alphabet='\\"a', max_size=12), st.integers(1, 5))
def test_a_string_ends_at_the_first_quote_that_no_backslash_escapes(text: str, size: int) -> None:
    raw = json.dumps(text).encode() + b', "'
    marks = Marks()
    found = -1
    for start in range(0, len(raw), size):
        marks.feed(raw[start : start + size])
        end = marks.end_of_string(0 if start else 1)
        if end >= 0:
            found = start + end
            break
    assert found == len(json.dumps(text))


@given(st.text(alphabet='{}[]"a\\', max_size=10).map(lambda text: "{" + text + "}"))
def test_brackets_nest_or_they_do_not(text: str) -> None:
    value = text.encode()
    if not re.sub(TOKEN, b"", value).count(b'"') and b"\\" not in re.sub(TOKEN, b"", value):
        assert nests(value) == nests_slowly(value)


@pytest.mark.parametrize("value", [b'{"a": [1, {"b": "]}"}]}', b"[]", b"[[[]]]", b'["\\\\", {}]'])
def test_what_nests(value: bytes) -> None:
    assert nests(value)


@pytest.mark.parametrize("value", [b'{"a": [1}', b"[}", b"{]", b'{"a": [}]}', b"[[]", b"[", b"]"])
def test_what_does_not_nest(value: bytes) -> None:
    assert not nests(value)


def test_text_that_is_all_brackets_or_all_backslashes_costs_no_more_than_its_length() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert end_of_first(deep) == len(deep)
    assert nests(deep)
    assert end_of_first(b'{"' + b"\\" * 200_001 + b'"}') == -1
    assert end_of_first(b'{"' + b"\\" * 200_000 + b'"}') == 200_004
