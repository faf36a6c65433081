from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import RecordError
from headrace.prompts.longest import Longest, texts_of


def payload(*contents: Any) -> bytes:
    return json.dumps([{"role": "user", "content": content} for content in contents], ensure_ascii=False).encode()


def test_the_texts_of_a_prompt_are_those_of_its_messages() -> None:
    parts = [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "data:" + "x" * 999}}]
    assert list(texts_of(payload("a", parts, "c"))) == ["a", "b", "c"]
    assert list(texts_of(b'"a prompt of text"')) == ["a prompt of text"]


def test_what_fits_passes_and_one_more_does_not() -> None:
    longest = Longest(10, "chars", len)
    longest.check(payload("12345", "67890"))
    with pytest.raises(RecordError, match=r"^the prompt has 11 chars, and slice.max_input allows 10 chars$"):
        longest.check(payload("12345", "678901"))


def test_an_estimate_says_so() -> None:
    with pytest.raises(RecordError, match="about 25 tokens"):
        Longest(10, "tokens", lambda text: len(text) / 4).check(payload("x" * 100))


def test_an_image_has_no_length_here() -> None:
    Longest(10, "chars", len).check(payload([{"type": "image_url", "image_url": {"url": "data:" + "x" * 999}}]))
