"""What pydantic found wrong with a job file, as one line in the job file's own words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from headrace.errors import SpecError
from headrace.runs.jobsecrets import HIDDEN, looks_secret, shown_name
from headrace.spec import ENDPOINT_LIST, JobSpec

_SHOWN = 60
_MISSING = object()
_TYPES: dict[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "list_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "string_too_short": "text that is not empty",
    "too_short": "at least one entry",
    "finite_number": "a finite number",
}
_BOUNDS: dict[str, tuple[str, str]] = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}


def fault(errors: Sequence[ErrorDetails], tables: dict[str, Any]) -> SpecError:
    """One SpecError for what is wrong with `tables`. Unknown keys come first: they often explain the rest."""
    by_key: dict[str, list[ErrorDetails]] = {}
    for error in sorted(errors, key=lambda error: error["type"] != "extra_forbidden"):
        by_key.setdefault(_place(error, tables)[0], []).append(error)
    key, first = next(iter(by_key.items()))
    more = f" ({len(by_key) - 1} more of {'this' if len(by_key) == 2 else 'these'} elsewhere)" if len(by_key) > 1 else ""
    value = _place(first[0], tables)[1]
    if first[0]["type"] == "extra_forbidden":
        return _unknown_key(key, more)
    if first[0]["type"] == "missing":
        wanted = _description(key)
        return SpecError(f"{key} is missing; {wanted}{more}", key=key, found="nothing", allowed=wanted)
    found = shown(key, value)
    allowed = " or ".join(dict.fromkeys(_allowed(error) for error in first))
    return SpecError(f"{key}: found {found}; allowed: {allowed}{more}", key=key, found=found, allowed=allowed)


def shown(key: str, value: Any) -> str:
    """A value in a few words, never one that looks like a secret."""
    if looks_secret(key, value):
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)[:_SHOWN]
    if isinstance(value, str):
        return ascii(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return f"a Python {type(value).__name__}"


def keys_of(section: str) -> list[str]:
    """The keys that may stand in a section ("" is the file itself), as the job file writes them."""
    model = _model(section)
    return [field.alias or name for name, field in model.model_fields.items()] if model is not None else []


def _place(error: ErrorDetails, tables: dict[str, Any]) -> tuple[str, Any]:
    """The dotted key and what stands there. Steps that are pydantic's own (the branch of a union) are passed over."""
    key: list[str] = []
    value: Any = tables
    for step in error["loc"]:
        if isinstance(step, int):
            if isinstance(value, list | tuple) and step < len(value):
                value = value[step]
                if key != ["endpoint"]:
                    key.append(str(step))
                elif len(tables["endpoint"]) > 1:
                    key[-1] = f"endpoint[{step}]"
        elif isinstance(value, dict) and step in value:
            value = value[step]
            key.append(shown_name(step))
        elif step == error["loc"][-1] and error["type"] == "missing":
            key.append(step)
            value = _MISSING
    return ".".join(key), value


def _allowed(error: ErrorDetails) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if error["loc"] == ("endpoint",) and kind == "list_type":
        return "a table"  # which a list of one stands for
    if error["loc"] == ("prices",) and kind == "model_type":
        return f'a table or "{ENDPOINT_LIST}"'
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _BOUNDS:
        name, form = _BOUNDS[kind]
        return form.format(context[name])
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind == "value_error":
        return str(context["error"])
    return re.sub(r"^Input should be ", "", error["msg"])


def _unknown_key(key: str, more: str) -> SpecError:
    section, _, name = key.rpartition(".")
    known = keys_of(re.sub(r"\[\d+\]", "", section))
    close = difflib.get_close_matches(name.lower(), known, n=1)
    where = f"`{section}`" if section else "the job file"
    home = [part for part in keys_of("") if not section and name in keys_of(part)]
    if close:
        hint = f"did you mean `{close[0]}`?"
    elif home:
        hint = f"it stands in {' or '.join(f'`{part}`' for part in home)}"
    else:
        hint = f"known there: {', '.join(known)}"
    return SpecError(f"unknown key `{name}` in {where}; {hint}{more}", key=key, found="an unknown key", allowed=", ".join(known))


def _model(section: str) -> type[BaseModel] | None:
    model: type[BaseModel] = JobSpec
    for part in filter(None, section.split(".")):
        field = next((field for name, field in model.model_fields.items() if (field.alias or name) == part), None)
        inner = [a for a in (field.annotation, *get_args(field.annotation)) if _is_model(a)] if field is not None else []
        if not inner:
            return None
        model = inner[0]
    return model


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _description(key: str) -> str:
    section, _, name = re.sub(r"\[\d+\]", "", key).rpartition(".")
    model = _model(section)
    fields = {field.alias or name: field for name, field in model.model_fields.items()} if model is not None else {}
    if name in fields and fields[name].description:
        return str(fields[name].description).rstrip(".")
    needed = [part for part, field in _fields_of(key).items() if field.is_required()]
    return f"a table with {', '.join(needed)}" if needed else "it has no default"


def _fields_of(section: str) -> dict[str, Any]:
    model = _model(section)
    return {field.alias or name: field for name, field in model.model_fields.items()} if model is not None else {}
