"""Amounts as people read them."""

from __future__ import annotations

import math


def money(amount: float) -> str:
    """USD for people: cents where there are many, and never 0.00 for what is more than nothing."""
    if amount >= 1 or amount == 0:
        return f"{amount:,.2f}"
    if amount >= 0.01:
        return f"{amount:.4f}"
    if amount < 1e-10:
        return f"{amount:.2g}"
    return f"{amount:.{2 - math.floor(math.log10(amount))}f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 request`, `2,000 requests`. `plural`: where it is not made by an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
