"""Instances of schemas: valid, small, and refused with a reason where none can be made."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.testing.instances import NoInstanceError, instance


def make(schema: Any, word: str = "w0rd") -> Any:
    return instance(schema, word=word, choose=lambda values: values[0])


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name", "children"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["null", "integer"]}}},
        {"type": "object", "required": ["free"], "additionalProperties": {"type": "integer"}},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "string"}},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "x"}], "minItems": 2},
        {"type": "string", "minLength": 10, "maxLength": 12},
        {"type": "string", "maxLength": 2},
        {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 3, "maximum": 3},
        {"type": "integer", "exclusiveMinimum": 10, "multipleOf": 7},
        {"type": "integer", "maximum": -5},
        {"type": "integer", "exclusiveMaximum": 0},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
        {"type": "number", "minimum": 0.2, "maximum": 0.9},
        {"type": "boolean"},
        {"type": "null"},
        {"const": {"deep": [1, None]}},
        {"anyOf": [False, {"type": "integer"}]},
        {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
            ]
        },
        TREE,
    ],
)
def test_the_instance_is_valid(schema: Any):
    jsonschema_rs.validate(schema, make(schema))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (False, "allows nothing"),
        ({"$ref": "https://example.org/x.json"}, "outside"),
        ({"$ref": "#/$defs/none"}, "nowhere"),
        ({"type": "string", "pattern": "^q{99}$"}, "pattern"),
        ({"type": "string", "pattern": "("}, "pattern"),
        ({"type": "array", "minItems": 10**9}, "minItems"),
        ({"type": "string", "minLength": 10**9}, "minLength"),
        ({"type": "ghost"}, "type"),
        ({"$ref": "#"}, "recursive"),
        (
            {
                "type": "object",
                "required": ["l", "r"],
                "properties": {"l": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "r": {"$ref": "#"}},
            },
            "recursive",
        ),
    ],
)
def test_a_schema_without_a_small_instance_is_refused_with_the_reason(schema: Any, says: str):
    with pytest.raises(NoInstanceError, match=says):
        make(schema)


def test_a_reference_may_hold_escaped_characters():
    assert make({"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": {"const": 5}}}) == 5


@given(
    low=st.integers(-1000, 1000),
    room=st.integers(0, 100),
    kind=st.sampled_from(["integer", "number"]),
)
def test_a_number_lies_within_its_bounds(low: int, room: int, kind: str):
    value = make({"type": kind, "minimum": low, "maximum": low + room})
    assert low <= value <= low + room


@given(least=st.integers(0, 50), more=st.integers(0, 50))
def test_a_string_has_the_length_asked_for(least: int, more: int):
    assert least <= len(make({"type": "string", "minLength": least, "maxLength": least + more})) <= least + more
