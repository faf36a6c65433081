"""What `[slice]` asks of an estimate of tokens: it knows no server, and grows with the text."""

from __future__ import annotations

import pytest

from headrace.policy.tokens import estimate


def test_nothing_has_no_tokens() -> None:
    assert estimate("") == 0


@pytest.mark.parametrize("text", ["plain words", "漢字", "naïve", "\ud800", "\x00", "<|endoftext|>", "🙂"])
def test_any_text_has_some_and_twice_the_text_has_more(text: str) -> None:
    assert 0 < estimate(text) < estimate(text + text) <= 8 * len(text.encode("utf-8", "surrogatepass"))


def test_a_wide_character_is_more_than_a_letter() -> None:
    assert estimate("漢" * 100) > 2 * estimate("word " * 20)
