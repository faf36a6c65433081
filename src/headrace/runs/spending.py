"""What a run has spent, from the records of its ledger: each attempt's usage at the prices of its configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.engine.knobs import Asked, Knobs
from headrace.ledger.reader import LedgerReader, as_text
from headrace.policy.budget import Most, Spent, may_be_billed
from headrace.policy.price import Prices
from headrace.runs.costs import JUDGE_PRICES, RECORDED, read_recorded

USES = ("known_uses", "unknown_uses")


class Tariffs(Struct, frozen=True):
    """The prices of every (configuration, endpoint) that a ledger knows; `thresholds` are those of all their tiers."""

    prices: Mapping[tuple[int, int], Prices]
    thresholds: tuple[int, ...]

    def at(self, config: int, endpoint: int) -> Prices:
        return self.prices.get((config, endpoint), Prices())


class Spending(Struct):
    """Sums over attempts. USD of those whose usage and price are known: `useful` of accepted answers, `wasted` of all others.

    `at_most` adds those whose usage is not known at all that they may have taken; infinite where nothing bounds them.
    `tokens` likewise. `unpriced`: attempts that may have been billed and have no price.
    """

    useful: float = 0.0
    wasted: float = 0.0
    at_most: float = 0.0
    tokens: float = 0.0
    unknown: int = 0
    unpriced: int = 0

    @property
    def known(self) -> float:
        return self.useful + self.wasted

    def add_known(self, tariffs: Tariffs, rows: Iterable[Any]) -> None:
        """Rows of `known_uses`."""
        for config, endpoint, is_accepted, tier, count, prompt, completion, cached, inside, beside in rows:
            self.tokens += prompt + completion + (beside or 0)
            prices = tariffs.at(config, endpoint)
            if tier:
                prices = prices.at(tariffs.thresholds[tier - 1] + 1)
            cost = prices.total(
                count, int(prompt), int(completion), cached=int(cached), inside=int(inside or 0), beside=int(beside or 0)
            )
            if cost is None:
                self.unpriced += count
            elif is_accepted:
                self.useful += cost
            else:
                self.wasted += cost
            self.at_most += cost or 0.0

    def add_unknown(self, tariffs: Tariffs, rows: Iterable[Any]) -> None:
        """Rows of `unknown_uses`."""
        for config, endpoint, kind, sent, is_bound, prompt, completion, count in rows:
            if not (is_bound or may_be_billed(kind, sent)):
                continue
            self.unknown += count
            prices = tariffs.at(config, endpoint)
            self.unpriced += 0 if prices.known else count
            if prompt is None or completion is None:
                self.tokens = self.at_most = math.inf
                continue
            self.tokens += count * (prompt + completion)
            self.at_most += count * (prices.most(prompt, completion) or 0.0)


def tariffs_of(reader: LedgerReader) -> Tariffs:
    """The prices that a ledger's configurations have recorded, and those of a judge who is asked elsewhere."""
    numbers = {as_text(identity): number for number, identity in reader.all("endpoints")}
    judges = read_recorded({RECORDED: reader.meta(JUDGE_PRICES, {})})
    found = {
        (config.number, numbers[identity]): prices
        for config in reader.configs()
        for identity, prices in {**judges, **read_recorded(config.operating)}.items()
        if identity in numbers
    }
    return Tariffs(found, tuple(sorted({tier.above for prices in found.values() for tier in prices.tiers})))


def spent_of(reader: LedgerReader, most: Most) -> Spent:
    """What counts against a run's limits. What an older release left without a bound counts as a long request does."""
    tariffs = tariffs_of(reader)
    spending = Spending()
    requests = 0
    for known, unknown, others in reader.parts(*USES, "sends", thresholds=tariffs.thresholds):
        spending.add_known(tariffs, known)
        spending.add_unknown(tariffs, [_bounded(row, most) for row in unknown])
        requests += others[0][0]
    return Spent(spending.known, spending.at_most, spending.tokens, requests, spending.unknown)


def spent_so_far(ledger: Path, knobs: Knobs, asked: Sequence[Asked]) -> Spent:
    """What a run has spent; looked for only where something is limited or has a price."""
    if knobs.budget(asked, Spent()) is None:
        return Spent()
    reader = LedgerReader(ledger)
    try:
        return spent_of(reader, knobs.most)
    finally:
        reader.close()


def _bounded(row: Any, most: Most) -> Any:
    *which, prompt, completion, count = row
    return (*which, most.beside if prompt is None else prompt, most.answer if completion is None else completion, count)
