"""What tokens cost: the prices of a model, what a request cost by its usage, and what it may cost at most."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from headrace.values import Usage

MILLION = 1_000_000


class Tier(Struct, frozen=True):
    """The prices of a request whose prompt has more than `above` tokens: of all its tokens, not of those beyond alone.

    What is None stays as it is below.
    """

    above: int
    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None


class Batch(Struct, frozen=True):
    """Prices of the same request sent through a batch API. None: not known, which does not mean that there is none."""

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None


class Prices(Struct, frozen=True):
    """USD per token, `request` per request. None: not known; 0.0: free.

    A price of `cached_input`, `cache_write` or `reasoning` that is not known is that of `input` or `output`: these tokens are
    part of those, and only dearer or cheaper where the list says so. `most_output` is the longest answer that the model gives.
    """

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None
    request: float = 0.0
    batch: Batch = Batch()
    tiers: tuple[Tier, ...] = ()
    most_output: int | None = None

    @property
    def known(self) -> bool:
        """Whether what a request costs can be told."""
        return self.input is not None and self.output is not None

    def at(self, prompt: float) -> Prices:
        """As they are for a prompt of so many tokens."""
        prices = self
        for tier in self.tiers:  # from the lowest
            if prompt > tier.above:
                prices = _in_tier(prices, tier)
        return prices

    def as_batch(self) -> Prices:
        """As they are through a batch API; what is not known there is not known, and nothing of a tier is."""
        batch = self.batch
        return Prices(batch.input, batch.output, batch.cached_input)

    def cost(self, usage: Usage, *, cached_included: bool = True, written: int = 0) -> float | None:
        """USD by what the server counted; None where a price or a count is not known.

        `usage.prompt` includes the cached tokens (OpenAI), or with `cached_included` False does not (Anthropic); `written` are
        tokens that were put into the cache, and belong to the prompt in the same way. Reasoning is inside `usage.completion`
        unless there is more of it than of that.
        """
        prompt, completion = usage.prompt, usage.completion
        if prompt is None or (completion is None and self.output != 0.0):
            return None
        cached = usage.cached or 0
        if not cached_included:
            prompt += cached + written
        cached = min(cached, prompt)
        return self.of(prompt, completion or 0, cached, usage.reasoning or 0, min(written, prompt - cached))

    def of(self, prompt: int, completion: int, cached: int = 0, reasoning: int = 0, written: int = 0) -> float | None:
        """USD of one request of so many tokens: `cached` and `written` of `prompt`, `reasoning` of `completion`."""
        prices = self.at(prompt) if self.tiers else self
        beside = reasoning if reasoning > completion else 0  # more than the answer: counted beside it, not in it
        return prices.total(1, prompt, completion, cached=cached, written=written, inside=reasoning - beside, beside=beside)

    def total(
        self, requests: int, prompt: int, completion: int, *, cached: int = 0, written: int = 0, inside: int = 0, beside: int = 0
    ) -> float | None:
        """USD of several requests of one tier: reasoning tokens are `inside` the completion's or `beside` them."""
        each, answer = self.input, self.output
        if each is None or answer is None:
            return None
        spent = self.request * requests + prompt * each + completion * answer
        if cached and self.cached_input is not None:
            spent += cached * (self.cached_input - each)
        if written and self.cache_write is not None:
            spent += written * (self.cache_write - each)
        if inside and self.reasoning is not None:
            spent += inside * (self.reasoning - answer)
        if beside:
            spent += beside * (answer if self.reasoning is None else self.reasoning)
        return spent

    def most(self, prompt: float, completion: float) -> float | None:
        """USD that a request of at most so many tokens may cost, whatever of it is cached, written or thought."""
        worst = 0.0
        for prices in [self, *(self.at(tier.above + 1) for tier in self.tiers if prompt > tier.above)]:
            if prices.input is None or prices.output is None:
                return None
            each = max(prices.input, prices.cached_input or 0.0, prices.cache_write or 0.0)
            answer = max(prices.output, prices.reasoning or 0.0)
            worst = max(worst, prices.request + prompt * each + completion * answer)
        return worst


def answered(usage: Usage) -> int:
    """Tokens of the answer, with those of its reasoning where a server counts them beside it: more than the answer has."""
    completion, reasoning = usage.completion or 0, usage.reasoning or 0
    return completion + (reasoning if reasoning > completion else 0)


def per_million(dollars: float | None) -> float | None:
    """USD per token of a price that is told per million."""
    return None if dollars is None else dollars / MILLION


def self_hosted(gpu_hour: float, gpus: int, tokens_per_second: float) -> float:
    """USD per token of one's own machine: what its GPUs cost an hour, over the tokens that they deliver in it."""
    return gpu_hour * gpus / (tokens_per_second * 3600)


def amount(value: object) -> float | None:
    """A price as lists write it, a number or a decimal string. None where it is none, negative or not finite: not known."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        price = float(value)
    except (ValueError, OverflowError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def told_apart(value: float | None, whole: float | None) -> float | None:
    """The price of a part of the tokens; 0 beside a price for the whole is a list's way to say that it has none of its own."""
    return None if value == 0.0 and whole != 0.0 else value


def _in_tier(prices: Prices, tier: Tier) -> Prices:
    """A part that this tier does not price costs what it did, or as the whole where that price was its share of a lower one."""
    changed = {
        name: value
        for name in ("input", "output", "cached_input", "cache_write", "reasoning")
        if (value := getattr(tier, name)) is not None
    }
    if "input" in changed and "cached_input" not in changed:
        changed["cached_input"] = None  # the dearer reading: no discount is told for so long a prompt
    if "output" in changed and "reasoning" not in changed:
        changed["reasoning"] = None
    return replace(prices, **changed)
