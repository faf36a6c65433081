"""How many tokens a text may have, by its characters alone."""

from __future__ import annotations

_ASCII = 0.25


def estimate(text: str) -> float:
    """Tokens of a text, by estimate: a quarter of its plain letters, one for each other character. Never raises."""
    others = len(text) if not text.isascii() else 0
    if others:
        others -= sum(map(str.isascii, text))
    return (len(text) - others) * _ASCII + others
