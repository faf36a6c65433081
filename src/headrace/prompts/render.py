"""Piece → the encoded variable part of a request's body: the messages array, or the prompt string."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace import canon
from headrace.errors import NotYetError, SpecError
from headrace.prompts.environment import TextTemplate
from headrace.spec import JobSpec, PromptSpec
from headrace.values import Piece

MARKS = ("{{", "{%", "{#")
_Part = bytes | TextTemplate


class PromptRenderer:
    """Renders the job's prompt. Everything that no record changes is encoded once, here.

    `fields` are the record's fields that the templates read, or None if that cannot be known: what `slice.truncate` cuts.
    `shared_bytes` is how much all payloads have in common at their beginning, at least.
    Raises SpecError where prompt and route do not fit together or a template cannot be used.
    """

    def __init__(self, spec: JobSpec) -> None:
        route = spec.model.route
        if route == "chat":
            parts = _chat(spec.prompt)
        elif route == "completions":
            parts = iter([_text(_completion(spec.prompt), "prompt.prompt")])
        else:
            raise NotYetError(
                f'model.route = "{route}" is not served yet; use "chat" or "completions"',
                key="model.route",
                found=route,
                allowed="chat, completions",
            )
        self._parts = _merged(parts)
        templates = [part for part in self._parts if isinstance(part, TextTemplate)]
        known = [template.fields for template in templates if template.fields is not None]
        self.fields: frozenset[str] | None = frozenset().union(*known) if len(known) == len(templates) else None

    @property
    def shared_bytes(self) -> int:
        shared = 0
        for part in self._parts[:2]:
            if isinstance(part, TextTemplate):
                return shared + len(canon.encode(part.beginning)) - 1  # all but the closing quote
            shared += len(part)
        return shared

    def render(self, piece: Piece) -> bytes:
        """JSON in UTF-8: an array of messages for chat, a string for completions. Raises RecordError."""
        fields = piece.fields
        return b"".join([part if isinstance(part, bytes) else canon.encode(part.render(fields)) for part in self._parts])


class LimitedRenderer(PromptRenderer):
    """The same for a job that bounds its prompts: `check` raises RecordError for a payload that is too long."""

    def __init__(self, spec: JobSpec, check: Callable[[bytes], None]) -> None:
        super().__init__(spec)
        self._check = check

    def render(self, piece: Piece) -> bytes:
        payload = super().render(piece)
        self._check(payload)
        return payload


def _chat(prompt: PromptSpec) -> Iterator[_Part]:
    for key in ("prompt", "input"):
        _absent(prompt, key, "the route chat takes `user` (with `system`) or `messages`")
    if prompt.messages is not None:
        for key in ("system", "user", "user_file"):
            _absent(prompt, key, "`messages` is the whole chat; put this text into it")
        return _messages(prompt.messages)
    if prompt.user is None:
        raise SpecError("prompt.user is missing: the route chat needs `user`, `user_file` or `messages`", key="prompt.user")
    return _system_and_user(prompt.system, prompt.user)


def _completion(prompt: PromptSpec) -> str:
    for key in ("system", "user", "user_file", "messages", "input"):
        _absent(prompt, key, "the route completions takes `prompt` alone")
    if prompt.prompt is None:
        raise SpecError("prompt.prompt is missing: the route completions needs it", key="prompt.prompt")
    return prompt.prompt


def _absent(prompt: PromptSpec, key: str, why: str) -> None:
    if getattr(prompt, key) is not None:
        raise SpecError(f"prompt.{key} cannot stand here: {why}", key=f"prompt.{key}")


def _system_and_user(system: str | None, user: str) -> Iterator[_Part]:
    yield b"["
    if system is not None:
        yield b'{"role":"system","content":'
        yield _text(system, "prompt.system")
        yield b"},"
    yield b'{"role":"user","content":'
    yield _text(user, "prompt.user")
    yield b"}]"


def _messages(messages: list[dict[str, Any]]) -> Iterator[_Part]:
    if not messages:
        raise SpecError("prompt.messages is empty; it needs at least one message", key="prompt.messages")
    for number, message in enumerate(messages):
        key = f"prompt.messages[{number}]"
        if not isinstance(message.get("role"), str):
            raise SpecError(f"{key}.role is missing: each message needs a role, such as user", key=f"{key}.role")
        content = message.get("content")
        if not isinstance(content, str | list):
            raise SpecError(f"{key}.content is missing: it is a text or a list of parts", key=f"{key}.content")
        yield b"[" if number == 0 else b","
        yield b'{"role":' + _constant(message["role"], key) + b',"content":'
        if isinstance(content, str):
            yield _text(content, f"{key}.content")
        else:
            yield from _content_parts(content, f"{key}.content")
        for name, value in message.items():
            if name not in ("role", "content"):
                yield b"," + _constant(name, key) + b":" + _constant(value, f"{key}.{name}")
        yield b"}"
    yield b"]"


def _content_parts(parts: list[Any], key: str) -> Iterator[_Part]:
    """The parts of one message; `text` and the address of an image are templates, all else goes as it stands."""
    yield b"["
    for number, part in enumerate(parts):
        if not isinstance(part, dict):
            raise SpecError(
                f"{key}[{number}] is no table; a part is a table such as one with the type text and a `text`", key=key
            )
        yield b"," if number else b""
        yield from _table(part, f"{key}[{number}]", ("text", "image_url"))
    yield b"]"


def _table(table: dict[str, Any], key: str, templates: tuple[str, ...]) -> Iterator[_Part]:
    yield b"{"
    for number, (name, value) in enumerate(table.items()):
        yield (b"," if number else b"") + _constant(name, key) + b":"
        if name in templates and isinstance(value, str):
            yield _text(value, f"{key}.{name}")
        elif name == "image_url" and isinstance(value, dict):
            yield from _table(value, f"{key}.{name}", ("url",))
        else:
            yield _constant(value, f"{key}.{name}")
    yield b"}"


def _text(source: str, key: str) -> _Part:
    """A template, or the encoded text where nothing in it is to be rendered."""
    if any(mark in source for mark in MARKS):
        return TextTemplate(source, key)
    return _constant(source.replace("\r\n", "\n").replace("\r", "\n"), key)


def _constant(value: Any, key: str) -> bytes:
    try:
        return canon.encode(value)
    except (TypeError, ValueError):
        raise SpecError(f"{key} holds a value that JSON cannot hold", key=key) from None


def _merged(parts: Iterator[_Part]) -> list[_Part]:
    merged: list[_Part] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    return merged
