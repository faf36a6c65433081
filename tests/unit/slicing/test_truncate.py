from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.slicing import Truncator
from headrace.values import Piece


def test_fields_that_fit_go_on_as_they_are() -> None:
    fields = {"text": "12345", "n": 123456789, "tags": ["123456789"], "none": None}
    piece = Truncator(5)(7, fields)
    assert piece == Piece(7, 0, fields, cut=False)
    assert piece.fields is fields


def test_each_long_string_is_cut_and_the_record_is_left_alone() -> None:
    fields = {"a": "123456", "b": "1234567", "c": "12", "n": 1234567}
    piece = Truncator(5)(0, fields)
    assert piece == Piece(0, 0, {"a": "12345", "b": "12345", "c": "12", "n": 1234567}, cut=True)
    assert fields["a"] == "123456"


def test_only_fields_that_the_template_prints_are_cut() -> None:
    truncate = Truncator(3, frozenset({"text", "missing"}))
    assert truncate(0, {"text": "ab", "id": "long id"}) == Piece(0, 0, {"text": "ab", "id": "long id"})
    assert truncate(0, {"id": "long id", "text": "abcd"}) == Piece(0, 0, {"id": "long id", "text": "abc"}, cut=True)
    assert Truncator(1, frozenset())(0, {"id": "long id"}) == Piece(0, 0, {"id": "long id"})


@pytest.mark.parametrize(("text", "cut"), [("😀😀😀", "😀😀"), ("e\u0301e\u0301", "e\u0301")])
def test_characters_are_code_points(text: str, cut: str) -> None:
    assert Truncator(2)(0, {"t": text}).fields == {"t": cut}


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), st.text(max_size=8) | st.integers()), st.integers(1, 6))
def test_cut_is_said_exactly_when_something_was_cut(fields: dict[str, Any], limit: int) -> None:
    piece = Truncator(limit)(0, fields)
    assert piece.cut == (piece.fields != fields)
    assert list(piece.fields) == list(fields)
    assert all(len(value) <= limit for value in piece.fields.values() if isinstance(value, str))
