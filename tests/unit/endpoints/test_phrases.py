"""The words of each pattern admit everything that the pattern matches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.endpoints import redact, refusals, retry_after
from headrace.endpoints.phrases import Phrases

ALL = [
    pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}{name}")
    for module in (redact, refusals, retry_after)
    for name, value in vars(module).items()
    if isinstance(value, Phrases)
]


@pytest.mark.parametrize("phrases", ALL)
@pytest.mark.slow
@settings(deadline=None)  # a draw from a large pattern takes its time
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_one_of_its_words(phrases: Phrases, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(phrases.pattern, fullmatch=True))
    assert phrases.possible(text.casefold())


def test_a_text_without_the_words_is_not_looked_through() -> None:
    phrases = Phrases("one|two words", "one|two words")
    assert not phrases.found("three")
    assert phrases.found("there are two words")
    assert Phrases("one", r"\bone\b").found("gone") is False
