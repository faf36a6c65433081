"""Figures as bars of characters."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 40


def bars(values: Sequence[float], *, plain: bool = False, width: int = WIDTH) -> list[str]:
    """A bar for each value, the largest `width` characters long; what is more than nothing has one at least."""
    most = max(values, default=0.0)
    character = "#" if plain else "█"
    return [character * (max(1, round(value / most * width)) if value > 0 and most > 0 else 0) for value in values]
