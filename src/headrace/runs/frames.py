"""A run's records as a polars frame, in which our own columns have the same types whatever the outcomes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import SpecError
from headrace.spec import AnswerSpec

_NAMED = {"string": "String", "integer": "Int64", "number": "Float64", "boolean": "Boolean"}
_OURS = {
    "answer_status": "String", "answer_error": "String", "answer_confidence": "Float64", "answer_share": "Float64",
    "answer_model": "String",
    "answer_attempts": "Int64", "answer_prompt_tokens": "Int64", "answer_completion_tokens": "Int64",
    "answer_cached_tokens": "Int64", "answer_seconds": "Float64", "answer_unit": "String", "answer_raw": "String",
    "answer_record": "Int64", "answer_input": "String",
}  # fmt: skip


def polars_frame(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], answer: AnswerSpec, *, listed: bool = False) -> Any:
    """The rows as a polars.DataFrame. `names` are our fields under the names that they have in the rows.

    Our columns are typed by what they are, `answer` by its schema where that says it; an answer of which neither the schema
    nor a value tells the type is text; `listed`: each is a list of such. The input's columns are typed by their values. Raises
    SpecError without polars.
    """
    try:
        import polars as pl  # noqa: PLC0415  an optional dependency
    except ImportError as error:
        raise SpecError("to_polars needs polars: pip install polars") from error
    types: dict[str, Any] = {
        names[name]: pl.List(pl.String) if name == "answer_notes" else getattr(pl, _OURS[name])
        for name in names
        if name in _OURS or name == "answer_notes"
    }
    column = names["answer"]
    wanted = _answer_type(pl, answer)
    if listed and wanted is not None:
        wanted = pl.List(wanted)
    if not rows:
        return pl.DataFrame(schema={column: wanted or pl.String, **types})
    frame = _typed(pl, rows, types | {column: wanted}, column) if wanted is not None else None
    if frame is None:
        frame = _frame(pl, rows, types)
    return frame.with_columns(pl.col(column).cast(pl.String)) if frame[column].dtype == pl.Null else frame


def _typed(pl: Any, rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any], column: str) -> Any:
    """The frame, or None where an answer is one that its type cannot hold: an integer beyond 64 bits."""
    try:
        frame = _frame(pl, rows, types)
    except pl.exceptions.PolarsError:
        return None
    return frame if frame[column].null_count() == sum(row[column] is None for row in rows) else None


def _frame(pl: Any, rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any]) -> Any:
    return pl.from_dicts(list(rows), schema_overrides=dict(types), infer_schema_length=None, strict=False)


def _answer_type(pl: Any, answer: AnswerSpec) -> Any:
    """The type of the answers, None where the schema leaves it open."""
    schema: Any = answer.schema_
    if not isinstance(schema, dict):
        return pl.String
    if answer.field is not None:
        properties = schema.get("properties")
        schema = properties.get(answer.field) if isinstance(properties, dict) else None
    return _type(pl, schema)


def _type(pl: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    allowed = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    if allowed and all(isinstance(value, str | None) for value in allowed):
        return pl.String
    kinds = schema.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(kinds) != 1:
        return None
    if kinds[0] == "array":
        inner = _type(pl, schema.get("items"))
        return pl.List(inner) if inner is not None else None
    if kinds[0] == "object":
        return _struct(pl, schema)
    return getattr(pl, _NAMED[kinds[0]]) if kinds[0] in _NAMED else None


def _struct(pl: Any, schema: dict[str, Any]) -> Any:
    """Only an object that can have no other fields: a fixed type would drop them."""
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, dict) or schema.get("patternProperties"):
        return None
    inner = {name: _type(pl, part) for name, part in properties.items()}
    return pl.Struct(inner) if inner and None not in inner.values() else None
