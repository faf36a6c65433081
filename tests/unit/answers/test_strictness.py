"""What strict servers have against a schema, by JSON pointer, and the form of it that they take."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.answers.strictness import described, objections, strict_form

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def said(schema: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(str(objection), objection.is_final) for objection in objections(schema)]


def within(part: Any) -> dict[str, Any]:
    return CLOSED | {"properties": {"a": part}}


def test_a_strict_schema_is_taken_as_it_stands() -> None:
    assert objections(CLOSED) == []
    assert strict_form(CLOSED) == CLOSED


def test_req_05_a_schema_as_pydantic_writes_it_is_put_into_strict_form() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"Part": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "title": "Part"}},
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "part": {"$ref": "#/$defs/Part", "description": "the part"},
            "old": {"allOf": [{"$ref": "#/$defs/Part"}], "default": {"n": 1}},
            "either": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
            "tag": {"const": "x"},
        },
        "required": ["name"],
    }
    before = repr(schema)
    assert said(schema) == [
        ("at the top: $schema is not known", False),
        ("at the top: additionalProperties is not false", False),
        ("at the top: 'note', 'part', 'old' not required", False),
        ("at /$defs/Part: additionalProperties is not false", False),
        ("at /properties/note: default is not known", False),
        ("at /properties/part: $ref stands beside description", False),
        ("at /properties/old: default is not known", False),
        ("at /properties/old: allOf is not known", False),
        ("at /properties/either: oneOf is not known", False),
        ("at /properties/either/oneOf/0: minLength is not known", False),
        ("at /properties/tag: it has no type", False),
    ]
    strict = strict_form(schema)
    assert strict == {
        "$defs": {
            "Part": {
                "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "title": "Part",
                "additionalProperties": False,
            }
        },
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "part": {"$ref": "#/$defs/Part"},
            "old": {"$ref": "#/$defs/Part"},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tag": {"const": "x", "type": "string"},
        },
        "additionalProperties": False,
        "required": ["name", "note", "part", "old", "either", "tag"],
    }  # fmt: skip
    assert objections(strict) == []
    assert repr(schema) == before


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array", "items": {"type": "string"}}, "at the top: the top level is not one object"),
        ({"anyOf": [CLOSED, CLOSED]}, "at the top: the top level is not one object"),
        (CLOSED | {"anyOf": [CLOSED]}, "at the top: the top level is a choice"),
        ({"type": "object"}, "at the top: its keys are free"),
        (within({"type": "object", "additionalProperties": {"type": "integer"}}), "at /properties/a: its keys are free"),
        (within({"type": "object", "patternProperties": {"^x": {}}}), "at /properties/a: its keys are free"),
        (within({}), "at /properties/a: anything is allowed"),
        (within({"description": "anything"}), "at /properties/a: it has no type"),
        (within({"const": {"n": 1}}), "at /properties/a: it has no type"),
        (within({"type": "array"}), "at /properties/a: an array without one schema for its items"),
        (within({"type": "array", "prefixItems": [{"type": "null"}]}), "at /properties/a: an array without one schema for its items"),
        (within({"allOf": [CLOSED, CLOSED]}), "at /properties/a: allOf is not known"),
        (within({"enum": [str(n) for n in range(1001)], "type": "string"}), "at the top: it has more than 1,000 enum values"),
        (within({"type": "object", "properties": {f"{n}": {"type": "null"} for n in range(5001)}}), "it has more than 5,000 properties"),
    ],
)  # fmt: skip
def test_what_no_strict_form_can_say_is_final(schema: dict[str, Any], words: str) -> None:
    first = objections(schema)[0]
    assert first.is_final
    assert words in str(first)


def test_nesting_is_counted_and_that_of_definitions_by_itself() -> None:
    def nested(levels: int) -> dict[str, Any]:
        return within(nested(levels - 1)) if levels else CLOSED

    assert objections(nested(9)) == []
    assert [objection.is_final for objection in objections(nested(11))] == [True]
    assert objections(CLOSED | {"$defs": {"a": nested(9)}}) == []


def test_types_are_told_by_plain_choices() -> None:
    assert strict_form({"enum": ["a", None]}) == {"enum": ["a", None], "type": ["string", "null"]}
    assert strict_form({"const": True}) == {"const": True, "type": "boolean"}
    assert strict_form({"enum": [1, 2.5]}) == {"enum": [1, 2.5], "type": ["integer", "number"]}
    assert strict_form({"enum": []}) == {"enum": []}


def test_data_is_not_taken_for_a_schema() -> None:
    schema = within({"type": "string", "enum": ["default"], "examples": [{"type": "object"}]})
    assert said(schema) == [("at /properties/a: examples is not known", False)]
    assert strict_form(within({"const": {"default": 1}, "type": "object"}))["properties"]["a"]["const"] == {"default": 1}


def test_pointers_are_escaped_and_only_the_first_are_named() -> None:
    schema = CLOSED | {"properties": {"a": {"type": "string"}, "x/y~z": {"type": "object", "properties": {}}}}
    assert "/properties/x~1y~0z" in described(objections(schema))
    many = CLOSED | {"properties": {f"{n}": {"type": "string", "default": ""} for n in range(9)}, "required": [*"012345678"]}
    assert described(objections(many)).endswith("at /properties/2: default is not known; and 6 more")


_PLAIN = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["null", "number"]}, {"enum": ["a", "b"]}]
)


@st.composite
def _objects(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1))
    parts = {name: draw(_objects(depth - 1) if depth and draw(st.booleans()) else _PLAIN) for name in names}
    more = {"additionalProperties": True} if draw(st.booleans()) else {}
    return {"type": "object", "properties": parts, "required": draw(st.lists(st.sampled_from(names), unique=True)), **more}


@given(_objects(), st.data())
def test_what_the_strict_form_allows_the_schema_allows(schema: dict[str, Any], data: st.DataObject) -> None:
    strict = strict_form(schema)
    assert objections(strict) == []
    value = data.draw(_values(strict))
    assert jsonschema_rs.is_valid(strict, value)
    assert jsonschema_rs.is_valid(schema, value)


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            return st.fixed_dictionaries({name: _values(part) for name, part in schema["properties"].items()})
        case "string":
            return st.text(st.characters(codec="utf-8"), max_size=3)
        case "integer":
            return st.integers(0, 9)
    return st.none() | st.integers(0, 9)
