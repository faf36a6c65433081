"""The job's prompt with nothing in it: what a model prefers before it has read anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from headrace.errors import RecordError, SpecError
from headrace.prompts.render import PromptRenderer
from headrace.values import Piece

FILLINGS = ("N/A", "[MASK]", "")  # those of Zhao et al. 2021
_METHODS = frozenset(name for name in dir(str) if not name.startswith("_"))
_UNCALLED = frozenset({"format", "format_map"})  # the sandbox guards these; as names of data they are the more usual thing


class Filling(str):
    """A text that stands for every field, and for whatever a template looks up in it: an entry, a list's only element."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        """`doc.title` may be a field of an object or a method of a text: what comes serves as both."""
        return _Named(self, name) if name in _METHODS else super().__getattribute__(name)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return str.__getitem__(self, key)
        return _Named(self, key) if isinstance(key, str) else Filling(self)

    def __iter__(self) -> Iterator[Any]:
        return iter([Filling(self)])


class _Named(Filling):
    """What stands under a name: the text again, and called, what the method of that name gives."""

    __slots__ = ("called",)
    called: str

    def __new__(cls, text: str, name: str) -> Self:
        self = super().__new__(cls, text)
        self.called = name
        return self

    def __call__(self, *given: Any, **named: Any) -> Any:
        text, name = Filling(self), self.called
        of_objects = {"get": text, "items": [(text, text)], "keys": [text], "values": [text]}
        if name in of_objects:
            return of_objects[name]
        if name not in _METHODS - _UNCALLED:
            raise TypeError(f"{name[:40]!r} is no method of a text")
        return getattr(str, name)(str(text), *given, **named)


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
        message = (
            f"answer.calibrate asks the prompt with a text in place of each field too, and it cannot be rendered so: {error}"
        )
        raise SpecError(message, key="answer.calibrate") from error
