"""Answers derived from the prompt: what a simulated endpoint says, the same for the same prompt and seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jsonschema_rs

from headrace import canon
from headrace.testing.instances import NoInstanceError, instance
from headrace.testing.laws import CHARS_PER_TOKEN, Laws, digest, share, tokens

KEPT_VALIDATORS = 256
_FILLERS = ("the", "a", "this", "it", "an", "in")


class UnansweredError(ValueError):
    """The laws give no answer to this request; the message says what is missing."""


class Prompt(NamedTuple):
    """A prompt as the laws see it. `text`: all of it; `last`: the last user message; `key`: the text's digest."""

    text: str
    last: str
    key: bytes
    tokens: int

    @classmethod
    def of_messages(cls, messages: Any) -> Prompt:
        """Of a chat. Raises ValueError for anything but a list of messages."""
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages must be a list that is not empty")
        texts, last = [], ""
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise ValueError("each message must be an object with a role")  # noqa: TRY004 - a fault of the request, not of a caller
            text = _content(message.get("content"))
            texts.append(text)
            if message["role"] == "user":
                last = text
        return cls.of_text("\n".join(texts), last)

    @classmethod
    def of_text(cls, text: str, last: str | None = None) -> Prompt:
        return cls(text, text if last is None else last, digest(text), tokens(text))


class Drawn(NamedTuple):
    """An answer: what is said, why it ended (`stop` or `length`), its tokens."""

    content: str
    finish: str
    tokens: int


def draw(laws: Laws, prompt: Prompt, schema: Any = None, max_tokens: int | None = None) -> Drawn:
    """The answer to a prompt. `schema`: the JSON Schema asked for, or None; True: any JSON object.

    An answer longer than `max_tokens` is cut. Raises UnansweredError.
    """
    content = _said(laws, prompt, schema)
    count = tokens(content)
    if max_tokens is not None and max_tokens < count:
        return Drawn(content[: max_tokens * CHARS_PER_TOKEN], "length", max_tokens)
    return Drawn(content, "stop", count)


def likeliest(laws: Laws, prompt: Prompt, count: int, *, spaced: bool) -> list[tuple[str, float]]:
    """The `count` likeliest first tokens with the logarithms of their probabilities; each label's first word is one token.

    The label that would be said has the most, the others share the rest by hash, and so do a few words that are no labels.
    `spaced`: tokens begin with a space, as after a prompt of text. Raises UnansweredError.
    """
    said = _first_word(_said(laws, prompt, None))
    words = dict.fromkeys([said, *map(_first_word, _known_labels(laws)), *_FILLERS])
    weights = {word: 0.2 + share(laws.seed, "weight", prompt.key + word.encode("utf-8", "surrogatepass")) for word in words}
    weights[said] = sum(weights.values())
    whole = sum(weights.values())
    ranked = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:count]
    return [(f" {word}" if spaced else word, round(math.log(weight / whole), 6)) for word, weight in ranked]


def _said(laws: Laws, prompt: Prompt, schema: Any) -> str:
    kind, _, rest = laws.answer.partition(":")
    if kind == "text":
        return rest
    if kind == "echo":
        return prompt.last[: int(rest)] if rest else prompt.last
    label = _label(laws, prompt, _known_labels(laws)) if kind == "label" else None
    if schema is None and kind == "label":
        if label is None:
            raise UnansweredError("no labels to choose from: name --labels or --table, or send a schema with an enum")
        return label
    if schema is None or schema is True:
        return canon.encode({"answer": label or prompt.key.hex()}).decode()
    return _by_schema(laws, prompt, schema, label)


def _by_schema(laws: Laws, prompt: Prompt, schema: Any, label: str | None) -> str:
    def choose(values: Sequence[Any]) -> Any:
        if laws.answer == "label" and any(isinstance(value, str) for value in values):
            return _label(laws, prompt, [value for value in values if isinstance(value, str)])
        return values[int(share(laws.seed, "choice", prompt.key) * len(values))]

    try:
        made = instance(schema, word=label or prompt.key.hex(), choose=choose)
        _validators(schema).validate(made)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = str(error) if isinstance(error, NoInstanceError) else "its keywords are beyond a simulated answer"
        raise UnansweredError(f"no answer can be made by this schema: {reason}") from None
    return canon.encode(made).decode()


def _first_word(text: str) -> str:
    words = text.split(maxsplit=1)
    return words[0] if words else ""


def _known_labels(laws: Laws) -> list[str]:
    return list(laws.labels) or list(dict.fromkeys(laws.table.values()))


def _label(laws: Laws, prompt: Prompt, labels: list[str]) -> str | None:
    """The true label by table or else by hash, or, for a share of the prompts, another one."""
    if not labels:
        return None
    right = next((label for part, label in laws.table.items() if part in prompt.last and label in labels), None)
    if right is None:
        right = labels[int(share(laws.seed, "label", prompt.key) * len(labels))]
    others = [label for label in labels if label != right]
    if others and laws.label_errors and share(laws.seed, "wrong", prompt.key) < laws.label_errors:
        return others[int(share(laws.seed, "which", prompt.key) * len(others))]
    return right


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    raise ValueError("a message's content must be a string or a list of parts")


class _Validators:
    """Compiled validators by schema, the latest few."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Any] = {}

    def __call__(self, schema: Any) -> Any:
        key = canon.encode(schema)
        found = self._kept.get(key)
        if found is None:
            found = jsonschema_rs.validator_for(schema, retriever=_refuse)
            if len(self._kept) >= KEPT_VALIDATORS:
                self._kept.clear()
            self._kept[key] = found
        return found


def _refuse(uri: str) -> Any:
    raise ValueError(f"no schema is fetched: {uri[:100]}")


_validators = _Validators()
