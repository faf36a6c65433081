"""A frame's columns that are ours have the same types whatever the outcomes are."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.runs.frames import polars_frame
from headrace.spec import AnswerSpec

NAMES = {name: name for name in ("answer", "answer_status", "answer_error", "answer_notes")}
DETAILS = {
    name: name
    for name in (
        "answer_model", "answer_attempts", "answer_prompt_tokens", "answer_completion_tokens", "answer_cached_tokens",
        "answer_seconds", "answer_unit", "answer_raw", "answer_record", "answer_input", "answer_confidence",
    )
}  # fmt: skip


def done(answer: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "answer": answer, "answer_status": "done", "answer_error": None, "answer_notes": [], **more}


def failed(**more: Any) -> dict[str, Any]:
    row = done(None, **more)
    return {**row, "answer_status": "failed", "answer_error": "timeout: too slow", "answer_notes": ["input_cut"]}


def schema_of(rows: list[dict[str, Any]], names: dict[str, str] = NAMES, **answer: Any) -> dict[str, Any]:
    return {name: kind for name, kind in polars_frame(rows, names, AnswerSpec(**answer)).schema.items() if name != "id"}


@pytest.mark.parametrize("answer", [{}, {"labels": ["a", "b"]}])
def test_text_and_labels_have_the_same_types_whatever_the_outcomes(answer: dict[str, Any]) -> None:
    expected = {"answer": pl.String, "answer_status": pl.String, "answer_error": pl.String, "answer_notes": pl.List(pl.String)}
    for rows in ([done("a")], [failed()], [done("a"), failed()], []):
        assert schema_of(rows, **answer) == expected


def test_details_have_their_types_where_nothing_is_known_of_them() -> None:
    nothing = dict.fromkeys(DETAILS)
    something = {
        "answer_model": "m", "answer_attempts": 1, "answer_prompt_tokens": 1, "answer_completion_tokens": 1, "answer_cached_tokens": 0,
        "answer_seconds": 1, "answer_unit": "u", "answer_raw": "r", "answer_record": 3, "answer_input": "x", "answer_confidence": 1,
    }  # fmt: skip
    names = NAMES | DETAILS
    assert schema_of([done("a", **nothing)], names) == schema_of([done("a", **something)], names)


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        ({"type": "string"}, "x", pl.String),
        ({"enum": ["a", None]}, "a", pl.String),
        ({"const": "a"}, "a", pl.String),
        ({"type": "integer"}, 3, pl.Int64),
        ({"type": "number"}, 3, pl.Float64),
        ({"type": ["boolean", "null"]}, True, pl.Boolean),
        ({"type": "array", "items": {"type": "number"}}, [1, 2.5], pl.List(pl.Float64)),
    ],
)
def test_an_answer_has_the_type_that_its_schema_says(schema: dict[str, Any], value: Any, kind: Any) -> None:
    field = {"schema": {"type": "object", "properties": {"x": schema}}, "field": "x"}
    for answer in ({"schema": schema}, field):
        for rows in ([done(value)], [failed()], [failed(), done(value)], []):
            assert schema_of(rows, **answer)["answer"] == kind


def test_an_object_that_can_have_no_other_fields_is_a_structure() -> None:
    schema = {
        "type": "object", "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    }  # fmt: skip
    kind = pl.Struct({"name": pl.String, "tags": pl.List(pl.String)})
    for rows in ([done({"name": "x", "tags": []})], [done({"name": "x"})], [failed()]):
        assert schema_of(rows, schema=schema)["answer"] == kind


def test_an_object_that_may_have_other_fields_loses_none() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    frame = polars_frame([done({"name": "x", "more": 1})], NAMES, AnswerSpec(schema=schema))
    assert frame["answer"].to_list() == [{"name": "x", "more": 1}]


def test_a_value_that_the_type_cannot_hold_is_kept() -> None:
    frame = polars_frame([done(2**70), done(1)], NAMES, AnswerSpec(schema={"type": "integer"}))
    assert frame["answer"].null_count() == 0


def test_an_open_answer_without_any_value_is_text() -> None:
    assert schema_of([failed()], schema={"type": "object"})["answer"] == pl.String


def test_fields_of_ours_are_found_under_the_names_that_a_clash_gave_them() -> None:
    names = {
        "answer": "answer_",
        "answer_status": "answer_status",
        "answer_error": "answer_error_",
        "answer_notes": "answer_notes",
    }
    row = {"answer": 7, "answer_error": 8, "answer_": None, "answer_status": "failed", "answer_error_": None, "answer_notes": []}
    schema = polars_frame([row], names, AnswerSpec()).schema
    assert (schema["answer"], schema["answer_"], schema["answer_error_"]) == (pl.Int64, pl.String, pl.String)
