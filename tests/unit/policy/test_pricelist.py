"""Price lists of others, and which of their entries is meant."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.policy.price import Batch, Prices, Tier
from headrace.policy.pricelist import (
    find_in_list,
    find_in_table,
    litellm_prices,
    near_misses,
    openrouter_prices,
)
from headrace.values import Usage

TABLE: dict[str, Any] = {
    "sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    "gpt-4o": {
        "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "input_cost_per_token_batches": 1.25e-06,
        "output_cost_per_token_batches": 5e-06, "cache_read_input_token_cost": 1.25e-06, "max_output_tokens": 16_384,
        "litellm_provider": "openai",
    },
    "claude-sonnet-4-5": {
        "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "input_cost_per_token_batches": 1.5e-06,
        "output_cost_per_token_batches": 7.5e-06, "cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06,
        "cache_creation_input_token_cost_above_1hr": 6e-06, "input_cost_per_token_above_200k_tokens": 6e-06,
        "output_cost_per_token_above_200k_tokens": 2.25e-05, "cache_read_input_token_cost_above_200k_tokens": 6e-07,
        "cache_creation_input_token_cost_above_200k_tokens": 7.5e-06, "litellm_provider": "anthropic",
    },
    "deepseek-chat": {
        "input_cost_per_token": 2.8e-07, "output_cost_per_token": 4.2e-07, "input_cost_per_token_cache_hit": 2.8e-08,
    },
    "groq/llama-3.1-8b-instant": {"input_cost_per_token": 5e-08, "output_cost_per_token": 8e-08},
    "openrouter/openai/gpt-oss-20b": {"input_cost_per_token": 2e-08, "output_cost_per_token": 1e-07},
    "broken": 7,
}  # fmt: skip


def test_the_check_values_of_the_public_file_are_read() -> None:
    assert litellm_prices(TABLE["gpt-4o"]) == Prices(2.5e-06, 1e-05, 1.25e-06, batch=Batch(1.25e-06, 5e-06), most_output=16_384)
    assert litellm_prices(TABLE["claude-sonnet-4-5"]) == Prices(
        3e-06, 1.5e-05, 3e-07, 3.75e-06, batch=Batch(1.5e-06, 7.5e-06), tiers=(Tier(200_000, 6e-06, 2.25e-05, 6e-07, 7.5e-06),)
    )
    assert litellm_prices(TABLE["deepseek-chat"]) == Prices(2.8e-07, 4.2e-07, 2.8e-08)


def test_ranges_of_the_prompts_length_are_tiers() -> None:
    entry = {
        "tiered_pricing": [
            {"range": [32_000, 128_000], "input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06},
            {"range": [0, 32_000], "input_cost_per_token": 1e-06, "output_cost_per_token": 4e-06},
            {"range": [], "input_cost_per_token": 9.0},
            "a range that is none",
        ]
    }
    prices = litellm_prices(entry)
    assert prices == Prices(1e-06, 4e-06, tiers=(Tier(32_000, 2e-06, 8e-06),))
    assert prices.cost(Usage(32_001, 0)) == pytest.approx(32_001 * 2e-06)


def test_an_entry_without_prices_is_not_known() -> None:
    assert not litellm_prices({"mode": "chat", "max_output_tokens": "legacy", "tiered_pricing": None}).known
    assert not litellm_prices({"input_cost_per_token": -1.0, "output_cost_per_token": None}).known


def entry(name: str = "openai/gpt-4o", **pricing: str) -> dict[str, Any]:
    return {"id": name, "pricing": pricing}


def test_a_list_in_openrouters_layout_is_read_from_decimal_strings() -> None:
    listed = {
        **entry(prompt="0.0000025", completion="0.00001", request="0", image="0.003", internal_reasoning="0",
                input_cache_read="0.00000125", input_cache_write="0"),
        "top_provider": {"max_completion_tokens": 16_384},
    }  # fmt: skip
    assert openrouter_prices(listed) == Prices(2.5e-06, 1e-05, 1.25e-06, most_output=16_384)


def test_zero_is_free_but_not_of_a_router() -> None:
    assert openrouter_prices(entry("some/model:free", prompt="0", completion="0")) == Prices(0.0, 0.0, most_output=None)
    assert not openrouter_prices(entry("openrouter/auto", prompt="0", completion="0")).known
    assert not openrouter_prices(entry("openrouter/auto", prompt="-1", completion="-1")).known
    assert openrouter_prices(entry("openrouter/one", prompt="0.000001", completion="0.000002")).known


def test_a_negative_price_is_not_known() -> None:
    assert not openrouter_prices(entry(prompt="-1", completion="0.00001")).known


def test_a_list_without_prices_says_nothing() -> None:
    assert openrouter_prices({"id": "m", "owned_by": "vllm"}) == Prices()
    assert openrouter_prices({"id": "m", "pricing": {"prompt": "0", "completion": "0"}, "top_provider": None}).known


@pytest.mark.parametrize(
    ("name", "host", "key"),
    [
        ("gpt-4o", None, "gpt-4o"),
        ("openai/gpt-4o", None, "gpt-4o"),
        ("openai/gpt-4o", "openrouter.ai", None),
        ("openai/gpt-oss-20b", "openrouter.ai", "openrouter/openai/gpt-oss-20b"),
        ("llama-3.1-8b-instant", "api.groq.com", "groq/llama-3.1-8b-instant"),
        ("llama-3.1-8b-instant", "127.0.0.1", None),  # one's own machine charges no list price
        ("azure/gpt-4o", None, None),
        ("gpt-oss-20b", "127.0.0.1", None),
        ("sample_spec", None, None),
        ("broken", None, None),
        ("gpt-4o-mini", None, None),
    ],
)
def test_an_entry_is_meant_only_for_certain(name: str, host: str | None, key: str | None) -> None:
    assert find_in_table(TABLE, name, host) == key


def test_an_entry_of_a_list_goes_by_its_id_then_by_its_lasting_name() -> None:
    models = [None, {"id": "a", "canonical_slug": "b"}, {"id": "b", "canonical_slug": "c"}]
    found = [find_in_list(models, name) for name in ("a", "b", "c", "d")]
    assert found == [models[1], models[2], models[2], None]


def test_near_misses_are_the_same_model_elsewhere_and_names_spelled_alike() -> None:
    assert near_misses(TABLE, "gpt-oss-20b") == ["openrouter/openai/gpt-oss-20b"]
    assert near_misses(TABLE, "GPT-4O") == ["gpt-4o"]
    assert near_misses(TABLE, "claude-sonet-4.5") == ["claude-sonnet-4-5"]
    assert near_misses(TABLE, "sample_spec") == []


@pytest.mark.parametrize("tiers", [5, True, "range", {"range": [0]}, [5, None, [], {"range": 7}, {"range": ["1" + "0" * 300]}]])
def test_tiers_that_are_none_are_passed_over(tiers: object) -> None:
    found = litellm_prices({"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "tiered_pricing": tiers})
    assert found == Prices(1e-6, 2e-6)
