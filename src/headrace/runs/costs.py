"""What a run costs: the prices of its endpoints found, insisted on where they are needed, and kept with its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from headrace.errors import SpecError
from headrace.ledger.reader import LedgerReader, StoredConfig
from headrace.policy.budget import UNTOLD_ANSWER, Most
from headrace.policy.price import Prices
from headrace.runs.answerers import Answerers
from headrace.runs.job import Job
from headrace.runs.jobfaults import shown
from headrace.runs.prices import Found, asks_endpoints, most_of, name_in_list, prices_of, slips_of_units
from headrace.spec import JobSpec

JUDGE_PRICES = "judge_prices"  # the ledger's name for the same of the judge of an eval set
RECORDED = "found_prices"  # beside the operating keys that a ledger keeps: what the prices were, by who answers


class Costs(Struct, frozen=True):
    """The prices of each endpoint, what a request may take besides its payload, and lines that people should know."""

    found: list[Found]
    most: Most
    warnings: list[str]


async def find_costs(job: Job, answerers: Answerers, ledger: Path) -> Costs:
    """What each endpoint costs; where they are to say it themselves they are asked, once. One that is away does not keep a run
    from going on: what it said when `ledger` was last written stands. Raises SpecError.
    """
    spec = job.spec
    if asks_endpoints(spec):
        found = await answerers.own_prices(job, _before(spec, _newest(ledger)))
    else:
        found = prices_of(spec, job.base)
    insist_on_prices(spec, found)
    most = most_of(spec, found)
    warnings = _unknown(spec, found) + slips_of_units(spec.prices)
    if (spec.limits.max_cost or spec.limits.max_total_tokens) and most.answer >= UNTOLD_ANSWER:
        warnings.append(
            f"nothing bounds an answer: each request reserves {most.answer:,} tokens for it, or what the server says that it "
            "holds; model.max_tokens lets more of them go at once."
        )
    return Costs(found, most, warnings)


def refuse_unpriced(job: Job) -> None:
    """Raise SpecError where nobody need be asked to know that the price of a job with `limits.max_cost` is not known."""
    found = prices_of(job.spec, job.base)
    if not asks_endpoints(job.spec):
        insist_on_prices(job.spec, found)


def insist_on_prices(spec: JobSpec, found: Sequence[Found]) -> None:
    """Raise SpecError where `limits.max_cost` is set and what requests cost is not known."""
    if spec.limits.max_cost is None:
        return
    for number, one in enumerate(found):
        if not one.prices.known:
            where = f" at endpoint[{number}]" if len(found) > 1 else ""
            name = shown("", name_in_list(spec, spec.endpoint[number]))
            raise SpecError(
                f"limits.max_cost: the price of {name}{where} is not known: {one.why}; "
                "write prices.input_per_million and prices.output_per_million",
                key="limits.max_cost",
                found="an unknown price",
                allowed="with known prices",
            )


def _unknown(spec: JobSpec, found: Sequence[Found]) -> list[str]:
    """A line for people for each endpoint whose prices the job names and that are not known, or not by now, all the same."""
    if spec.prices is None:
        return []
    names = [shown("", name_in_list(spec, endpoint)) for endpoint in spec.endpoint]
    lines = [
        f"the price of {name}{'' if one.prices.known else ' is not known'}: {one.why}."
        for name, one in zip(names, found, strict=True) if one.why
    ]  # fmt: skip
    return list(dict.fromkeys(lines))


def recorded(identities: Sequence[str], found: Sequence[Found]) -> dict[str, Any]:
    """The prices as a ledger keeps them, by who answers. Of two that nobody can tell apart afterwards the dearer ones."""
    kept: dict[str, Prices] = {}
    for identity, one in zip(identities, found, strict=True):
        other = kept.get(identity)
        kept[identity] = one.prices if other is None else _dearer(one.prices, other)
    return {identity: msgspec.to_builtins(prices) for identity, prices in kept.items() if prices.known}


def _before(spec: JobSpec, config: StoredConfig | None) -> dict[str, Prices]:
    """The prices that a configuration found, by who answers, as long as the job asks for the same ones of the same model."""
    if config is None or config.operating.get("prices") != spec.operating()["prices"]:
        return {}
    if _models(config.content, config.operating) != _models(spec.content(), spec.operating()):
        return {}
    return read_recorded(config.operating)


def _models(content: Mapping[str, Any], operating: Mapping[str, Any]) -> list[Any]:
    """What the model is called, and by each endpoint that has a name of its own for it."""
    return [content["model"]["name"], *(endpoint.get("model") for endpoint in operating.get("endpoint") or ())]


def operating_of(spec: JobSpec, found: dict[str, Any] | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """A job's operating keys as the ledger keeps them: with the prices that were found. None: those of `before`, the newest
    configuration, where that had the same `[prices]`.
    """
    operating = spec.operating()
    if found is None:
        found = before.get(RECORDED) if before.get("prices") == operating["prices"] else None
    return {**operating, RECORDED: found} if found else operating


def newest_operating(ledger: Path) -> dict[str, Any]:
    """The operating keys of a ledger's newest configuration; none where it has none."""
    newest = _newest(ledger)
    return newest.operating if newest is not None else {}


def _newest(ledger: Path) -> StoredConfig | None:
    reader = LedgerReader(ledger)
    try:
        configs = reader.configs()
    finally:
        reader.close()
    return configs[-1] if configs else None


def read_recorded(operating: Mapping[str, Any]) -> dict[str, Prices]:
    """What `recorded` kept, out of a configuration's operating keys."""
    return {identity: msgspec.convert(value, Prices) for identity, value in operating.get(RECORDED, {}).items()}


def _dearer(one: Prices, other: Prices) -> Prices:
    """The one by which a prompt of a thousand tokens with as long an answer costs more; not known if either is not."""
    costs = [prices.most(1000, 1000) for prices in (one, other)]
    if costs[0] is None or costs[1] is None:
        return Prices()
    return one if costs[0] >= costs[1] else other
