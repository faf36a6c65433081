from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import RecordError
from headrace.sources import parse

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_every_object_is_parsed_exactly(fields: dict[str, object]) -> None:
    parsed = parse(json.dumps(fields).encode())
    assert parsed == fields
    assert repr(parsed) == repr(fields)


@pytest.mark.parametrize("text", ['{"a": 123456789012345678901234567890}', '{"a": [{"b": -123456789012345678901}]}'])
def test_integers_beyond_64_bits_stay_exact(text: str) -> None:
    assert json.dumps(parse(text.encode())) == text


def test_an_escaped_lone_surrogate_is_accepted() -> None:
    assert parse(rb'{"a": "\ud800"}') == {"a": "\ud800"}


def test_the_last_of_equal_keys_counts() -> None:
    assert parse(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[1]", "not a JSON object: array"),
        (b'"str"', "not a JSON object: string"),
        (b"1", "not a JSON object: number"),
        (b"1.5", "not a JSON object: number"),
        (b"1" * 30, "not a JSON object: number"),
        (b"true", "not a JSON object: truth value"),
        (b"null", "not a JSON object: null"),
        (b'{"a": NaN}', "not JSON: NaN is not JSON"),
        (b'{"a": [-Infinity]}', "not JSON: -Infinity is not JSON"),
        (b'{"a": 1e400}', "not JSON: a number too large for a float"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"a":' * 100_000, "not JSON: nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON: an integer of more than 4,300 digits"),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at byte 8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8: byte 0xed at byte 8"),
        (b'{"a": ', "not JSON: Expecting value: line 1 column 7 (char 6)"),
    ],
    ids=range(16),
)
def test_what_is_no_object_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse(raw)
    assert str(caught.value) == reason
