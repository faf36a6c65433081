"""`slice.max_input`: a record whose prompt is too long is rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace import canon
from headrace.errors import RecordError

_TOKENS_A_BYTE = 2.0  # no estimate has more for a text


def texts_of(payload: bytes) -> Iterator[str]:
    """The texts of a prompt as they were rendered: of each message, or of each part of one; images are none."""
    prompt: Any = canon.decode(payload)
    if isinstance(prompt, str):
        yield prompt
        return
    for message in prompt:
        content = message["content"]
        if isinstance(content, str):
            yield content
        else:
            yield from (part["text"] for part in content if isinstance(part.get("text"), str))


class Longest:
    """How long a prompt may be. `length` measures a text in `unit`."""

    def __init__(self, limit: int, unit: str, length: Callable[[str], float]) -> None:
        self._limit = limit
        self._unit = unit
        self._length = length
        self._harmless = int(limit / _TOKENS_A_BYTE) if unit == "tokens" else limit  # a character is a byte at least

    def check(self, payload: bytes) -> None:
        """Raises RecordError where the prompt is longer."""
        if len(payload) <= self._harmless:
            return
        found = sum(map(self._length, texts_of(payload)))
        if found > self._limit:
            about = "about " if self._unit == "tokens" else ""
            raise RecordError(
                f"the prompt has {about}{round(found)} {self._unit}, and slice.max_input allows {self._limit} {self._unit}"
            )
