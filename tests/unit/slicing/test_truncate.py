from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.slicing.texts import texts

from headrace.slicing import Truncator
from headrace.slicing.measure import Measure
from headrace.values import Piece


def test_fields_that_fit_go_on_as_they_are() -> None:
    fields = {"text": "12345", "n": 123456789, "tags": ["123456789"], "none": None}
    piece = Truncator("5 chars")(7, fields)
    assert piece == Piece(7, 0, fields, cut=False)
    assert piece.fields is fields


def test_each_long_string_is_cut_and_the_record_is_left_alone() -> None:
    fields = {"a": "123456", "b": "1234567", "c": "12", "n": 1234567}
    piece = Truncator("5 chars")(0, fields)
    assert piece == Piece(0, 0, {"a": "12345", "b": "12345", "c": "12", "n": 1234567}, cut=True)
    assert fields["a"] == "123456"


def test_only_fields_that_the_template_prints_are_cut() -> None:
    truncate = Truncator("3 chars", frozenset({"text", "missing"}))
    assert truncate(0, {"text": "ab", "id": "long id"}) == Piece(0, 0, {"text": "ab", "id": "long id"})
    assert truncate(0, {"id": "long id", "text": "abcd"}) == Piece(0, 0, {"id": "long id", "text": "abc"}, cut=True)
    assert Truncator("1 chars", frozenset())(0, {"id": "long id"}) == Piece(0, 0, {"id": "long id"})


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("😀😀😀", 2, "😀😀"),
        ("e\u0301e\u0301", 3, "e\u0301"),  # an accent stays with its letter
        ("👩‍👧👩‍👧", 4, "👩‍👧"),  # a family is one picture
        ("🇩🇪🇫🇷", 3, "🇩🇪"),  # half a flag is none
        ("ab\r\ncd", 3, "ab"),
        ("One sentence. And another that is cut", 25, "One sentence. And another"),
        ("It ends here. And this goes too far", 16, "It ends here."),
        ("漢字がある。そして続く", 8, "漢字がある。"),
        ("unbroken" * 10, 30, ("unbroken" * 10)[:30]),
    ],
)
def test_a_cut_falls_where_a_reader_would_set_it(text: str, limit: int, cut: str) -> None:
    assert Truncator(f"{limit} chars")(0, {"t": text}).fields == {"t": cut}


def test_tokens_are_estimated() -> None:
    plain, wide = Truncator("100 tokens")(0, {"t": "word " * 200}), Truncator("100 tokens")(0, {"t": "漢" * 200})
    assert 450 <= len(plain.fields["t"]) <= 500
    assert 120 <= len(wide.fields["t"]) <= 160
    assert set(wide.fields["t"]) == {"漢"}


@pytest.mark.slow
@given(
    st.dictionaries(st.text(max_size=3), texts | st.integers(), max_size=4),
    st.integers(1, 60),
    st.sampled_from(["chars", "tokens"]),
)
def test_cut_is_said_exactly_when_something_was_cut(fields: dict[str, Any], limit: int, unit: str) -> None:
    piece, measure = Truncator(f"{limit} {unit}")(0, fields), Measure(f"{limit} {unit}")
    assert piece.cut == (piece.fields != fields)
    assert list(piece.fields) == list(fields)
    for name, value in fields.items():
        if not isinstance(value, str):
            assert piece.fields[name] == value
            continue
        kept = piece.fields[name]
        assert value.startswith(kept)
        assert kept == value if measure.fits(value) else measure.fits(kept) or len(kept) == 1
        assert kept or not value
