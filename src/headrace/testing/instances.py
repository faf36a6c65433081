"""Small valid instances of a JSON Schema, for simulated answers that obey the schema they were asked with."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

BUDGET = 10_000
MAX_DEPTH = 48
FORMATS = {
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@example.org",
    "hostname": "example.org",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
TRIES = ("", "a", "A", "0", "1", "aa", "AA", "00", "a0", "A0", "AAA", "000", "0000", "00000", "2026-01-01", "a@b.co", "0.0")
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

Choose = Callable[[Sequence[Any]], Any]


class NoInstanceError(ValueError):
    """No instance can be made of this schema here; the message says which keyword stands in the way."""


def instance(schema: Any, *, word: str, choose: Choose) -> Any:
    """A small instance: required properties only (all, where none is required), the fewest items.

    `word` is what free strings hold, cut or padded to their length; `choose` picks one of an enum's values. Local `$ref`
    are followed. Raises NoInstanceError. Keywords such as `not` and `if` are not looked at: the caller validates.
    """
    return _Maker(schema, word, choose).make(schema, 0)


class _Maker:
    def __init__(self, root: Any, word: str, choose: Choose) -> None:
        self._root = root
        self._word = word
        self._choose = choose
        self._left = BUDGET
        self._makers: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": lambda schema, _: _number(schema, whole=True),
            "number": lambda schema, _: _number(schema, whole=False),
            "boolean": lambda _schema, _: self._choose((True, False)),
            "null": lambda _schema, _: None,
        }

    def make(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise NoInstanceError("the schema has no small instance (recursive?)")
        if schema is True or schema == {}:
            return self._word
        if not isinstance(schema, dict):
            raise NoInstanceError("a part of the schema allows nothing")
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._choose(schema["enum"])
        if "$ref" in schema:
            return self.make(self._resolve(schema["$ref"]), depth + 1)
        if isinstance(schema.get("allOf"), list):
            return self.make(self._merged(schema), depth + 1)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return self._any(schema[word], depth)
        return self._makers[_type_of(schema)](schema, depth)

    def _any(self, options: list[Any], depth: int) -> Any:
        reason = NoInstanceError("anyOf has no option")
        for option in options:
            try:
                return self.make(option, depth + 1)
            except NoInstanceError as error:
                reason = error
        raise reason

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        if isinstance(required, list) and required:
            others = schema.get("additionalProperties", True)
            return {name: self.make(properties.get(name, others), depth + 1) for name in required if isinstance(name, str)}
        made: dict[str, Any] = {}
        for name, part in properties.items():
            try:
                made[name] = self.make(part, depth + 1)
            except NoInstanceError:
                continue  # it may be left out
        return made

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        first = schema.get("prefixItems")
        made = [self.make(part, depth + 1) for part in first] if isinstance(first, list) else []
        least = int(_bound(schema, "minItems") or 0)
        if least > 1000:
            raise NoInstanceError(f"minItems is {least}")
        word = self._word
        while len(made) < least:
            if schema.get("uniqueItems"):
                self._word = f"{word}{len(made)}"
            made.append(self.make(schema.get("items", True), depth + 1))
        self._word = word
        return made

    def _string(self, schema: dict[str, Any], _depth: int) -> str:
        least = int(_bound(schema, "minLength") or 0)
        most = _bound(schema, "maxLength")
        if least > 1_000_000:
            raise NoInstanceError(f"minLength is {least}")
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            return self._matching(pattern, least, most)
        form = schema.get("format")
        if isinstance(form, str) and form in FORMATS:
            return FORMATS[form]
        text = self._word.ljust(least, "x")
        return text if most is None else text[: int(most)]

    def _matching(self, pattern: str, least: int, most: float | None) -> str:
        try:
            compiled = re.compile(pattern)
        except re.error:
            raise NoInstanceError("pattern is not understood") from None
        for text in (self._word, *TRIES):
            if len(text) >= least and (most is None or len(text) <= most) and compiled.search(text):
                return text
        raise NoInstanceError("pattern is too particular for a simulated answer")

    def _resolve(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise NoInstanceError("$ref leads outside the schema")
        found = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise NoInstanceError("$ref leads nowhere")
            found = found[name]
        return found

    def _merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            if isinstance(part, dict) and "$ref" in part:
                part = {**self._resolve(part["$ref"]), **{key: value for key, value in part.items() if key != "$ref"}}
            if not isinstance(part, dict):
                continue
            for key, value in part.items():
                if key == "properties" and isinstance(merged.get(key), dict) and isinstance(value, dict):
                    merged[key] = {**merged[key], **value}
                elif key == "required" and isinstance(merged.get(key), list) and isinstance(value, list):
                    merged[key] = [*merged[key], *value]
                else:
                    merged[key] = value
        return merged


def _type_of(schema: dict[str, Any]) -> str:
    said = schema.get("type")
    if isinstance(said, list):
        said = next((name for name in said if name != "null"), "null")
    if said in TYPES:
        return str(said)
    if said is not None:
        raise NoInstanceError("type is not one of JSON's")
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if "minimum" in schema or "maximum" in schema:
        return "number"
    return "string"


def _number(schema: dict[str, Any], *, whole: bool) -> int | float:
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    above, below = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    step = _bound(schema, "multipleOf") or (1 if whole else 0)
    grain = step or 1
    if above is not None and (low is None or above >= low):
        room = below if below is not None else high
        low = (math.floor(above / step) + 1) * step if step else ((above + room) / 2 if room is not None else above + 1)
    if below is not None and (high is None or below <= high):
        high = (math.ceil(below / step) - 1) * step if step else (below - grain if low is None else (low + below) / 2)
    value: float = 0
    if low is not None and value < low:
        value = low
    if high is not None and value > high:
        value = high
    if step:
        value = (math.ceil(value / step) if low is not None and value == low else math.floor(value / step)) * step
    return int(value) if whole else value


def _bound(schema: dict[str, Any], name: str) -> float | None:
    value = schema.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None
