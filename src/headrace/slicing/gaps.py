"""The white space between two pieces of a text: what stands between their answers once these are one text again."""

from __future__ import annotations

TEXTS = ("", " ", "\n", "\n\n")
_LOOKED_AT = 16


def gap_at(text: str, at: int) -> int:
    """Which of `TEXTS` comes nearest to the white space around this place."""
    before, after = text[max(0, at - _LOOKED_AT) : at], text[at : at + _LOOKED_AT]
    white = before[len(before.rstrip()) :] + after[: len(after) - len(after.lstrip())]
    return min(white.count("\n"), 2) + 1 if white else 0


def between(left: str, gap: int, right: str) -> str:
    """What is to stand between two answers: nothing where one of them brings white space along."""
    return "" if left[-1:].isspace() or right[:1].isspace() else TEXTS[gap]
