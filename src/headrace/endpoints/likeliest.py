"""The likeliest tokens of a reply's first place, in any of the forms in which servers send them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from headrace.endpoints.envelopes import parse

Likeliest = list[tuple[str, float]]
_LEAST = -1000.0  # what is no more is no probability in any float; some servers write -9999 for none at all
_INFINITE = float("inf")
_ESCAPED = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)")


def read_likeliest(body: bytes) -> Likeliest | None:
    """Tokens and the natural logarithms of their probabilities, likeliest first; None where the reply holds none.

    Read are `logprobs.content[0].top_logprobs` (chat; completions of llama.cpp too), `logprobs.top_logprobs[0]` as an
    object (completions) and llama.cpp's own `completion_probabilities[0].top_logprobs`. Tokens without any probability are
    left out; no logarithm is above 0. Never raises.
    """
    found = _read_fast(body)
    if found is None:
        found = _read_slowly(body)
    found.sort(key=lambda pair: -pair[1])
    return found or None


# What the fast path takes: the forms in use, without a fault in them.
class _Entry(Struct, gc=False):
    token: str
    logprob: float
    bytes: list[int] | None = None


class _Place(Struct, gc=False):
    top_logprobs: list[_Entry]


class _Logprobs(Struct, gc=False):
    content: list[_Place] | None = None
    top_logprobs: list[dict[str, float]] | None = None


class _Choice(Struct, gc=False):
    logprobs: _Logprobs


class _Body(Struct, gc=False):
    choices: list[_Choice]


_decode = msgspec.json.Decoder(_Body).decode


def _read_fast(body: bytes) -> Likeliest | None:
    """None where the body is not just as documented."""
    try:
        logprobs = _decode(body).choices[0].logprobs
    except (msgspec.MsgspecError, RecursionError, ValueError, IndexError):
        return None
    if logprobs.content:
        entries = logprobs.content[0].top_logprobs
        return [(_text_of(one), min(one.logprob, 0.0)) for one in entries if _LEAST < one.logprob < _INFINITE] or None
    if logprobs.top_logprobs:
        found = logprobs.top_logprobs[0].items()
        return [(_unescaped(token), min(value, 0.0)) for token, value in found if _LEAST < value < _INFINITE]
    return None


def _text_of(entry: _Entry) -> str:
    """Most tokens are ASCII, and their bytes say nothing more."""
    token, raw = entry.token, entry.bytes
    if not raw or (len(raw) == len(token) and token.isascii()):
        return token
    return _from_bytes(raw) or token


def _read_slowly(body: bytes) -> Likeliest:
    value = parse(body)
    if not isinstance(value, dict):
        return []
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else value
    if not isinstance(choice, dict):
        return []
    logprobs = choice.get("logprobs")
    return _entries(logprobs) if isinstance(logprobs, dict) else _inside(value.get("completion_probabilities"))


def _entries(logprobs: dict[str, Any]) -> Likeliest:
    found = _inside(logprobs.get("content"))
    if found:
        return found
    top = logprobs.get("top_logprobs")
    first = top[0] if isinstance(top, list) and top else None
    if isinstance(first, dict):
        return [(_unescaped(token), min(value, 0.0)) for token, value in first.items() if _is_logarithm(value)]
    return _tokens(first)


def _inside(places: Any) -> Likeliest:
    """The tokens of the first of several places."""
    first = places[0] if isinstance(places, list) and places else None
    if not isinstance(first, dict):
        return []
    return _tokens(first.get("top_logprobs")) or _tokens([first])


def _tokens(entries: Any) -> Likeliest:
    found = []
    for entry in entries if isinstance(entries, list) else []:
        value = entry.get("logprob") if isinstance(entry, dict) else None
        text = _text(entry) if _is_logarithm(value) else None
        if text is not None and value is not None:
            found.append((text, min(value, 0.0)))
    return found


def _text(entry: dict[str, Any]) -> str | None:
    raw, token = entry.get("bytes"), entry.get("token")
    found = _from_bytes(raw) if isinstance(raw, list) else None
    return found or (token if isinstance(token, str) else None)


def _from_bytes(raw: list[Any]) -> str | None:
    """A token's bytes are exact where its text cannot be: half a character is no UTF-8. None where they are no bytes."""
    if not all(type(byte) is int and 0 <= byte < 256 for byte in raw):
        return None
    return bytes(raw).decode("utf-8", "surrogateescape")


def _unescaped(token: str) -> str:
    """OpenAI's completions write half a character as `bytes:` and an escape for each byte."""
    escaped = _ESCAPED.fullmatch(token) if token.startswith("bytes:") else None
    return token if escaped is None else bytes.fromhex(escaped[1].replace("\\x", "")).decode("utf-8", "surrogateescape")


def _is_logarithm(value: Any) -> bool:
    """NaN compares as false; an integer may be larger than any float."""
    return type(value) in (float, int) and _LEAST < value < _INFINITE
