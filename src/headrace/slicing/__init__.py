"""Slicing: from an item to the piece of it that is asked."""

from __future__ import annotations

from headrace.slicing.truncate import Truncator

__all__ = ["Truncator"]
