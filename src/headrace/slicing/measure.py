"""How long a text is, in the unit that the job file names: characters are code points, tokens are estimated."""

from __future__ import annotations

from headrace.policy.tokens import estimate
from headrace.spec import amount


class Measure:
    """A length of the job file: "2000 chars" or "800 tokens".

    The estimate is the one that no usage has calibrated: an equal text is always equally long.
    """

    def __init__(self, written: str) -> None:
        self.unit, self.limit = amount(written)
        self.in_tokens = self.unit == "tokens"

    def __str__(self) -> str:
        return f"{self.limit} {self.unit}"

    def of(self, text: str) -> float:
        """The text's length. Never raises, takes time in proportion to it."""
        return estimate(text) if self.in_tokens else len(text)

    def fits(self, text: str) -> bool:
        return self.of(text) <= self.limit

    def prefix(self, text: str) -> int:
        """How many characters at the text's beginning fit: at least one, so that whoever goes on from there comes to the end."""
        if not self.in_tokens:
            return min(len(text), self.limit)
        fitting, beyond = 0, min(len(text), 4 * self.limit)
        while self.fits(text[:beyond]):
            if beyond == len(text):
                return beyond
            fitting, beyond = beyond, min(len(text), 2 * beyond)
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            if self.fits(text[:middle]):
                fitting = middle
            else:
                beyond = middle
        return max(fitting, 1)
