"""Hostile text commands no terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.observe.text import printable


def test_escapes_newlines_and_overrides_are_shown_not_obeyed() -> None:
    assert printable("a\x1b[2Jb\nc\td\u202ee\x9bf\ud800") == "a\\x1b[2Jb\\nc\\td\\u202ee\\x9bf\\ud800"


def test_ordinary_text_of_any_language_stays() -> None:
    assert printable("é 漢字 😀 [bold]x[/bold]") == "é 漢字 😀 [bold]x[/bold]"


@given(st.text(), st.none() | st.integers(0, 50))
def test_one_line_without_controls_within_its_limit(text: str, limit: int | None) -> None:
    shown = printable(text, limit)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
    assert limit is None or len(shown) <= max(limit, 1)
