"""A first job file: written with comments from the answers to a few questions, so that it runs as it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from headrace.errors import SpecError
from headrace.observe.text import printable
from headrace.prompts.environment import WHOLE_RECORD, TextTemplate
from headrace.prompts.render import MARKS
from headrace.runs.jobfile import job_from_dict
from headrace.runs.making import making_of
from headrace.spec import AnswerSpec, EndpointSpec, InputSpec, LimitsSpec, ModelSpec, OutputSpec, PromptSpec, SliceSpec

LOCAL = "local"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_FIELDS_NAMED = 20
_LONGEST_NAMED = 40
_TYPES = ("string", "number", "integer", "boolean")


class Starter(Struct, frozen=True):
    """The answers. Paths are as the job file says them: relative to its folder. `text` is the field that is asked about."""

    input: str
    text: str
    url: str
    model: str
    output: str
    ask: str
    id: str | None = None
    labels: tuple[str, ...] | None = None
    schema: str | dict[str, Any] | None = None
    key_env: str | None = None
    name: str = "job"
    fields: tuple[str, ...] = ()


def job_text(starter: Starter) -> str:
    """The job file's text. Raises SpecError for what TOML or a template cannot hold."""
    sections = (
        _head(starter), _input(starter), _slice(), _prompt(starter), _model(starter), _endpoint(starter), _answer(starter),
        _output(starter), _limits(),
    )  # fmt: skip
    return "\n".join("\n".join(lines) + "\n" for lines in sections)


def check(starter: Starter, base: Path) -> str:
    """The text, once the loader and the templates have accepted it as `headrace run` would. Raises SpecError."""
    text = job_text(starter)
    making_of(job_from_dict(tomllib.loads(text), base).spec)
    return text


def field_access(name: str, fields: Sequence[str] = ()) -> str:
    """How a template names a field. Raises SpecError where it cannot: a field called `record` hides the whole record."""
    if name == WHOLE_RECORD or (_PLAIN_NAME.fullmatch(name) and _is_plain(name)):
        return name
    if WHOLE_RECORD in fields:
        raise SpecError(f"the field {printable(name, 40)!r} cannot be named in a template: another field is called `record`")
    return f"{WHOLE_RECORD}[{_in_template(name)}]"


def _is_plain(name: str) -> bool:
    """Whether a template takes the name for a field: `true`, `not` and `self` are words of its own."""
    try:
        return name != "self" and TextTemplate(f"{{{{ {name} }}}}", "prompt.user").fields == frozenset({name})
    except SpecError:
        return False


def fields_schema(text: str) -> dict[str, Any]:
    """A JSON Schema for `name, name:type, …`; types are string, number, integer, boolean. Raises SpecError."""
    properties: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = (piece.strip() for piece in part.partition(":"))
        kind = kind or "string"
        if not name or kind not in _TYPES or name in properties:
            raise SpecError(
                f"found {part[:60]!a}; a field of the answer is a name of its own, or name:type with one of {', '.join(_TYPES)}",
                key="answer.schema",
            )
        properties[name] = {"type": kind}
    if not properties:
        raise SpecError("an answer needs at least one field", key="answer.schema")
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


# -- the sections


def _head(starter: Starter) -> list[str]:
    return [
        "# A job of headrace. Paths are relative to this file; what stands behind # at a key's place is optional.",
        "# `headrace schema` prints all keys.",
        f"name = {quoted(starter.name)}",
    ]


def _input(starter: Starter) -> list[str]:
    lines = ["[input]", *_said(InputSpec, "path", quoted(starter.input))]
    if starter.fields:
        lines.append(f"# Found in its first records: {_named(starter.fields)}.")
    lines += _said(InputSpec, "id", quoted(starter.id if starter.id is not None else "id"), used=starter.id is not None)
    return [
        *lines,
        *_said(InputSpec, "limit", "100", used=False),
        *_said(InputSpec, "where", quoted(f"{field_access(starter.text, starter.fields)} != ''"), used=False),
    ]


def _slice() -> list[str]:
    return ["[slice]", *_said(SliceSpec, "truncate", '"8000 chars"', used=False)]


def _prompt(starter: Starter) -> list[str]:
    system, user = starter.ask, f"{{{{ {field_access(starter.text, starter.fields)} }}}}"
    if starter.labels is not None and _are_to_be_told(starter.labels, system):
        system = f"{system} Answer with one of these labels: {', '.join(starter.labels)}.".strip()
    if starter.schema is not None and isinstance(starter.schema, dict):
        names = list(starter.schema["properties"])
        if _are_to_be_told(names, system):
            system = f"{system} Answer with a JSON object that has the fields {', '.join(names)}.".strip()
    lines = ["[prompt]", *_said(PromptSpec, "system", quoted(system), used=bool(system))]
    return [*lines, *_said(PromptSpec, "user", quoted(user))]


def _are_to_be_told(words: Sequence[str], system: str) -> bool:
    """Whether the model would not know the words yet, and they are none that a template would take for its own."""
    return not all(word in system for word in words) and not any(mark in word for word in words for mark in MARKS)


def _model(starter: Starter) -> list[str]:
    longest = "64" if starter.labels is not None else "512"
    lines = ["[model]", *_said(ModelSpec, "name", quoted(starter.model)), *_said(ModelSpec, "temperature", "0")]
    return [*lines, *_said(ModelSpec, "max_tokens", longest)]


def _endpoint(starter: Starter) -> list[str]:
    lines = ["[endpoint]", *_said(EndpointSpec, "url", quoted(starter.url))]
    if starter.url != LOCAL:
        lines += _said(EndpointSpec, "api_key_env", quoted(starter.key_env or "OPENAI_API_KEY"), used=starter.key_env is not None)
    return [*lines, *_said(EndpointSpec, "concurrency", "16", used=False)]


def _answer(starter: Starter) -> list[str]:
    lines = ["[answer]"]
    if starter.labels is not None:
        lines += _said(AnswerSpec, "labels", toml_value(list(starter.labels)))
    elif starter.schema is not None:
        lines += _said(AnswerSpec, "schema", toml_value(starter.schema))
    else:
        lines += [
            "# Without labels or a schema the answer is the model's text.",
            *_said(AnswerSpec, "labels", '["a", "b"]', used=False),
        ]
    return lines


def _output(starter: Starter) -> list[str]:
    lines = ["[output]", *_said(OutputSpec, "path", quoted(starter.output))]
    return [*lines, *_said(OutputSpec, "details", "true", used=False)]


def _limits() -> list[str]:
    return [
        "[limits]",
        *_said(LimitsSpec, "max_attempts", "6", used=False),
        *_said(LimitsSpec, "run_deadline", '"12h"', used=False),
    ]


def _said(section: type[BaseModel], key: str, value: str, *, used: bool = True) -> list[str]:
    """A key under what the job file's own description says of it; one that is not used stands there as a comment."""
    field = next(field for name, field in section.model_fields.items() if key in {name, field.alias})
    return [f"# {field.description}", f"{'' if used else '# '}{key} = {value}"]


def _named(fields: Sequence[str]) -> str:
    more = len(fields) - _FIELDS_NAMED
    names = [printable(name, _LONGEST_NAMED) for name in fields[:_FIELDS_NAMED]]
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


# -- how values are written


def quoted(text: str) -> str:
    """A TOML string. What does not print, or would reorder a line, is escaped. Raises SpecError for lone surrogates."""
    return '"' + "".join(map(_in_toml, text)) + '"'


def toml_value(value: Any) -> str:
    """A value in one line of TOML: texts, numbers, truth values, lists, tables."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {toml_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else quoted(key)


def _in_toml(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if "\ud800" <= char <= "\udfff":
        raise SpecError("found text that is not Unicode; a job file is UTF-8", allowed="UTF-8")
    return char if char.isprintable() else _escape(char)


def _in_template(text: str) -> str:
    """A string of a template, which reads escapes as Python does; of braces too, so that none looks like its end."""
    return '"' + "".join(f"\\{c}" if c in '"\\' else c if c.isprintable() and c not in "{}" else _escape(c) for c in text) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
