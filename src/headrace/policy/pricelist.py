"""Price lists of others: LiteLLM's file and the models that OpenRouter lists, read as `Prices`; which entry is meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from headrace.policy.price import Batch, Prices, Tier, amount, told_apart

SAMPLE = "sample_spec"  # documents LiteLLM's layout and is no model
ROUTER = "openrouter/"  # routes to models of all prices: 0 or less there is not a price
_ABOVE = re.compile(r"_above_([0-9]{1,6})k_tokens$")
_SHOWN = 3
_NEVER = 10**9  # tokens: no prompt is so long
# The host of an endpoint, and what LiteLLM calls who answers there.
PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.fireworks.ai": "fireworks_ai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.perplexity.ai": "perplexity",
    "api.sambanova.ai": "sambanova",
    "api.together.ai": "together_ai",
    "api.together.xyz": "together_ai",
    "api.x.ai": "xai",
    "api.cerebras.ai": "cerebras",
    "api.deepinfra.com": "deepinfra",
    "api.hyperbolic.xyz": "hyperbolic",
    "dashscope-intl.aliyuncs.com": "dashscope",
    "dashscope.aliyuncs.com": "dashscope",
    "generativelanguage.googleapis.com": "gemini",
    "integrate.api.nvidia.com": "nvidia_nim",
    "openrouter.ai": "openrouter",
}


def litellm_prices(entry: Mapping[str, Any]) -> Prices:
    """One model of LiteLLM's file, whose prices are USD per token. What is missing or no price is not known."""
    whole, answer = amount(entry.get("input_cost_per_token")), amount(entry.get("output_cost_per_token"))
    read = amount(entry.get("cache_read_input_token_cost"))
    if read is None:
        read = amount(entry.get("input_cost_per_token_cache_hit"))
    prices = Prices(
        input=whole,
        output=answer,
        cached_input=told_apart(read, whole),
        cache_write=told_apart(amount(entry.get("cache_creation_input_token_cost")), whole),
        reasoning=told_apart(amount(entry.get("output_cost_per_reasoning_token")), answer),
        request=amount(entry.get("input_cost_per_request")) or 0.0,
        batch=Batch(
            amount(entry.get("input_cost_per_token_batches")),
            amount(entry.get("output_cost_per_token_batches")),
            amount(entry.get("cache_read_input_token_cost_batches")),
        ),
        tiers=_tiers_above(entry) or _tiers_of_ranges(entry),
        most_output=_count(entry.get("max_output_tokens")),
    )
    if prices.tiers and prices.tiers[0].above < 0:
        prices = replace(prices.at(0), tiers=prices.tiers[1:])  # the first range is what stands elsewhere without a tier
    return prices


def openrouter_prices(entry: Mapping[str, Any]) -> Prices:
    """One model of OpenRouter's list: decimal strings, USD per token, "0" is free; not so of a router, whose price varies."""
    pricing = entry.get("pricing")
    if not isinstance(pricing, Mapping):
        return Prices()
    whole, answer = amount(pricing.get("prompt")), amount(pricing.get("completion"))
    name = entry.get("id")
    if isinstance(name, str) and name.startswith(ROUTER) and not (whole and answer):
        return Prices()
    top = entry.get("top_provider")
    return Prices(
        input=whole,
        output=answer,
        cached_input=told_apart(amount(pricing.get("input_cache_read")), whole),
        cache_write=told_apart(amount(pricing.get("input_cache_write")), whole),
        reasoning=told_apart(amount(pricing.get("internal_reasoning")), answer),
        request=amount(pricing.get("request")) or 0.0,
        most_output=_count(top.get("max_completion_tokens")) if isinstance(top, Mapping) else None,
    )


def find_in_table(table: Mapping[str, Any], name: str, host: str | None = None) -> str | None:
    """The key of LiteLLM's table that means this model at this host; None: none does for certain.

    A provider's prefix counts only where the host is that provider's, or the entry itself names it: the same model costs
    something else elsewhere, and nothing on one's own machine.
    """
    provider = PROVIDERS.get(host or "")
    for key in (*([f"{provider}/{name}"] if provider is not None else []), name):
        if _is_model(table, key):
            return key
    prefix, _, bare = name.partition("/")
    if provider not in {None, prefix} or not _is_model(table, bare):
        return None
    return bare if table[bare].get("litellm_provider") == prefix else None


def find_in_list(models: Iterable[Any], name: str) -> Mapping[str, Any] | None:
    """The entry of OpenRouter's list with this id, or else with this lasting name."""
    entries = [entry for entry in models if isinstance(entry, Mapping)]
    for field in ("id", "canonical_slug"):
        for entry in entries:
            if entry.get(field) == name:
                return entry
    return None


def near_misses(names: Iterable[str], name: str) -> list[str]:
    """Names that may have been meant: first those of the same model under another prefix, then those spelled alike."""
    bare = name.rpartition("/")[2].casefold()
    known = [known for known in names if known != SAMPLE]
    same = [known for known in known if known.rpartition("/")[2].casefold() == bare]
    folded = {known.casefold(): known for known in known}
    alike = [folded[found] for found in difflib.get_close_matches(name.casefold(), folded, n=_SHOWN, cutoff=0.75)]
    return list(dict.fromkeys([*same, *alike]))[:_SHOWN]


def _is_model(table: Mapping[str, Any], key: str) -> bool:
    return key != SAMPLE and isinstance(table.get(key), Mapping)


def _tiers_above(entry: Mapping[str, Any]) -> tuple[Tier, ...]:
    """`input_cost_per_token_above_128k_tokens` and the like."""
    found = {match[1] for key in entry if (match := _ABOVE.search(key))}
    tiers = []
    for thousands in sorted(found, key=int):
        above = f"_above_{thousands}k_tokens"
        tiers.append(
            Tier(
                above=int(thousands) * 1000,
                input=amount(entry.get(f"input_cost_per_token{above}")),
                output=amount(entry.get(f"output_cost_per_token{above}")),
                cached_input=amount(entry.get(f"cache_read_input_token_cost{above}")),
                cache_write=amount(entry.get(f"cache_creation_input_token_cost{above}")),
            )
        )
    return tuple(tiers)


def _tiers_of_ranges(entry: Mapping[str, Any]) -> tuple[Tier, ...]:
    """`tiered_pricing`: a list of ranges of the prompt's length."""
    tiers = []
    listed = entry.get("tiered_pricing")
    for part in listed if isinstance(listed, list) else ():
        try:
            above = int(part["range"][0])
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            continue
        if above >= _NEVER:
            continue
        tiers.append(
            Tier(
                above=above if above > 0 else -1,
                input=amount(part.get("input_cost_per_token")),
                output=amount(part.get("output_cost_per_token")),
                cached_input=amount(part.get("cache_read_input_token_cost")),
                reasoning=amount(part.get("output_cost_per_reasoning_token")),
            )
        )
    return tuple(sorted(tiers, key=lambda tier: tier.above))


def _count(value: object) -> int | None:
    """A number of tokens; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
