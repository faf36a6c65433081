"""The texts that payloads hold: what a tokenizer would see of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from msgspec import Struct


class PromptTexts(Struct, frozen=True):
    """One request's texts in their order.

    `messages`: how many there are, 0 for a bare prompt; `others`: parts that are no text; `value`: the payload itself, decoded.
    """

    texts: list[str]
    value: Any
    messages: int = 0
    others: int = 0


def prompt_texts(payloads: Sequence[bytes]) -> Iterator[PromptTexts]:
    """The texts of each payload: a JSON array of messages, or a JSON string."""
    listed = b"[" + b",".join(payloads) + b"]"
    try:
        values = orjson.loads(listed)
    except orjson.JSONDecodeError:  # a lone surrogate
        values = json.loads(listed)
    return map(_texts, values)


def _texts(value: Any) -> PromptTexts:
    if isinstance(value, str):
        return PromptTexts([value], value)
    texts: list[str] = []
    others = 0
    for message in value:
        content = message["content"]
        if type(content) is str:
            texts.append(content)
            continue
        for part in content:
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
            else:
                others += 1
    return PromptTexts(texts, value, len(value), others)
