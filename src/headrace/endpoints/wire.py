"""How bodies are composed, and what is changed when a server refuses one of our fields."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.endpoints.envelopes import ServerError
from headrace.endpoints.refusals import (
    refuses_logprobs,
    refuses_max_tokens,
    refuses_priority,
    refuses_response_format,
    refuses_schema,
)
from headrace.errors import SpecError
from headrace.spec import EndpointSpec, ModelSpec

PAYLOAD_FIELDS = {"chat": "messages", "completions": "prompt"}
_OURS = frozenset({"model", "messages", "prompt", "stream"})
_SCORED = frozenset({"logprobs", "top_logprobs", "n_probs", "max_tokens", "max_completion_tokens"})
LIKELIEST = {"chat": 20, "completions": 5}  # what every server gives that gives any
_FEWER = (20, 5)


class SchemaForm(Enum):
    """How the schema travels."""

    PLAIN = auto()
    STRICT = auto()
    NONE = auto()


class Form(Struct, frozen=True):
    """One way to write bodies: `head`, the payload, and a closing brace."""

    head: bytes
    tokens_field: str | None
    schema: SchemaForm
    likeliest: int | None = None  # tokens whose log-probabilities are asked for
    priority: int | None = None


class Change(Enum):
    """What a refusal of one of our fields leads to."""

    MENDED = auto()  # bodies are written otherwise from now on (or already): send again
    SCHEMA_REFUSED = auto()  # nothing is left to try
    LOGPROBS_REFUSED = auto()  # the server gives no log-probabilities, not even a few
    NONE = auto()  # it was about something else


class Wire:
    """Writes bodies and learns from refusals. One instance per endpoint; what it learnt holds for all later requests.

    `scored`: one token is asked for, with the log-probabilities of the likeliest. `form` is how bodies are written now,
    `plain_form` how those that ask for a text are, whatever the schema is.
    """

    form: Form
    plain_form: Form

    def __init__(
        self,
        model: ModelSpec,
        endpoint: EndpointSpec,
        plain: dict[str, Any] | None = None,
        strict: dict[str, Any] | None = None,
        *,
        scored: bool = False,
        objections: str = "",
    ) -> None:
        """`objections`: what strict servers have against the schema, in words."""
        if model.route not in PAYLOAD_FIELDS:
            raise SpecError(f'model.route = "{model.route}" is not served by an http endpoint', key="model.route")
        clash = sorted((_OURS | _SCORED if scored else _OURS) & model.extra.keys())
        if clash:
            raise SpecError(f"model.extra.{clash[0]} is set by headrace itself; remove it", key=f"model.extra.{clash[0]}")
        if endpoint.priority is not None and "priority" in model.extra:
            raise SpecError("endpoint.priority: found beside model.extra.priority; write one of them", key="endpoint.priority")
        if "response_format" in model.extra:
            plain = strict = None
        self._spec = model
        self.model = endpoint.model or model.name
        self._plain, self._strict = plain, strict
        self.objections = f" (strict servers want more: {objections})" if objections else ""
        self._auto = endpoint.max_tokens_field == "auto"
        field = "max_tokens" if self._auto else endpoint.max_tokens_field
        schema = SchemaForm.PLAIN if plain is not None else SchemaForm.NONE
        self._scored = scored
        self._likeliest = LIKELIEST[model.route] if scored else None
        self._priority = endpoint.priority if isinstance(endpoint.priority, int) else None
        self._use(field if model.max_tokens is not None or scored else None, schema)

    def ask_for(self, likeliest: int) -> None:
        """Ask for so many likeliest tokens, where any are asked for."""
        if self._scored:
            self._likeliest = likeliest
            self._use(self.form.tokens_field, self.form.schema)

    def prioritise(self, priority: int) -> None:
        """Send this priority with each request from now on."""
        self._priority = priority
        self._use(self.form.tokens_field, self.form.schema)

    def drops_priority(self, form: Form, error: ServerError) -> bool:
        """Whether the error was for the priority in `form`: then none is sent any more."""
        if form.priority is None or not refuses_priority(error):
            return False
        if self._priority is not None:
            self._priority = None
            self._use(self.form.tokens_field, self.form.schema)
        return True

    def learn(self, form: Form, error: ServerError) -> Change:
        """Judge a 400 or 422 that came for a body written in `form`."""
        if self.drops_priority(form, error):
            return Change.MENDED
        if form.tokens_field == "max_tokens" and self._auto and refuses_max_tokens(error):
            if self.form.tokens_field == form.tokens_field:
                self._use("max_completion_tokens", self.form.schema)
            return Change.MENDED
        if form.likeliest is not None and refuses_logprobs(error):
            return self._fewer(form.likeliest)
        if form.schema is SchemaForm.NONE:
            return Change.NONE
        if refuses_schema(error):
            return self._next_schema(form, SchemaForm.STRICT if self._strict is not None else None)
        if refuses_response_format(error):
            return self._next_schema(form, SchemaForm.NONE)
        return Change.NONE

    def _fewer(self, refused: int) -> Change:
        if self._likeliest is not None and self._likeliest < refused:
            return Change.MENDED  # learnt meanwhile from another request
        fewer = next((count for count in _FEWER if count < refused), None)
        if fewer is None:
            return Change.LOGPROBS_REFUSED
        self.ask_for(fewer)
        return Change.MENDED

    def _next_schema(self, form: Form, then: SchemaForm | None) -> Change:
        if self.form.schema is not form.schema:
            return Change.MENDED  # learnt meanwhile from another request
        if then is None or then is form.schema:
            return Change.SCHEMA_REFUSED
        self._use(self.form.tokens_field, then)
        return Change.MENDED

    def learnt(self, before: Form) -> str | None:
        """What has become of the schema since then, in words."""
        if self.form.schema is before.schema:
            return None
        if self.form.schema is SchemaForm.STRICT:
            return f"answer.schema is sent in strict form from now on{self.objections}; answers are checked against yours"
        return "no response_format is sent from now on; answers are checked here as ever"

    def _use(self, tokens_field: str | None, schema: SchemaForm) -> None:
        self.form = self.plain_form = self._write(tokens_field, schema)
        if schema is not SchemaForm.NONE:
            self.plain_form = self._write(tokens_field, SchemaForm.NONE)

    def _write(self, tokens_field: str | None, schema: SchemaForm) -> Form:
        model = self._spec
        written = {"temperature": model.temperature, "top_p": model.top_p, "seed": model.seed, "stop": model.stop}
        body: dict[str, Any] = {"model": self.model, **{key: value for key, value in written.items() if value is not None}}
        if tokens_field is not None:
            body[tokens_field] = 1 if self._scored else model.max_tokens
        if self._likeliest is not None:
            body.update(
                {"logprobs": True, "top_logprobs": self._likeliest} if model.route == "chat" else {"logprobs": self._likeliest}
            )
        if schema is not SchemaForm.NONE:
            body["response_format"] = self._plain if schema is SchemaForm.PLAIN else self._strict
        if self._priority is not None:
            body["priority"] = self._priority
        body.update(model.extra)
        body["stream"] = False
        try:
            head = canon.encode(body)
        except (ValueError, TypeError) as error:
            raise SpecError(
                "model.extra holds a value that JSON cannot carry (NaN, infinity, a date)", key="model.extra"
            ) from error
        head = head[:-1] + b',"' + PAYLOAD_FIELDS[model.route].encode() + b'":'
        return Form(head, tokens_field, schema, self._likeliest, self._priority)
