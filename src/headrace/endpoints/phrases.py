"""Patterns that cost much to look for, and the words without one of which no text can hold them."""

from __future__ import annotations

import re


class Phrases:
    """A pattern and its words, `|` between them. Every match of the pattern, in lower case, holds one of the words.

    Looking for the words costs a hundredth of looking for the pattern, and most texts hold none.
    """

    __slots__ = ("pattern", "words")

    def __init__(self, words: str, pattern: str) -> None:
        self.words = tuple(words.split("|"))
        self.pattern = re.compile(pattern)

    def possible(self, folded: str) -> bool:
        """False if no text whose lower-case form is this can hold a match."""
        for word in self.words:  # noqa: SIM110 - a generator costs more than the words do
            if word in folded:
                return True
        return False

    def found(self, lower: str) -> bool:
        """True if this lower-case text holds a match."""
        return self.possible(lower) and self.pattern.search(lower) is not None
