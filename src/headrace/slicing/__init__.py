"""Slicing: from an item to the pieces of it that are asked, and from their answers back to the item's."""

from __future__ import annotations

from headrace.slicing.divide import Divider
from headrace.slicing.truncate import Truncator

__all__ = ["Divider", "Truncator"]
