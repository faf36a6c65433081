"""Rows as cells and columns as types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import OutputError
from headrace.sinks import columns
from headrace.sinks.cells import CellKind, cells, kind, strings, text
from headrace.sinks.columns import ColumnType, infer
from headrace.sinks.row import OutputRow


def test_tokens_stay_as_they_were() -> None:
    raw = b' {"a":1.00, "b" : 1e5 ,"c":{"x": [1.0]},"d":"t","a":2.50}'
    assert cells(OutputRow(raw, {})) == {"a": b"2.50", "b": b"1e5", "c": b'{"x": [1.0]}', "d": b'"t"'}


def test_tokens_stay_exact_beside_a_lone_surrogate() -> None:
    raw = rb' {"a" : 1.00, "s\udc00" : "\ud800" ,"c":{"x": [1.0]} , "n":123456789012345678901}'
    assert cells(OutputRow(raw, {})) == {
        "a": b"1.00",
        r"s\udc00": rb'"\ud800"',
        "c": b'{"x": [1.0]}',
        "n": b"123456789012345678901",
    }


@pytest.mark.parametrize(
    "raw", [b"", b"[1]", b"{", b'{"a"', b'{"a":', b'{"a":1', b"nonsense", b'{"a":' + b"[" * 100_000, b"\xff{}"]
)
def test_what_is_no_object_has_no_fields(raw: bytes) -> None:
    assert cells(OutputRow(raw, {"answer": None})) == {"answer": b"null"}


def test_a_byte_order_mark_is_passed_over() -> None:
    assert cells(OutputRow(b'\xef\xbb\xbf{"a":1}', {})) == {"a": b"1"}


def test_of_one_name_ours_counts() -> None:
    assert cells(OutputRow(b'{"answer":1}', {"answer": 2})) == {"answer": b"2"}


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, None),
        (b"null", None),
        (b"true", "true"),
        (b"1.00", "1.00"),
        (b'"a\\nb"', "a\nb"),
        (b'"\\ud800"', "\\ud800"),
        (b'"\xff"', "\ufffd"),
        (b'{"a": 1}', '{"a": 1}'),
        (b'[1, "\xff"]', '[1, "\ufffd"]'),
    ],
)
def test_text_of_a_cell(cell: bytes | None, shown: str | None) -> None:
    assert text(cell) == shown


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (b"null", CellKind.NOTHING),
        (b"false", CellKind.TRUTH),
        (b"9007199254740992", CellKind.INTEGER),
        (b"-9007199254740993", CellKind.LONG),
        (b"9223372036854775807", CellKind.LONG),
        (b"-9223372036854775808", CellKind.LONG),
        (b"9223372036854775808", CellKind.OTHER),
        (b"1" * 5000, CellKind.OTHER),
        (b"1.5", CellKind.REAL),
        (b"1E5", CellKind.REAL),
        (b"1e999", CellKind.OTHER),
        (b'"1"', CellKind.STRING),
        (b"[]", CellKind.STRINGS),
        (b'["a",null]', CellKind.STRINGS),
        (b'["\\ud800"]', CellKind.STRINGS),
        (b"[1]", CellKind.OTHER),
        (b'["\\ud800",1]', CellKind.OTHER),
        (b"[" * 5000 + b"]" * 5000, CellKind.OTHER),
        (b"{}", CellKind.OTHER),
    ],
)
def test_kind_of_a_cell(cell: bytes, expected: CellKind) -> None:
    assert kind(cell) == expected


def test_strings_with_a_lone_surrogate_are_escaped() -> None:
    assert strings(b'["\\ud800", null, "\xc3\xa9"]') == ["\\ud800", None, "é"]


def rows_of(*values: Any) -> list[OutputRow]:
    return [OutputRow(json.dumps({"v": value}).encode(), {"answer": "x"}) for value in values]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((None, None), ColumnType.STRING),
        ((True, None), ColumnType.TRUTH),
        ((1, 2**62, None), ColumnType.INT64),
        ((1, 2**63), ColumnType.STRING),
        ((1, 2.5), ColumnType.DOUBLE),
        ((2**53 + 1, 2.5), ColumnType.STRING),
        ((1, True), ColumnType.STRING),
        ((1, "1"), ColumnType.STRING),
        ((["a"], [], None), ColumnType.STRINGS),
        ((["a"], [1]), ColumnType.STRING),
        (({},), ColumnType.STRING),
    ],
)
def test_a_column_is_typed_only_where_every_value_fits_exactly(values: tuple[Any, ...], expected: ColumnType) -> None:
    assert infer(rows_of(*values))["v"] is expected


def test_columns_are_the_inputs_in_order_of_appearance_and_then_ours() -> None:
    rows = [
        OutputRow(b'{"b":1}', {"answer": None, "answer_notes": []}),
        OutputRow(None, {"answer": None, "answer_notes": []}),
        OutputRow(b'{"a":1,"b":2}', {"answer": None, "answer_notes": []}),
    ]
    assert list(infer(rows)) == ["b", "a", "answer", "answer_notes"]


def test_our_notes_are_a_list_even_where_no_value_says_so() -> None:
    assert infer([OutputRow(b"{}", {"answer_notes_": None})]) == {"answer_notes_": ColumnType.STRINGS}


def test_more_fields_than_a_table_can_have_are_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_COLUMNS", 3)
    endless = (OutputRow(b'{"k%d":1}' % n, {}) for n in iter(int, 1))
    numbered = (OutputRow(b'{"k%d":1}' % n, {}) for n, _ in enumerate(endless))
    with pytest.raises(OutputError, match=r"write a \.jsonl file instead"):
        infer(numbered)
