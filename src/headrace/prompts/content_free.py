"""The job's prompt with nothing in it: what a model prefers before it has read anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, SupportsIndex

from headrace.errors import RecordError, SpecError
from headrace.prompts.render import PromptRenderer
from headrace.values import Piece

FILLINGS = ("N/A", "[MASK]", "")  # those of Zhao et al. 2021


class Filling(str):
    """A text that stands for every field, and for whatever a template looks up in it."""

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice | str) -> Self | str:
        return self if isinstance(key, str) else super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        """A list of it is a list of one."""
        return iter([str(self)])


def content_free_payloads(renderer: PromptRenderer) -> list[bytes]:
    """The payloads of the job's prompt with each field that it prints replaced by one of `FILLINGS`. Raises SpecError."""
    if renderer.fields is None:
        raise SpecError(
            "answer.calibrate: which fields the prompt prints is known from a record only; name them in the template",
            key="answer.calibrate",
        )
    try:
        return [
            renderer.render(Piece(-1, n, {name: Filling(text) for name in renderer.fields})) for n, text in enumerate(FILLINGS)
        ]
    except RecordError as error:
        message = f"answer.calibrate: the prompt cannot be rendered with a text in place of each field: {error}"
        raise SpecError(message, key="answer.calibrate") from error
