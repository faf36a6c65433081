"""Whether a server read the whole prompt: the tokens that it counted, held against what was sent and what it counted before."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.policy.tokens import estimate, span
from headrace.values import Usage

LEAST_BYTES = 4_000  # no server has a context so short that it cuts smaller prompts
_LEAST_TOKENS = 256  # fewer are not the rest of a cut prompt: the server counts only what its cache had not
_FAR_BELOW = 0.6  # of the fewest tokens that any usual tokenizer makes of it
_HALF = 0.5  # of the tokens that this server made of such text before
_USUAL = 0.8  # of the tokens that it made of so many bytes before: what has more is not looked at
_LEARNT = 20  # replies that say how many tokens it makes of a text,
_MEMORY = 200  # and of a byte
_SPREAD = 1.05  # prompts of one value differ by this much at least,
_WIDE_SPREAD = 1.5  # and by this much where their text itself says nothing
_MOST_VALUES = 256
# Parts that are no text: their bytes say nothing about tokens.
_OTHER_PARTS = (b'"image_url"', b'"input_audio"', b'"file"', b'"image"', b'"input_image"', b'"input_file"', b'"video_url"')


class _Value:
    """Prompts for which the server counted one and the same number."""

    __slots__ = ("count", "far_below", "largest", "smallest")

    def __init__(self, size: int) -> None:
        self.count = self.far_below = 0
        self.smallest = self.largest = size


class TruncationWatch:
    """Suspects one endpoint of reading only a part of long prompts. What is suspected may be wrong; what is not is not proven.

    A prompt is suspected when far fewer tokens were counted than any tokenizer makes of its text, or when the count is the
    `cap`: the largest number that this server ever counts, and counts for prompts of different lengths that must have more.
    `shared_bytes` begin every payload: they may be cached, and servers are known that leave out of the count what is.
    """

    def __init__(self, shared_bytes: int = 0) -> None:
        self.cap: int | None = None
        self._shared = shared_bytes
        self._most = 0
        self._tokens_a_byte = 0.25
        self._of_estimate = 1.0
        self._seen = 0
        self._values: dict[int, _Value] = {}

    def is_suspect(self, payload: bytes, usage: Usage) -> bool:
        """Whether a reply to this payload, of at least LEAST_BYTES, says that not all of it was read. Cheap where all is well."""
        counted = usage.prompt
        if counted is None:
            return False
        size = len(payload)
        if counted > self._most:
            self._most = counted
            if self.cap is not None and counted > self.cap:
                self.cap = None  # it reads more than that
        if counted >= _USUAL * self._tokens_a_byte * size:
            if self._seen < _MEMORY:
                self._learn(payload, counted)
            return counted == self.cap
        return self._look(payload, counted, counted + (usage.cached or 0))

    def _learn(self, payload: bytes, counted: int) -> None:
        self._seen += 1
        self._tokens_a_byte += (counted / len(payload) - self._tokens_a_byte) / self._seen
        if self._seen <= _LEARNT:
            self._of_estimate += (counted / max(1.0, tokens_of(payload) or counted) - self._of_estimate) / self._seen

    def _look(self, payload: bytes, counted: int, with_cached: int) -> bool:
        """Fewer tokens than is usual here: the text itself is looked at."""
        if counted < _LEAST_TOKENS:
            return False
        if counted == self.cap:
            return True
        text = text_of(payload)
        if text is None:
            return False
        said = span(text)
        fewest = said.low
        is_far_below = with_cached < _FAR_BELOW * fewest
        is_half = self._seen >= _LEARNT and with_cached < _HALF * self._of_estimate * said.expected
        if not (is_far_below or is_half) and self._seen < _MEMORY:
            self._learn(payload, counted)
        if (is_far_below or is_half) and self._is_cap(counted, len(payload), is_far_below=is_far_below):
            self.cap = counted
            return True
        if not is_far_below or not self._shared:
            return is_far_below
        return with_cached < _FAR_BELOW * (fewest - span(payload[: self._shared]).high)

    def _is_cap(self, counted: int, size: int, *, is_far_below: bool) -> bool:
        """Whether so many tokens, too few for this prompt, are all that it ever reads."""
        value = self._values.get(counted)
        if value is None:
            if len(self._values) >= _MOST_VALUES:
                del self._values[next(iter(self._values))]
            value = self._values[counted] = _Value(size)
        value.count += 1
        value.far_below += is_far_below
        value.smallest, value.largest = min(value.smallest, size), max(value.largest, size)
        if counted < self._most:
            return False
        if value.far_below >= 2 and value.largest >= _SPREAD * value.smallest:
            return True
        return value.count >= 3 and value.largest >= _WIDE_SPREAD * value.smallest


def tokens_of(payload: bytes) -> float | None:
    """An estimate of the tokens of a payload; None where part of it is no text."""
    text = text_of(payload)
    return None if text is None else estimate(text)


def text_of(payload: bytes) -> str | None:
    """What a payload, the messages of a chat or a prompt, says in words; None where part of it is something else."""
    if any(part in payload for part in _OTHER_PARTS):
        return None
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload.decode("utf-8", "replace")
    return "\n".join(_words(value))


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    messages = value if isinstance(value, list) else []
    found = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return found
