"""What a unit will take of a server, in tokens: from its bytes before it is sent, and from what the answers so far were."""

from __future__ import annotations

from headrace.values import Usage

TOKENS_A_BYTE = 0.3  # before usage says how many
ANSWER_TOKENS = 200.0
MEMORY = 30


class Estimate:
    """Tokens of a prompt by its bytes, and of an answer by the mean of those so far (before the first: `longest`)."""

    __slots__ = ("answer", "computed", "seen", "tokens_a_byte")

    def __init__(self, longest: int | None = None) -> None:
        self.tokens_a_byte = TOKENS_A_BYTE
        self.answer = float(longest) if longest is not None else ANSWER_TOKENS
        self.computed = 1.0  # the share of a prompt that was not in the server's cache
        self.seen = 0

    def of(self, size: int) -> tuple[float, float]:
        """Tokens of prompt and answer of a payload of so many bytes."""
        return size * self.tokens_a_byte, self.answer

    def learn(self, size: int, usage: Usage) -> None:
        """A reply said what it took; one that does not name the prompt's tokens teaches nothing."""
        prompt = usage.prompt
        if prompt is None:
            return
        self.seen = seen = self.seen + 1
        weight = 1 / seen if seen < MEMORY else 1 / MEMORY
        self.tokens_a_byte += (prompt / max(size, 1) - self.tokens_a_byte) * weight
        self.answer += ((usage.completion or 0) - self.answer) * weight
        if usage.cached is not None and prompt > 0:
            self.computed += (1 - min(1.0, usage.cached / prompt) - self.computed) * weight
