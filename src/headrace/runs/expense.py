"""What the rest of a job is going to cost, between two figures; what is not known stays unknown and is never 0."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec import Struct

from headrace.policy.price import Prices
from headrace.policy.tokens import Span
from headrace.runs.expectation import Between, Load
from headrace.runs.prices import prices_of
from headrace.spec import JobSpec


class Cost(Struct, frozen=True):
    """USD. `known`: both figures are. `why` says in a few words what is missing."""

    low: float | None = None
    high: float | None = None
    known: bool = False
    why: str | None = None


class Sent(Struct, frozen=True):
    """What is to be sent: tokens of all prompts and answers, those of the `longest` prompt, how many a cache could serve, and
    the least and the most requests that it may be.
    """

    load: Load
    prompt: Span
    answers: Between
    longest: float
    cacheable: float
    fewest: int
    most: int


def cost_of(spec: JobSpec, base: Path, sent: Sent) -> Cost:
    """By the prices of the endpoints: the low figure by the cheapest, the high one by the dearest.

    Raises SpecError for a file that is no price list.
    """
    if not sent.load.requests:
        return Cost(0.0, 0.0, known=True)
    found = prices_of(spec, base)
    unknown = next((one.why for one in found if not one.prices.known), None)
    if unknown is not None or not all(one.prices.known for one in found):
        return Cost(why=unknown or "[prices] names no price of both input and output")
    low = min(_low(one.prices, sent) for one in found)
    highs = [_high(one.prices, sent) for one in found]
    high = max((one for one in highs if one is not None), default=None)
    if None in highs:
        return Cost(low, None, why="model.max_tokens is not set: nothing bounds the answers")
    return Cost(low, high, known=True)


def _low(prices: Prices, sent: Sent) -> float:
    """The cheapest that it can be: what a cache can serve comes from it, where that is cheaper."""
    count, prompt, answer = sent.fewest, round(sent.prompt.low), round(sent.answers.low or 0)
    cached = round(min(sent.cacheable, prompt))
    totals = [prices.at(prompt / max(count, 1)).total(count, prompt, answer, cached=tokens) for tokens in (0, cached)]
    return min(total for total in totals if total is not None)


def _high(prices: Prices, sent: Sent) -> float | None:
    """The dearest: nothing comes from a cache, all may be written to it and all be thought, at the longest prompt's price."""
    if sent.answers.high is None:
        return None
    count, prompt, answer = sent.most, math.ceil(sent.prompt.high), math.ceil(sent.answers.high)
    totals = [
        tier.total(count, prompt, answer, written=written, inside=inside)
        for tier in (prices, prices.at(sent.longest))
        for written in (0, prompt)
        for inside in (0, answer)
    ]
    return max(total for total in totals if total is not None)
