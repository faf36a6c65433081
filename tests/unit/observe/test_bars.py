"""Figures as bars."""

from __future__ import annotations

from headrace.observe.bars import bars


def test_the_largest_fills_the_width_and_what_is_little_is_seen() -> None:
    assert bars([10.0, 5.0, 0.001, 0.0], plain=True, width=4) == ["####", "##", "#", ""]
    assert bars([1.0], width=2) == ["██"]


def test_nothing_has_no_bar() -> None:
    assert bars([]) == []
    assert bars([0.0, 0.0]) == ["", ""]
