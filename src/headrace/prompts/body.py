"""The constant part of a job's request bodies, and what of it a unit's hash covers."""

from __future__ import annotations

from typing import Any

from headrace import canon
from headrace.errors import SpecError
from headrace.spec import JobSpec

# How a request travels and who pays first changes no answer.
TRANSPORT_FIELDS = frozenset({"stream", "stream_options", "priority", "user", "service_tier"})
# The configuration holds them; reuse compares them for answers that were cut.
LENGTH_FIELDS = frozenset({"max_tokens", "max_completion_tokens"})
_OWN_PLACE = {"model": "model.name", "messages": "prompt.messages", "prompt": "prompt.prompt"}
_SAMPLING = ("temperature", "top_p", "seed", "stop")


class BodyTemplate:
    """What every body of a job has in common. Raises SpecError where `model.extra` says again what has its own key."""

    def __init__(self, spec: JobSpec) -> None:
        for name in spec.model.extra:
            _refuse_second_place(name, spec)
        self._spec = spec
        try:
            canon.canonical(spec.model.extra)
        except (TypeError, ValueError):
            raise SpecError("model.extra holds a value that JSON cannot hold (a date, NaN)", key="model.extra") from None

    def fields(self) -> dict[str, Any]:
        """The body's fields that are equal for all units and endpoints: sampling keys as far as written, then `model.extra`.

        Without the model's name, the payload, `response_format` and `model.max_tokens`, which each endpoint puts in its way.
        """
        model = self._spec.model
        written = {name: getattr(model, name) for name in _SAMPLING if getattr(model, name) is not None}
        return {**written, **model.extra}

    def hash_constants(self) -> dict[str, Any]:
        """What is asked, apart from the payload: for `canon.UnitHasher`, which sorts the keys."""
        answer = self._spec.answer
        skipped = TRANSPORT_FIELDS | LENGTH_FIELDS
        schema: Any = {"labels": answer.labels} if answer.labels is not None else answer.schema_
        return {
            "route": self._spec.model.route,
            "model": self._spec.model.name,
            "body": {name: value for name, value in self.fields().items() if name not in skipped},
            "schema": schema if answer.method == "generate" else {**schema, "method": answer.method},
        }


def _refuse_second_place(name: str, spec: JobSpec) -> None:
    key = f"model.extra.{name}"
    place = _OWN_PLACE.get(name)
    if place is not None:
        raise SpecError(f"{key} cannot stand here; use {place}", key=key, allowed=place)
    if name in _SAMPLING and getattr(spec.model, name) is not None:
        raise SpecError(f"model.{name} and {key} are both given; keep one", key=key)
    if name == "response_format" and (spec.answer.schema_ is not None or spec.answer.labels is not None):
        raise SpecError(f"{key} cannot stand beside answer.schema or answer.labels, which send their own", key=key)
