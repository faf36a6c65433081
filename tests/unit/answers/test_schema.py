"""Schemas: compiled, checked, and written for servers."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.answers.schema import AnswerSchema
from headrace.errors import SpecError
from headrace.spec import JobSpec


def of(answer: dict[str, Any]) -> AnswerSchema | None:
    job = {
        "input": {"path": "x"},
        "prompt": {"user": "x"},
        "model": {"name": "m"},
        "endpoint": {"url": "local"},
        "output": {"path": "o"},
    }
    return AnswerSchema.of(JobSpec.model_validate({**job, "answer": answer}))


def test_labels_travel_as_a_closed_object() -> None:
    schema = of({"labels": ["a", "b", "a"]})
    assert schema is not None
    assert schema.labels == ["a", "b"]
    assert schema.wire() == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "schema": {
                "type": "object",
                "properties": {"label": {"enum": ["a", "b"]}},
                "required": ["label"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }
    strict = schema.strict()
    assert strict is not None
    assert strict["json_schema"]["schema"]["properties"] == {"label": {"enum": ["a", "b"], "type": "string"}}


def test_a_job_without_schema_has_none() -> None:
    assert of({}) is None


def test_schema_and_labels_together_are_refused() -> None:
    with pytest.raises(SpecError, match="keep one"):
        of({"labels": ["a"], "schema": {}})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"pattern": "("},
        {"$ref": "http://127.0.0.1:9/x.json"},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "#/$defs/nope"},
        {"$schema": "http://127.0.0.1:9/meta", "type": "string"},
        {"required": "x"},
        {"const": float("nan")},
        {"enum": ["\ud800"]},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_in_one_line(schema: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        AnswerSchema(schema)
    assert caught.value.key == "answer.schema"
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("value", "pointer", "keyword"),
    [
        ({"a": {"b/c": [1, "x"]}}, "/a/b~1c/1", "type"),
        ({}, "(the whole answer)", "required"),
        ({"a": {}, "z": "\x1b[31m" * 200}, "(the whole answer)", "additionalProperties"),
        ([], "(the whole answer)", "type"),
        ({"a": {"b/c": ["\x1b" * 5000]}}, "/a/b~1c/0", "type"),
        ({"a": {"b/c": ["\ud800"]}}, "/a/b~1c/0", "type"),
        ({"\ud800": 1}, "(the whole answer)", "additionalProperties"),
    ],
)
@pytest.mark.parametrize("is_large", [False, True])
def test_a_fault_names_pointer_and_keyword_in_printable_text(value: Any, pointer: str, keyword: str, is_large: bool) -> None:
    inner = {"type": "object", "properties": {"b/c": {"type": "array", "items": {"type": "integer"}}}}
    schema = AnswerSchema({"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False})
    fault = schema.fault(value, is_large=is_large)
    assert fault is not None
    assert fault.startswith(f"{pointer}: {keyword}: ")
    assert fault.isprintable()
    assert len(fault) <= 300


def test_valid_values_have_no_fault() -> None:
    schema = AnswerSchema({"type": "object", "properties": {"s": {"type": "string", "maxLength": 1}, "n": {"type": "integer"}}})
    assert schema.fault({"s": "x", "n": 10**30}) is None
    assert schema.fault({"s": "\ud800"}) is None
    assert schema.fault({"s": "\U0001f600"}) is None


def test_a_deep_value_that_does_not_match_is_told() -> None:
    value: Any = 1
    for _ in range(490):
        value = [value]
    assert AnswerSchema({"type": "object"}).fault(value) is not None
    assert AnswerSchema({"items": {"$ref": "#"}}).fault(value) is None
    surrogate: Any = "\ud800"
    for _ in range(490):
        surrogate = [surrogate]
    assert AnswerSchema({"type": "array"}).fault(surrogate) is None


def test_drafts_are_told_by_the_schema_and_formats_are_notes() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 1, "exclusiveMaximum": True}
    assert AnswerSchema(old).fault(1) is not None
    assert AnswerSchema({"type": "string", "format": "email"}).fault("none") is None


def test_a_schema_that_no_strict_form_can_say_is_sent_without_that_word() -> None:
    free = AnswerSchema({"type": "object", "properties": {"counts": {"type": "object"}}})
    assert free.wire()["json_schema"] == {"name": "answer", "schema": free.schema, "strict": False}
    assert free.strict() is None
