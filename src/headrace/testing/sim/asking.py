"""What a request asks, taken out of its body and checked as a real endpoint checks it."""

from __future__ import annotations

from typing import Any

import orjson

from headrace import canon
from headrace.testing.replies import Prompt
from headrace.testing.sim.options import SimOptions


class RefusedError(Exception):
    """A request that the endpoint answers with an error."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


def longest_answer(body: dict[str, Any], prompt: Prompt, options: SimOptions) -> int | None:
    """Check what a real endpoint checks; returns the answer's longest length."""
    model = body.get("model")
    if options.model is not None and model != options.model:
        raise RefusedError(404, f"The model `{str(model)[:200]}` does not exist.", "model_not_found", "model")
    field_names = [name for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    if options.max_tokens_field is not None:
        for name in field_names:
            if name != options.max_tokens_field:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                text += f" Use '{options.max_tokens_field}' instead."
                raise RefusedError(400, text, "unsupported_parameter", name)
    limit = body[field_names[-1]] if field_names else None
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise RefusedError(400, f"{field_names[-1]} must be a whole number of at least 1.", "invalid_value", field_names[-1])
    if body.get("n") not in (None, 1):
        raise RefusedError(400, "Unsupported value: 'n' must be 1 here.", "unsupported_value", "n")
    if options.context and prompt.tokens > options.context:
        text = f"This model's maximum context length is {options.context} tokens."
        text += f" However, your messages resulted in {prompt.tokens} tokens."
        raise RefusedError(400, text, "context_length_exceeded", "messages")
    return limit


def priority_of(body: dict[str, Any], options: SimOptions) -> int | None:
    """The priority that the request asks for; None: none. Raises RefusedError."""
    asked = body.get("priority")
    if asked is None:
        return None
    if options.priority == "unknown":
        raise RefusedError(400, "Unrecognized request argument supplied: priority", None, "priority")
    if options.priority == "disabled":
        text = "Using priority is disabled for this server. Please send a new request without a priority."
        raise RefusedError(503, text, "503")
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise RefusedError(400, "Invalid type for 'priority': expected an integer.", "invalid_type", "priority")
    return asked


def logprobs_of(body: dict[str, Any], options: SimOptions, *, chat: bool) -> int:
    """How many likeliest tokens the request asks for; 0: none. Raises RefusedError."""
    name = "top_logprobs" if chat else "logprobs"
    asked = body.get(name) if not chat or body.get("logprobs") is True else None
    if asked is None:
        return 0
    if not options.logprobs:
        raise RefusedError(400, "This model does not support logprobs.", "unsupported_parameter", name)
    if not isinstance(asked, int) or isinstance(asked, bool) or not 0 <= asked <= options.logprobs:
        raise RefusedError(400, f"Invalid '{name}': expected a value <= {options.logprobs}.", "invalid_value", name)
    return asked


def parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except ValueError:
        try:
            body = canon.decode(raw)
        except ValueError:
            raise RefusedError(400, "We could not parse the JSON body of your request.", "invalid_json") from None
    if not isinstance(body, dict):
        raise RefusedError(400, "The body must be a JSON object.", "invalid_json")
    return body


def prompt_of(body: dict[str, Any], *, chat: bool) -> Prompt:
    try:
        if chat:
            return Prompt.of_messages(body.get("messages"))
        if isinstance(body.get("prompt"), str):
            return Prompt.of_text(body["prompt"])
        raise ValueError("prompt must be a string")
    except ValueError as error:
        raise RefusedError(400, f"Invalid request: {error}.", "invalid_value", "messages" if chat else "prompt") from None


def schema_of(body: dict[str, Any], options: SimOptions) -> Any:
    """The schema that the request asks for: None, True for any object, or the schema. Raises RefusedError."""
    asked = body.get("response_format")
    if asked is None or asked == {"type": "text"}:
        return None
    if not options.schema:
        raise RefusedError(400, "Unknown parameter: 'response_format'.", "unknown_parameter", "response_format")
    if not isinstance(asked, dict) or asked.get("type") not in ("json_object", "json_schema"):
        raise RefusedError(
            400, "response_format must be of type text, json_object or json_schema.", "invalid_value", "response_format"
        )
    if asked["type"] == "json_object":
        return True
    holder = asked.get("json_schema")
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if not isinstance(schema, dict):
        raise RefusedError(
            400, "Missing required parameter: 'response_format.json_schema.schema'.", "missing_parameter", "response_format"
        )
    if options.strict_schema and not _is_strict(schema):
        text = "Invalid schema for response_format: every object needs 'additionalProperties' false"
        text += " and all its properties in 'required'."
        raise RefusedError(400, text, "invalid_json_schema", "response_format")
    return schema


def _is_strict(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            names = part.get("properties")
            if isinstance(names, dict):
                required = part.get("required")
                if (
                    part.get("additionalProperties") is not False
                    or not isinstance(required, list)
                    or {*names} - {*map(str, required)}
                ):
                    return False
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return True
