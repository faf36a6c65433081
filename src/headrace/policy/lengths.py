"""How much work a unit is expected to be: its prompt, and an answer whose length is learnt as a line over the prompt's size."""

from __future__ import annotations

from statistics import median

PROMPT_SHARE = 0.125  # a prompt token takes about an eighth of the time of one that is generated
TOKENS_A_BYTE = 0.25  # before usage says how many
KEPT = 256
FIRST_FIT = 16
FEW = 3  # once enough are known, one answer in four is looked at
LEAST_SLOPE = -1.0


class Lengths:
    """Learns from answers; `cost` is in tokens of an answer. Before it knows anything, work is as long as its prompt.

    The line is Theil's: the median of the slopes between answers to a short and to a long prompt, so that a few answers
    that ran to their limit move it little. It is drawn anew when twice as many answers are known, then every thousand.
    """

    def __init__(self) -> None:
        self.tokens_a_byte = TOKENS_A_BYTE
        self.slope = 1.0
        self.constant = 0.0
        self.skip = 0
        self._seen: list[tuple[int, float]] = []
        self._count = 0
        self._fit_at = FIRST_FIT
        self._prompt_bytes = 0
        self._prompt_tokens = 0

    def cost(self, size: int) -> float:
        """What a unit whose prompt has so many bytes is expected to take; above 0."""
        return max(self.constant + self.slope * size, 1e-9)

    def learn(self, size: int, prompt: int | None, answer: float) -> bool:
        """An answer of so many tokens to a prompt of `size` bytes and, where the server says it, `prompt` tokens.

        Returns whether the line has been drawn anew. Afterwards `skip` answers need not be told.
        """
        self._count = count = self._count + 1
        if prompt is not None:
            self._prompt_bytes += size
            self._prompt_tokens += prompt
        if count <= KEPT:
            self._seen.append((size, answer))
        else:
            self._seen[count % KEPT] = (size, answer)
            self.skip = FEW
        if count < self._fit_at:
            return False
        self._fit_at = min(2 * count, count + KEPT)
        self._fit()
        return True

    def _fit(self) -> None:
        if self._prompt_bytes:
            self.tokens_a_byte = self._prompt_tokens / self._prompt_bytes
        seen = sorted(self._seen)
        half = len(seen) // 2
        pairs = zip(seen[:half], seen[-half:], strict=True)
        slopes = [(longer - shorter) / (large - small) for (small, shorter), (large, longer) in pairs if large > small]
        slope = max(LEAST_SLOPE, median(slopes)) if slopes else 0.0
        self.constant = median([length - slope * size for size, length in seen])
        self.slope = slope + PROMPT_SHARE * self.tokens_a_byte
