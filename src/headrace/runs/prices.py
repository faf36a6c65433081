"""What a job's tokens cost: `[prices]` made into the prices of each endpoint, and why they are not known where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import SpecError
from headrace.policy.budget import TEMPLATE_TOKENS, UNTOLD_ANSWER, Most
from headrace.policy.price import MILLION, Prices, per_million, self_hosted
from headrace.policy.pricelist import find_in_list, find_in_table, litellm_prices, near_misses, openrouter_prices
from headrace.runs.jobfaults import shown
from headrace.runs.jobtext import read_text
from headrace.spec import DEAREST, ENDPOINT_LIST, EndpointSpec, JobSpec, PricesSpec

_ANSWER_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "n_predict")
_COPIES = ("n", "best_of")
_PER_TOKEN = ("input", "output", "cached_input", "cache_write", "reasoning")
_LONGEST_ANSWER = 10_000_000  # tokens: what a list has beyond that is no length of an answer
_CHEAPEST = 0.0005  # USD for a million tokens: what is below it, and not free, is likely the price of one


class Found(Struct, frozen=True):
    """The prices of one endpoint. `why` says in a few words why they are not known."""

    prices: Prices
    why: str | None = None


def prices_of(spec: JobSpec, base: Path) -> list[Found]:
    """The prices of each endpoint of a job, in its order. Nobody is asked: of an endpoint's own list nothing is known here.

    Raises SpecError for a file that is no price list.
    """
    written = spec.prices
    if written is None:
        return [Found(Prices(), "the job has no [prices]") for _ in spec.endpoint]
    if written.file == ENDPOINT_LIST:
        return [Found(Prices(), "the endpoint's own list has not been asked for") for _ in spec.endpoint]
    if written.file is not None:
        table = _read_table(base, written.file)
        return [_in_table(table, spec, endpoint) for endpoint in spec.endpoint]
    return [Found(_written(written)) for _ in spec.endpoint]


def asks_endpoints(spec: JobSpec) -> bool:
    """Whether the prices are those that the endpoints list themselves."""
    return spec.prices is not None and spec.prices.file == ENDPOINT_LIST


def in_own_list(spec: JobSpec, endpoint: EndpointSpec, models: Sequence[Any] | str, before: Prices | None = None) -> Found:
    """The prices of an endpoint by its own list of models, or why there is none. Where none came, those that it had told the
    run `before` still stand.
    """
    if isinstance(models, str):
        return Found(Prices(), models) if before is None else Found(before, f"{models}; what it said before is taken")
    name = name_in_list(spec, endpoint)
    entry = find_in_list(models, name)
    if entry is None:
        ids = [str(model["id"]) for model in models if isinstance(model, Mapping) and "id" in model]
        return Found(Prices(), f"{shown('', name)} is not in the endpoint's list{_near(ids, name)}")
    return _believed(openrouter_prices(entry), "the endpoint's list")


def most_of(spec: JobSpec, found: Sequence[Found]) -> Most:
    """What a request of the job may take at most beside its payload."""
    extra = spec.model.extra
    body = len(orjson.dumps([extra, spec.answer.schema_, spec.answer.labels]))
    lengths = [spec.model.max_tokens, *(extra.get(field) for field in _ANSWER_FIELDS)]
    told = [length for length in lengths if isinstance(length, int) and length > 0]
    listed = [one.prices.most_output for one in found]
    if spec.answer.method == "score":
        answer = 1
    elif told:
        answer = max(told)
    else:
        answer = max((length or UNTOLD_ANSWER for length in listed), default=UNTOLD_ANSWER)
    copies = max([1, *(count for field in _COPIES if isinstance(count := extra.get(field), int))])
    return Most(TEMPLATE_TOKENS + body, answer * copies)


def _written(written: PricesSpec) -> Prices:
    if written.gpu_hour is not None and written.tokens_per_second is not None:
        each = self_hosted(written.gpu_hour, written.gpus or 1, written.tokens_per_second)
        return Prices(each, each)
    return Prices(
        input=per_million(written.input_per_million),
        output=per_million(written.output_per_million),
        cached_input=per_million(written.cached_input_per_million),
        reasoning=per_million(written.reasoning_per_million),
        request=written.per_request or 0.0,
    )


def _read_table(base: Path, file: str) -> Mapping[str, Any]:
    """LiteLLM's file. Raises SpecError."""
    text = read_text(base / file, "prices.file", file)
    path = shown("prices.file", file)
    try:
        table = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise SpecError(f"prices.file: {path}: not valid JSON", key="prices.file", allowed="a JSON file") from None
    entries = table.values() if isinstance(table, dict) else ()
    if not any(isinstance(entry, dict) and "input_cost_per_token" in entry for entry in entries):
        raise SpecError(
            f"prices.file: {path}: no entry has an input_cost_per_token; it is no price list in LiteLLM's layout (USD per token)",
            key="prices.file",
            found="another layout",
            allowed="the layout of model_prices_and_context_window.json",
        )
    found: Mapping[str, Any] = table
    return found


def _in_table(table: Mapping[str, Any], spec: JobSpec, endpoint: EndpointSpec) -> Found:
    name = name_in_list(spec, endpoint)
    key = find_in_table(table, name, urlsplit(endpoint.url).hostname)
    file = shown("prices.file", spec.prices.file if spec.prices is not None else "")
    if key is None:
        return Found(Prices(), f"{shown('', name)} is not in {file}{_near(table, name)}")
    return _believed(litellm_prices(table[key]), file)


def _believed(prices: Prices, where: str) -> Found:
    """The prices of a list, unless one of them cannot be USD per token, or per request."""
    most = max(price or 0.0 for priced in (prices, *prices.tiers) for price in map(partial(getattr, priced), _PER_TOKEN))
    if most * MILLION > DEAREST:
        return Found(Prices(), f"{where} has {most:g} USD for one token, as if it meant a million")
    if prices.request > DEAREST:
        return Found(Prices(), f"{where} has {prices.request:g} USD for one request")
    if (prices.most_output or 0) > _LONGEST_ANSWER:
        prices = replace(prices, most_output=None)
    return Found(prices, None if prices.known else f"{where} has no price for it")


def slips_of_units(written: PricesSpec | None) -> list[str]:
    """A line for people for each price of the job's own that seems to be one for a single token."""
    if written is None:
        return []
    named = {name: value for name, value in written.model_dump().items() if name.endswith("_per_million")}
    return [
        f"prices.{name} = {value:g} is the price of a million tokens; {value * MILLION:g} is what it would be for one token's."
        for name, value in named.items()
        if value is not None and 0 < value < _CHEAPEST
    ]


def name_in_list(spec: JobSpec, endpoint: EndpointSpec) -> str:
    """How the model is called where it is asked, or as the job says that lists call it."""
    listed = spec.prices.model if spec.prices is not None else None
    return listed or endpoint.model or spec.model.name


def _near(names: Any, name: str) -> str:
    near = near_misses(names, name)
    return f" (near: {', '.join(ascii(one)[1:-1] for one in near)}; prices.model names one)" if near else ""
