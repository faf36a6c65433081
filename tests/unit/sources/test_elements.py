from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputBrokenError
from headrace.sources.elements import Elements

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.text('"\\]}[{,', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
WHITE = st.text(" \t\r\n", max_size=3).map(str.encode)


class Given:
    """Blocks of some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, size: int) -> bytes:
        block, self._content = self._content[:size], self._content[size:]
        return block


def framed(content: bytes, *, longest: int = 10_000, block_bytes: int = 7, **more: Any) -> list[tuple[bytes, int, int]]:
    elements = Elements(Given(content), longest, Path("in.json"), block_bytes=block_bytes, **more)
    found: list[tuple[bytes, int, int]] = []
    while some := elements.next():
        found += some
    return found


def broken(content: bytes, block_bytes: int = 7, **more: Any) -> tuple[list[bytes], str]:
    """The elements before the break, and what is said of it."""
    elements = Elements(Given(content), 10_000, Path("in.json"), block_bytes=block_bytes, **more)
    found: list[bytes] = []
    error = None
    while error is None:
        try:
            some = elements.next()
            assert some, "the elements end without a break"
            found += [element.raw for element in some]
        except InputBrokenError as caught:
            error = caught
    with pytest.raises(InputBrokenError):
        elements.next()
    return found, str(error).removeprefix("input in.json: ")


@given(st.lists(JSON, max_size=6), st.integers(1, 40), st.sampled_from([None, 1, "\t"]), WHITE)
def test_the_elements_of_any_array_are_those_that_a_parser_finds(
    values: list[Any], block: int, indent: Any, white: bytes
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    content = white + text + white
    found = framed(content, block_bytes=block, start=len(white))
    assert [json.loads(raw.decode("utf-8", "surrogatepass")) for raw, _, _ in found] == values
    for raw, size, end in found:
        assert size == len(raw)
        assert content[:end].endswith(raw) or content[:end].rstrip().endswith(raw)


@given(st.lists(JSON, min_size=1, max_size=6), st.integers(1, 9), st.integers(1, 60))
def test_an_element_that_is_too_long_is_known_by_its_size_alone(values: list[Any], block: int, longest: int) -> None:
    raws = [json.dumps(value).encode() for value in values]
    found = framed(b"[" + b",".join(raws) + b"]", longest=longest, block_bytes=block)
    assert [size for _, size, _ in found] == [len(raw) for raw in raws]
    assert [raw for raw, _, _ in found] == raws


def test_of_a_long_element_the_first_bytes_are_kept_and_no_more() -> None:
    raw = b'"' + bytes(range(35, 91)) * 500 + b'"'
    for block in (100, 5000, 100_000):
        found = framed(b"[1," + raw + b",2]", longest=9_000, block_bytes=block)
        assert found == [(b"1", 1, 2), (raw[:4000], len(raw), 3 + len(raw)), (b"2", 1, len(raw) + 5)]


@given(st.lists(JSON, min_size=1, max_size=6), st.data())
def test_reading_goes_on_behind_any_element(values: list[Any], data: st.DataObject) -> None:
    content = json.dumps(values).encode()
    found = framed(content)
    number = data.draw(st.integers(1, len(found)))
    elements = Elements(Given(content[found[number - 1][2] :]), 10_000, Path("in.json"), block_bytes=5)
    elements.go_on(number, found[number - 1][2])
    rest: list[tuple[bytes, int, int]] = []
    while some := elements.next():
        rest += some
    assert rest == found[number:]


def test_the_array_of_an_object_with_one_key() -> None:
    content = b' { "data" : [1, {"a": 2}] } \n'
    assert [raw for raw, _, _ in framed(content, start=12, key='"data"')] == [b"1", b'{"a": 2}']


def test_a_comma_before_the_closing_bracket_is_passed_over_and_nothing_between_two_is_an_element() -> None:
    assert [raw for raw, _, _ in framed(b"[1, ]")] == [b"1"]
    assert [raw for raw, _, _ in framed(b"[1,,2,]")] == [b"1", b"", b"2"]


def test_what_is_no_json_is_an_element_too() -> None:
    assert [raw for raw, _, _ in framed(b"[NaN, nul l , 'x', {'a': 1}]")] == [b"NaN", b"nul l", b"'x'", b"{'a': 1}"]


@pytest.mark.parametrize("block", [1, 3, 1000])
@pytest.mark.parametrize(
    ("content", "before", "said"),
    [
        (b'[1, {"a": 2', [b"1"], "ends inside record 2, which begins at byte 4: a quote or bracket is missing there"),
        (b'[1, {"a": "2}, 3]', [b"1"], "ends inside record 2, which begins at byte 4: a quote or bracket is missing there"),
        (b"[1, 2", [b"1"], "ends inside record 2, which begins at byte 4"),
        (b"[{}, {}", [b"{}", b"{}"], "the closing ] is missing behind record 2; the file may have been cut off"),
        (b"[{}, ", [b"{}"], "the closing ] is missing behind record 1"),
        (b"[", [], "the closing ] is missing behind record 0"),
        (b"[{} {}]", [b"{}"], "a comma or ] is missing behind record 1, at byte 4"),
        (b"[{}}]", [b"{}"], "a comma or ] is missing behind record 1, at byte 3"),
        (b"[{}, }]", [b"{}"], "a closing brace stands where record 2 belongs, at byte 5"),
        (b"[{}]\n[{}]", [b"{}"], "something stands behind the array's end, at byte 5"),
    ],
)
def test_where_framing_breaks_the_elements_before_are_given_and_the_place_is_told(
    content: bytes, before: list[bytes], said: str, block: int
) -> None:
    found, message = broken(content, block)
    assert found == before
    assert message.startswith(said)


def test_an_object_with_more_than_its_array_breaks_behind_it() -> None:
    found, message = broken(b'{"a":[1],"b":2}', start=5, key='"a"')
    assert found == [b"1"]
    assert message == 'the object does not end behind its array "a": records come from its only key, at byte 8'
    assert broken(b'{"a":[1]', start=5, key='"a"')[1].startswith("the closing } is missing behind record 1")
