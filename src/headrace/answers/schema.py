"""The user's schema: compiled once, checked here always, and written in the forms that servers are sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn, Self

import jsonschema_rs

from headrace import canon
from headrace.answers.excerpt import excerpt
from headrace.answers.strictness import Objection, objections, strict_form
from headrace.errors import SpecError
from headrace.spec import JobSpec

WIRE_NAME = "answer"
LABEL = "label"
KEY = "answer.schema"
WHOLE = "(the whole answer)"  # for people; as a JSON pointer it is the empty text


class AnswerSchema:
    """What an answer has to be. `labels` is set where the job names labels instead of a schema.

    Draft 2020-12 unless `$schema` says another; `format` is a note, not a check, as in that draft. Nothing is fetched:
    a `$ref` that leads out of the schema is refused. Raises SpecError(key="answer.schema") for a schema that is none.
    """

    def __init__(self, schema: dict[str, Any], labels: list[str] | None = None) -> None:
        self.schema = schema
        self.labels = labels
        try:
            canon.canonical(schema)  # the unit's hash covers it; TOML may hold dates and NaN
            validator = jsonschema_rs.validator_for(schema, retriever=_refuse_remote)
            terse = jsonschema_rs.validator_for(schema, retriever=_refuse_remote, mask="the value")
        except jsonschema_rs.ValidationError as error:
            place = _pointer(error.instance_path)
            _refuse(f"at {place}: {error.message}" if place else error.message)
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            _refuse(str(error))
        self._is_valid: Callable[[Any], bool] = validator.is_valid
        self._validate: Callable[[Any], None] = validator.validate
        self._validate_tersely: Callable[[Any], None] = terse.validate

    @classmethod
    def of(cls, spec: JobSpec) -> Self | None:
        """The schema of a job, its file read already by the loader; None where the answer is plain text."""
        answer = spec.answer
        if answer.labels is not None:
            if answer.schema_ is not None:
                raise SpecError("answer.schema and answer.labels are both given; keep one", key="answer.labels")
            labels = list(dict.fromkeys(answer.labels))
            properties = {LABEL: {"enum": labels}}
            schema = {"type": "object", "properties": properties, "required": [LABEL], "additionalProperties": False}
            return cls(schema, labels)
        if answer.schema_ is None:
            return None
        if isinstance(answer.schema_, str):
            raise SpecError("answer.schema names a file that was not read; give the schema as a table", key=KEY)
        return cls(answer.schema_)

    def fault(self, value: Any, *, is_large: bool = False) -> str | None:
        """None for a valid value, else JSON pointer, keyword and what is wrong, in at most 300 characters. Never raises.

        Of a value that `is_large` nothing is repeated: the message would be as long as the value.
        """
        try:
            return None if self._is_valid(value) else self._told(value, is_large=is_large)
        except UnicodeEncodeError:  # a lone surrogate: valid JSON, but the validator speaks UTF-8 only
            return self._told(_without_surrogates(value), is_large=is_large)

    def _told(self, value: Any, *, is_large: bool) -> str | None:
        try:
            (self._validate_tersely if is_large else self._validate)(value)
        except jsonschema_rs.ValidationError as error:
            pointer = excerpt(_pointer(error.instance_path) or WHOLE, 120)
            return excerpt(f"{pointer}: {error.kind.name}: {excerpt(error.message)}")
        except UnicodeEncodeError:
            raise
        except ValueError:  # too deep for its message
            return None if self._is_valid(value) else f"{WHOLE}: the value does not match the schema"
        return None

    def wire(self) -> dict[str, Any]:
        """The `response_format` that servers are sent: the user's own schema.

        Strict, unless no strict form means the same: such a schema strict servers take only without that word.
        """
        return _response_format(self.schema, strict=not any(objection.is_final for objection in self.objections))

    def strict(self) -> dict[str, Any] | None:
        """The `response_format` in the form that strict servers insist on, for the one resend after a 400 about the schema.

        None where no such form means the same. The answer is checked against the user's schema all the same.
        """
        if any(objection.is_final for objection in self.objections):
            return None
        return _response_format(strict_form(self.schema), strict=True)

    @cached_property
    def objections(self) -> list[Objection]:
        """What strict servers have against the schema."""
        return objections(self.schema)


def _response_format(schema: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": WIRE_NAME, "schema": schema, "strict": strict}}


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched: put {uri} under $defs and refer to it as #/$defs/…")


def _refuse(why: str) -> NoReturn:
    raise SpecError(f"answer.schema is no usable JSON Schema: {excerpt(why)}", key=KEY) from None


def _pointer(path: list[str | int]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _without_surrogates(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates, by way of its text: recursion stays out of Python, whatever the depth."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
