"""Bodies of 200 replies: read fast where they are as documented, tolerantly where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from headrace.endpoints.envelopes import KEPT, ServerError, error_in, is_html, parse
from headrace.values import Reply, Usage

_LARGEST_COUNT = 2**53
_LONGEST_MS = 1e9


class Broken(Struct, frozen=True):
    """A 200 that carries no reply. `html`: a page for people. `cut`: a stream that broke off."""

    message: str
    html: bool = False
    cut: bool = False


# What the fast path takes, as trees that last for one call: the garbage collector need not look at them.
_Count = Annotated[int, Meta(ge=0, lt=_LARGEST_COUNT)]


class _Details(Struct, gc=False):
    cached_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Message(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(Struct, gc=False):
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Timings(Struct, gc=False):
    """As llama.cpp tells them, in milliseconds."""

    prompt_ms: Annotated[float, Meta(ge=0, le=_LONGEST_MS)] | None = None
    predicted_ms: Annotated[float, Meta(ge=0, le=_LONGEST_MS)] | None = None


class _Body(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None
    timings: _Timings | None = None


_decode = msgspec.json.Decoder(_Body).decode


def read_reply(body: bytes, content_type: str | None = None) -> Reply | ServerError | Broken:
    """The reply in the body of a 200, the error that it holds instead, or why it holds neither. Never raises."""
    try:
        value = _decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _read_slowly(body, content_type or "")
    choices = value.choices
    if not choices or value.error is not None:
        return _read_slowly(body, content_type or "")
    choice = choices[0]
    message = choice.message
    usage = value.usage
    counted = None if usage is None else _counted(usage)
    timing = None if value.timings is None else _timing(value.timings)
    if message is None:
        if choice.text is None:
            return _read_slowly(body, content_type or "")
        return Reply(choice.text, choice.finish_reason, usage=counted, model=value.model, timing=timing)
    reasoning = message.reasoning_content or message.reasoning
    return Reply(
        message.content, choice.finish_reason, reasoning, message.refusal, counted, value.model, timing=timing
    )  # fmt: skip


def _timing(timings: _Timings) -> tuple[float, float] | None:
    prompt, answer = timings.prompt_ms, timings.predicted_ms
    return None if prompt is None or answer is None else (round(prompt / 1000, 6), round(answer / 1000, 6))


def _counted(usage: _Usage) -> Usage | None:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    if prompt is None and completion is None:
        return None
    details, parts = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = None if details is None else details.cached_tokens
    reasoning = None if parts is None else parts.reasoning_tokens
    return Usage(prompt, completion, cached, reasoning)


def _read_slowly(body: bytes, content_type: str) -> Reply | ServerError | Broken:
    start = body[:64].lstrip()
    if not body.strip():
        return Broken("a 200 with an empty body")
    if is_html(body) or content_type.lower().startswith("text/html"):
        return Broken("a web page instead of JSON", html=True)
    if content_type.lower().startswith("text/event-stream") or start.startswith((b"data:", b"event:", b": ")):
        return _read_stream(body)
    value = parse(body)
    if not isinstance(value, dict):
        return Broken("a 200 whose body is no JSON object" if value is not None else "a 200 whose body is no JSON")
    choice = _first(value.get("choices"))
    if value.get("error"):
        error = error_in(value)
        return error if error is not None else ServerError(str(value["error"])[:KEPT])
    if choice is None:
        error = error_in(value)
        if error is not None:
            return error
        return Broken(f"a 200 without choices: {str(value)[:KEPT]}")
    return _tolerant(value, choice)


def _tolerant(value: dict[str, Any], choice: dict[str, Any]) -> Reply:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = message["content"] if "content" in message else choice.get("text")
    return Reply(
        _text(content),
        _text(choice.get("finish_reason")),
        _text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        _text(message.get("refusal")),
        _usage(value.get("usage")),
        _text(value.get("model")),
    )


def _read_stream(body: bytes) -> Reply | ServerError | Broken:
    """Server-sent events although none were asked for: the deltas put together."""
    contents: list[str] = []
    reasonings: list[str] = []
    refusals: list[str] = []
    finish = model = None
    usage = None
    ended = False
    for data in _events(body):
        if data.strip() == b"[DONE]":
            ended = True
            break
        value = parse(data)
        if not isinstance(value, dict):
            return Broken("an event stream that holds something other than JSON objects", cut=True)
        choice = _first(value.get("choices"))
        error = error_in(value) if choice is None or value.get("error") else None
        if error is not None:
            return error
        usage = _usage(value.get("usage")) or usage
        model = _text(value.get("model")) or model
        if choice is None or choice.get("index") not in (None, 0):
            continue
        part = choice.get("delta") or choice.get("message") or {}
        part = part if isinstance(part, dict) else {}
        contents.append(_text(part.get("content", choice.get("text"))) or "")
        reasonings.append(_text(part.get("reasoning_content")) or _text(part.get("reasoning")) or "")
        refusals.append(_text(part.get("refusal")) or "")
        finish = _text(choice.get("finish_reason")) or finish
    if not ended and finish is None:
        return Broken("an event stream that broke off", cut=True)
    if not contents:
        return Broken("an event stream without a choice")
    return Reply("".join(contents), finish, "".join(reasonings) or None, "".join(refusals) or None, usage, model)


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each event; several data lines of one event are joined."""
    data: list[bytes] = []
    for line in body.splitlines():
        if line.startswith(b"data:"):
            data.append(line[5:])
        elif not line.strip() and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


def _first(choices: Any) -> dict[str, Any] | None:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _text(value: Any) -> str | None:
    """A string of any JSON value: parts joined, numbers as written. Lone surrogates become replacement characters."""
    if value is None:
        return None
    if isinstance(value, list):
        text = "".join(part for part in map(_part, value) if part)
    else:
        text = value if isinstance(value, str) else _dumped(value)
    return text if _is_clean(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _dumped(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, ValueError, TypeError):
        return str(type(value).__name__)


def _part(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


def _is_clean(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    cached = _count(_inside(value, "prompt_tokens_details", "cached_tokens"))
    reasoning = _count(_inside(value, "completion_tokens_details", "reasoning_tokens"))
    return Usage(prompt, completion, cached, reasoning)


def _inside(value: dict[str, Any], outer: str, inner: str) -> Any:
    found = value.get(outer)
    return found.get(inner) if isinstance(found, dict) else None


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT else None
