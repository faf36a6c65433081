"""What servers that insist on strict schemas have against one, and the form of it that they take.

By OpenAI's rules for structured outputs, which others follow: every object is closed and requires all its properties, every
part has a type, and only some keywords are known. The strict form allows no answer that the schema forbids, but for keywords
that only narrow what a type allows: these are left out of it, and what comes is checked against the schema itself all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

# Where a schema holds further schemas. What stands elsewhere (enum, const, examples) is data and is not looked into.
_PARTS = frozenset(
    {
        "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf", "prefixItems",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_TABLES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DEFINITIONS = ("$defs", "definitions")
_LEFT_OUT = frozenset(
    {
        "$comment", "$id", "$schema", "contains", "default", "dependentRequired", "dependentSchemas", "deprecated", "else",
        "examples", "if", "maxContains", "maxLength", "maxProperties", "minContains", "minLength", "minProperties", "not",
        "propertyNames", "readOnly", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
    }
)  # fmt: skip
_TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_MOST_PROPERTIES = 5_000
_MOST_LEVELS = 10
_MOST_CHOICES = 1_000
_NAMED = 3


class Objection(Struct, frozen=True):
    """What is refused, and where: a JSON pointer into the schema. `is_final`: no strict form means the same."""

    pointer: str
    why: str
    is_final: bool = False

    def __str__(self) -> str:
        return f"at {self.pointer or 'the top'}: {self.why}"


def objections(schema: dict[str, Any]) -> list[Objection]:
    """What strict servers have against a schema; the final ones first. Empty: they take it as it stands."""
    found = [*_of_the_whole(schema), *_walk(schema, "", 0)]
    return sorted(found, key=lambda objection: not objection.is_final)


def described(found: list[Objection]) -> str:
    """The first of them in words."""
    more = f"; and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return "; ".join(map(str, found[:_NAMED])) + more


def strict_form(schema: Any) -> Any:
    """The schema as strict servers take it, where that means the same."""
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        return {name: value for name, value in schema.items() if name == "$ref"} | _definitions(schema)
    strict: dict[str, Any] = {}
    for name, value in schema.items():
        if name not in _LEFT_OUT:
            strict["anyOf" if name == "oneOf" and "anyOf" not in schema else name] = _strict_part(name, value)
    if _is_object(schema):
        strict["additionalProperties"] = False
        strict["required"] = list(strict.setdefault("properties", {}))
    elif "type" not in schema and (kind := _type_of_choices(schema)) is not None:
        strict["type"] = kind
    only = schema.get("allOf")
    if isinstance(only, list) and len(only) == 1 and isinstance(inner := strict.pop("allOf")[0], dict):
        strict = {"$ref": inner["$ref"]} | _definitions(schema) if "$ref" in inner else inner | strict
    return strict


def _definitions(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: _strict_part(name, schema[name]) for name in _DEFINITIONS if name in schema}


def _strict_part(name: str, value: Any) -> Any:
    if name in _TABLES and isinstance(value, dict):
        return {key: strict_form(part) for key, part in value.items()}
    if name in _PARTS:
        return [strict_form(part) for part in value] if isinstance(value, list) else strict_form(value)
    return value


def _of_the_whole(schema: dict[str, Any]) -> Iterator[Objection]:
    if schema.get("type") != "object" and "$ref" not in schema and "properties" not in schema:
        yield Objection("", "the top level is not one object", is_final=True)
    elif "anyOf" in schema or "oneOf" in schema:
        yield Objection("", "the top level is a choice", is_final=True)
    properties = choices = 0
    for part in _all_parts(schema):
        properties += len(table) if isinstance(table := part.get("properties"), dict) else 0
        choices += len(listed) if isinstance(listed := part.get("enum"), list) else 0
    if properties > _MOST_PROPERTIES:
        yield Objection("", f"it has more than {_MOST_PROPERTIES:,} properties", is_final=True)
    if choices > _MOST_CHOICES:
        yield Objection("", f"it has more than {_MOST_CHOICES:,} enum values", is_final=True)


def _all_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += [inner for _, inner in _parts_of(part)]


def _parts_of(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas within one, each with the rest of its pointer."""
    for name, value in schema.items():
        if name in _TABLES and isinstance(value, dict):
            for key, part in value.items():
                yield f"/{name}/{_escaped(key)}", part
        elif name in _PARTS and isinstance(value, list):
            for place, part in enumerate(value):
                yield f"/{name}/{place}", part
        elif name in _PARTS:
            yield f"/{name}", value


def _walk(schema: Any, pointer: str, level: int) -> Iterator[Objection]:
    """What is wrong with one part, and with those within it."""
    if schema is True or schema == {}:
        yield Objection(pointer, "anything is allowed", is_final=True)
    if not isinstance(schema, dict) or not schema:
        return
    if level > _MOST_LEVELS:
        yield Objection(pointer, f"it is nested deeper than {_MOST_LEVELS} levels", is_final=True)
        return
    for rule in _RULES:
        yield from rule(schema, pointer)
    is_one = _is_object(schema) or _allows(schema, "array")
    for place, part in _parts_of(schema):
        name = place.split("/", 2)[1]
        if name not in _LEFT_OUT and name not in ("additionalProperties", "patternProperties"):
            yield from _walk(part, pointer + place, 0 if name in _DEFINITIONS else level + is_one)


def _keywords(schema: dict[str, Any], pointer: str) -> Iterator[Objection]:
    names = sorted(_LEFT_OUT.intersection(schema))
    if "$ref" in schema:
        names = sorted(schema.keys() - {"$ref", *_DEFINITIONS})
        if names:
            yield Objection(pointer, f"$ref stands beside {', '.join(names[:_NAMED])}")
    elif names:
        yield Objection(pointer, f"{', '.join(names[:_NAMED])} {'is' if len(names) == 1 else 'are'} not known")
    if "oneOf" in schema:
        yield Objection(pointer, "oneOf is not known")
    parts = schema.get("allOf")
    if isinstance(parts, list) and parts:
        yield Objection(pointer, "allOf is not known", is_final=len(parts) > 1)


def _types(schema: dict[str, Any], pointer: str) -> Iterator[Objection]:
    if schema.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "properties"}:
        return
    yield Objection(pointer, "it has no type", is_final=_type_of_choices(schema) is None)


def _objects(schema: dict[str, Any], pointer: str) -> Iterator[Objection]:
    if not _is_object(schema):
        return
    names, more = schema.get("properties") or {}, schema.get("additionalProperties", True)
    if schema.get("patternProperties") or (isinstance(more, dict) and more) or (not names and more is not False):
        yield Objection(pointer, "its keys are free", is_final=True)
        return
    if more is not False:
        yield Objection(pointer, "additionalProperties is not false")
    required = schema.get("required")
    missing = [name for name in names if not isinstance(required, list) or name not in required]
    if missing:
        yield Objection(pointer, f"{', '.join(map(repr, missing[:_NAMED]))} not required")


def _arrays(schema: dict[str, Any], pointer: str) -> Iterator[Objection]:
    if _allows(schema, "array") and ("items" not in schema or "prefixItems" in schema):
        yield Objection(pointer, "an array without one schema for its items", is_final=True)


_RULES: tuple[Callable[[dict[str, Any], str], Iterator[Objection]], ...] = (_keywords, _types, _objects, _arrays)


def _is_object(schema: dict[str, Any]) -> bool:
    return _allows(schema, "object") or "properties" in schema


def _allows(schema: dict[str, Any], kind: str) -> bool:
    named = schema.get("type")
    return named == kind or (isinstance(named, list) and kind in named)


def _type_of_choices(schema: dict[str, Any]) -> str | list[str] | None:
    """The type of what enum or const allow, or the types; None where they allow nothing, or more than plain values."""
    choices = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    kinds = list(dict.fromkeys(_TYPE_OF.get(type(choice)) for choice in choices))
    if not kinds or None in kinds:
        return None
    return kinds[0] if len(kinds) == 1 else [str(kind) for kind in kinds]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
