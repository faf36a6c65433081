"""The likeliest tokens of a reply's first place, in any of the forms in which servers send them."""

from __future__ import annotations

import re
from typing import Any

from headrace.endpoints.envelopes import parse

Likeliest = list[tuple[str, float]]
_LEAST = -1000.0  # what is no more is no probability in any float; some servers write -9999 for none at all
_ESCAPED = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)")


def read_likeliest(body: bytes) -> Likeliest | None:
    """Tokens and the natural logarithms of their probabilities, likeliest first; None where the reply holds none.

    Read are `logprobs.content[0].top_logprobs` (chat; completions of llama.cpp too), `logprobs.top_logprobs[0]` as an
    object (completions) and llama.cpp's own `completion_probabilities[0].top_logprobs`. Tokens without any probability are
    left out; no logarithm is above 0. Never raises.
    """
    value = parse(body)
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else value
    if not isinstance(choice, dict):
        return None
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        found = _entries(logprobs)
    else:
        found = _inside(value.get("completion_probabilities"))
    found.sort(key=lambda pair: -pair[1])
    return found or None


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
    """A token's text. Its bytes are exact where the text cannot be: half a character is no UTF-8."""
    raw, token = entry.get("bytes"), entry.get("token")
    if isinstance(raw, list) and raw and all(type(byte) is int and 0 <= byte < 256 for byte in raw):
        return bytes(raw).decode("utf-8", "surrogateescape")
    return token if isinstance(token, str) else None


def _unescaped(token: str) -> str:
    """OpenAI's completions write half a character as `bytes:` and an escape for each byte."""
    escaped = _ESCAPED.fullmatch(token) if token.startswith("bytes:") else None
    return token if escaped is None else bytes.fromhex(escaped[1].replace("\\x", "")).decode("utf-8", "surrogateescape")


def _is_logarithm(value: Any) -> bool:
    """NaN compares as false; an integer may be larger than any float."""
    return type(value) in (float, int) and _LEAST < value < float("inf")
