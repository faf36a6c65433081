"""Attention out of config.json: the published figures of real models, and what is not understood is never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.config import describe_config
from headrace.models.families import GLOBAL_HEADS, LINEAR, MAMBA, PATTERNED, PLAIN, SWITCHED, WINDOWED
from headrace.policy.attention import Attention, CacheType, Heads, State, request_bytes, token_bytes

# The keys that count of each model's config.json on the Hugging Face hub.
CONFIGS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("configs.json").read_text(encoding="utf-8"))
BF16 = CacheType.BF16
MIB = 2**20


def attention_of(config: dict[str, Any]) -> Attention:
    described = describe_config(config)
    assert described.attention is not None, described.notes
    return described.attention


def changed(name: str, **keys: Any) -> dict[str, Any]:
    config = CONFIGS[name]
    if "text_config" in config:
        return {**config, "text_config": {**config["text_config"], **keys}}
    return {**config, **keys}


# Computed from the public configs; DeepSeek-V3, Qwen2.5-72B and Llama-3.1-405B stand in Table 1 of arXiv 2505.09343 (ISCA
# 2025) as 70.272, 327.680 and 516.096 KB, OPT-13B as 800 KB in the vLLM paper (arXiv 2309.06180).
@pytest.mark.parametrize(
    ("name", "kind", "per_token"),
    [
        ("GPT-2 XL", "mha", 307_200),
        ("OPT-13B", "mha", 819_200),
        ("Llama-2-7B", "mha", 524_288),
        ("Llama-3.1-8B", "gqa", 131_072),
        ("Llama-3.1-70B", "gqa", 327_680),
        ("Llama-3.1-405B", "gqa", 516_096),
        ("Qwen2.5-7B", "gqa", 57_344),
        ("Qwen2.5-72B", "gqa", 327_680),
        ("Qwen3-0.6B", "gqa", 114_688),
        ("Qwen3-8B", "gqa", 147_456),
        ("Qwen3-VL-8B", "gqa", 147_456),
        ("Qwen3-30B-A3B", "gqa", 98_304),
        ("Qwen3-235B-A22B", "gqa", 192_512),
        ("Mistral-7B", "gqa", 131_072),
        ("Mixtral-8x7B", "gqa", 131_072),
        ("Yi-1.5-34B", "gqa", 245_760),
        ("Qwen1.5-32B", "gqa", 262_144),
        ("command-r-v01", "mha", 1_310_720),
        ("DeepSeek-V2", "mla", 69_120),
        ("DeepSeek-V3", "mla", 70_272),
        ("DeepSeek-V3.2", "mla", 78_324),
        ("gpt_bigcode", "mqa", 40 * 2 * 128 * 2),
        ("Falcon-7B", "mqa", 32 * 2 * 64 * 2),
        ("Falcon-40B", "gqa", 60 * 8 * 2 * 64 * 2),
    ],
)
def test_a_token_takes_what_is_published(name: str, kind: str, per_token: int):
    attention = attention_of(CONFIGS[name])
    assert (attention.name, token_bytes(attention, BF16)) == (kind, per_token)


def test_the_layouts_of_vllm_for_latents_at_8_bits():
    # vLLM's fp8_ds_mla, alone and with the indexer's key of DeepSeek sparse attention
    assert token_bytes(attention_of(CONFIGS["DeepSeek-V3"]), CacheType.FP8_DS_MLA) == 40_016
    assert token_bytes(attention_of(CONFIGS["DeepSeek-V3.2"]), CacheType.FP8_DS_MLA) == 48_068


# llama.cpp's log of a context of 2,048 with an f16 cache, Hugging Face discussion 6 of dranger003/c4ai-command-r-v01-iMat.GGUF.
@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("Mixtral-8x7B", 256), ("Llama-3-8B", 256), ("Llama-3.1-70B", 640), ("Qwen1.5-32B", 512), ("Yi-1.5-34B", 480),
        ("command-r-v01", 2560),
    ],
)  # fmt: skip
def test_a_context_of_2048_takes_what_llama_cpp_printed(name: str, mib: int):
    assert request_bytes(attention_of(CONFIGS[name]), BF16, 2048) == mib * MIB


# Jamba-1.5 (arXiv 2408.12570), Table 1: the cache at 256K tokens and 16 bits. Its 252 for Llama-3.1-405B is of an early config.
@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("Mistral-7B", 32), ("Mixtral-8x7B", 32), ("Llama-3.1-8B", 32), ("Mixtral-8x22B", 56), ("Mistral-Large-2", 88),
        ("Llama-3.1-70B", 80), ("Jamba-v0.1", 4), ("Jamba-Large", 9),
    ],
)  # fmt: skip
def test_a_context_of_256k_takes_what_the_jamba_paper_says(name: str, gib: int):
    attention = attention_of(CONFIGS[name])
    assert request_bytes(attention, BF16, 2**18) - request_bytes(attention, BF16, 0) == gib * 2**30


# Computed from the public configs: a layer with a window of w keeps min(T, w) tokens.
@pytest.mark.parametrize(
    ("name", "kind", "length", "mib"),
    [
        ("Gemma-3-27B", "hybrid", 1_024, 496),
        ("Gemma-3-27B", "hybrid", 8_192, 1_056),
        ("Gemma-3-27B", "hybrid", 32_768, 2_976),
        ("Gemma-3-27B", "hybrid", 131_072, 10_656),
        ("gpt-oss-120b", "hybrid", 128, 9),
        ("gpt-oss-120b", "hybrid", 8_192, 292.5),
        ("gpt-oss-120b", "hybrid", 131_072, 4_612.5),
        ("gpt-oss-20b", "hybrid", 128, 6),
        ("gpt-oss-20b", "hybrid", 8_192, 195),
        ("gpt-oss-20b", "hybrid", 131_072, 3_075),
        ("Mistral-7B-v0.1", "sliding", 4_096, 512),
        ("Mistral-7B-v0.1", "sliding", 32_768, 512),
        ("Llama-4-Scout", "hybrid", 8_192, 1_536),
        ("Llama-4-Scout", "hybrid", 16_384, 12 * 4096 * 16_384 / MIB + 36 * 4096 * 8_192 / MIB),
    ],
)
def test_a_request_takes_what_its_windows_leave(name: str, kind: str, length: int, mib: float):
    attention = attention_of(CONFIGS[name])
    assert attention.name == kind
    assert token_bytes(attention, BF16) is None
    assert request_bytes(attention, BF16, length, 16) == mib * MIB


@pytest.mark.parametrize(
    ("name", "per_token", "constant"),
    [("Qwen3-Next-80B-A3B", 24_576, 39_518_208), ("Jamba-v0.1", 16_384, 8_716_288), ("Falcon-Mamba-7B", 0, 64 * 2 * 8192 * 19)],
)
def test_states_take_the_same_for_every_length(name: str, per_token: int, constant: int):
    attention = attention_of(CONFIGS[name])
    assert attention.name == ("hybrid" if per_token else "state")
    for length in (16, 8192):
        assert request_bytes(attention, BF16, length, 16) == constant + per_token * length


def test_a_state_at_32_bits_is_counted_so_where_the_config_says_it_and_told_where_not():
    wide = describe_config(changed("Qwen3-Next-80B-A3B", mamba_ssm_dtype="float32"))
    assert wide.attention is not None
    assert request_bytes(wide.attention, BF16, 0) == 77_266_944
    assert wide.notes == ()
    assert f"{77_266_944 - 39_518_208:,} bytes more" in describe_config(CONFIGS["Qwen3-Next-80B-A3B"]).notes[0]


def test_layer_types_win_over_every_pattern():
    types = ["linear_attention"] * 40 + ["full_attention"] * 8
    groups = attention_of(changed("Qwen3-Next-80B-A3B", layer_types=types)).groups
    assert [group.layers for group in groups] == [8, 40]
    types = ["sliding_attention"] * 60 + ["full_attention"] * 2
    assert [group.layers for group in attention_of(changed("Gemma-3-27B", layer_types=types)).groups] == [2, 60]
    types = ["chunked_attention"] * 47 + ["full_attention"]
    assert [group.layers for group in attention_of(changed("Llama-4-Scout", layer_types=types)).groups] == [1, 47]


def test_windows_that_are_switched_off_are_none():
    off = changed("Qwen2.5-7B", layer_types=["sliding_attention"] * 28)
    assert attention_of(off).name == "gqa"
    assert attention_of(changed("Qwen2.5-7B", use_sliding_window=None)).name == "gqa"


def test_windows_that_are_switched_on_begin_where_the_config_says():
    on = changed("Qwen2.5-7B", use_sliding_window=True, sliding_window=4096, max_window_layers=20)
    assert attention_of(on).groups == (Heads(20, 4, 128, 128), Heads(8, 4, 128, 128, 4096))
    assert attention_of(changed("Qwen2.5-7B", use_sliding_window=True, sliding_window=None)).name == "gqa"


def test_an_absent_window_is_the_familys_own_and_a_null_is_none():
    silent = {key: value for key, value in CONFIGS["Mistral-7B"].items() if key != "sliding_window"}
    assert attention_of(silent).groups == (Heads(32, 8, 128, 128, 4096),)
    assert attention_of(CONFIGS["Mistral-7B"]).groups == (Heads(32, 8, 128, 128),)


def test_what_the_family_takes_for_granted_need_not_be_written():
    # as the published text_config of gemma-3-4b-it does
    bare = {
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "sliding_window": 1024},
    }
    assert attention_of(bare).groups == (Heads(5, 4, 256, 256), Heads(29, 4, 256, 256, 1024))
    assert attention_of(CONFIGS["Gemma-2-9B"]).groups == (Heads(21, 8, 256, 256), Heads(21, 8, 256, 256, 4096))


def test_gemma_4_has_other_heads_in_full_layers_and_layers_that_share():
    keys = {
        "model_type": "gemma4_text",
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "hidden_size": 2304,
    }
    assert attention_of(keys).groups == (Heads(2, 4, 512, 512), Heads(10, 4, 256, 256, 512))
    fewer = {**keys, "attention_k_eq_v": True, "num_global_key_value_heads": 2}
    assert attention_of(fewer).groups[0] == Heads(2, 2, 512, 512)
    assert attention_of({**keys, "num_global_key_value_heads": 2}).groups[0] == Heads(2, 4, 512, 512)
    assert attention_of({**keys, "num_kv_shared_layers": 6}).groups == (Heads(1, 4, 512, 512), Heads(5, 4, 256, 256, 512))
    last = {**keys, "layer_types": ["sliding_attention"] * 12}
    assert attention_of(last).groups == (Heads(1, 4, 512, 512), Heads(11, 4, 256, 256, 512))


def test_llama_4_says_by_layer_which_have_rotary_positions():
    rotary = [1, 1, 0, 1] * 12
    assert [group.layers for group in attention_of(changed("Llama-4-Scout", no_rope_layers=rotary)).groups] == [12, 36]


def test_heads_stand_under_the_keys_of_their_families():
    chatglm = {
        "model_type": "chatglm",
        "num_layers": 28,
        "num_attention_heads": 32,
        "hidden_size": 4096,
        "kv_channels": 128,
        "seq_length": 32768,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
    }
    assert attention_of(chatglm).groups == (Heads(28, 2, 128, 128),)
    assert attention_of({**chatglm, "multi_query_attention": False}).name == "mha"
    mpt = {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096, "attn_config": {"kv_n_heads": 8}}
    assert attention_of(mpt).name == "gqa"
    assert attention_of({**mpt, "attn_config": None}).name == "mha"
    assert attention_of({**CONFIGS["gpt_bigcode"], "multi_query": False}).name == "mha"
    assert attention_of(changed("Falcon-7B", multi_query=False)).name == "mha"
    assert attention_of(changed("Falcon-40B", num_kv_heads=None)).name == "mha"


def test_a_cache_of_8_bits_that_the_checkpoint_brings_is_what_auto_means():
    assert attention_of(CONFIGS["Llama-3.1-8B"]).cache_type is BF16
    for quantized in ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, {"kv_cache_quant_algo": "FP8"}):
        assert attention_of(changed("Llama-3.1-8B", quantization_config=quantized)).cache_type is CacheType.FP8
        assert attention_of({**CONFIGS["Gemma-3-27B"], "quantization_config": quantized}).cache_type is CacheType.FP8
    for quantized in ({"kv_cache_scheme": None}, {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "fp8"):
        assert attention_of(changed("Llama-3.1-8B", quantization_config=quantized)).cache_type is BF16


def test_latents_are_known_by_their_key_whatever_the_model_is_called():
    assert attention_of({**CONFIGS["DeepSeek-V3"], "model_type": "of-tomorrow"}).name == "mla"
    some = changed("DeepSeek-V3.2", layer_types=["indexed_attention"] * 30 + ["full_attention"] * 31)
    assert token_bytes(attention_of(some), BF16) == 61 * 1152 + 30 * 132


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "no model_type"),
        ({"model_type": "of-tomorrow", "num_hidden_layers": 2}, "model_type 'of-tomorrow'"),
        (CONFIGS["DeepSeek-V4"], "compress_rates is not understood"),
        (CONFIGS["Kimi-Linear"], "linear_attn_config is not understood"),
        (changed("DeepSeek-V3", layer_types=["lightning_attention"] * 61), "layer_types has 'lightning_attention'"),
        (changed("DeepSeek-V3", layer_types=["indexed_attention"] * 61), "index_head_dim is not told"),
        (changed("DeepSeek-V3", qk_rope_head_dim=None), "qk_rope_head_dim is not told"),
        (changed("Llama-3.1-8B", num_hidden_layers=None), "num_hidden_layers is not told"),
        (changed("Llama-3.1-8B", num_hidden_layers=0), "num_hidden_layers is not told"),
        (changed("Llama-3.1-8B", num_hidden_layers=10**9), "num_hidden_layers is 1000000000"),
        (changed("Llama-3.1-8B", num_hidden_layers=10**6), "more than any model has"),
        (changed("Llama-3.1-8B", num_hidden_layers="32"), "num_hidden_layers is '32', which is no number"),
        (changed("Llama-3.1-8B", num_key_value_heads=True), "num_key_value_heads is True"),
        (changed("Llama-3.1-8B", num_key_value_heads=-1), "num_key_value_heads is -1"),
        (changed("Llama-3.1-8B", num_key_value_heads=8.0), "num_key_value_heads is 8.0"),
        (changed("Llama-3.1-8B", num_key_value_heads=[8] * 32), "num_key_value_heads is a list"),
        (changed("Llama-3.1-8B", num_key_value_heads={}), "num_key_value_heads is an object"),
        (changed("Llama-3.1-8B", num_key_value_heads=10**4000), "num_key_value_heads is a huge number"),
        (changed("Llama-3.1-8B", hidden_size=4095), "hidden_size: 4095 is no multiple of 32 heads"),
        (changed("Gemma-3-27B", layer_types=["full_attention"]), "layer_types is not a list of 62 layers"),
        (changed("Gemma-3-27B", layer_types="full"), "layer_types is not a list of 62 layers"),
        (changed("Gemma-3-27B", layer_types=[{}] * 62), "layer_types has an object"),
        (changed("gpt-oss-20b", sliding_window=None), "sliding_window is not told"),
        (changed("Llama-4-Scout", no_rope_layers=[1, 2]), "no_rope_layers is not a list of 48 layers"),
        (changed("Qwen2.5-7B", use_sliding_window=True, max_window_layers="x"), "max_window_layers is 'x'"),
        ({"model_type": "gemma3n_text", "num_hidden_layers": 5, "num_attention_heads": 8, "head_dim": 256}, "num_kv_shared_layers is not told"),
        (changed("Llama-3.1-8B", num_key_value_heads=64), "32 heads cannot share 64 KV heads"),
        (changed("Llama-3.1-8B", num_key_value_heads=7), "32 heads cannot share 7 KV heads"),
        ({"model_type": "gemma3", "text_config": [CONFIGS["Gemma-3-27B"]]}, "text_config is no description"),
        ({"model_type": "gemma3", "text_config": "config.json"}, "text_config is no description"),
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "text_config": 5}}, "text_config is no description"),
        ({"model_type": "gemma4_text", "num_hidden_layers": 5, "num_kv_shared_layers": 5}, "leaves no layer with a cache"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_unknown_and_says_what(config: dict[str, Any], why: str):
    described = describe_config(config)
    assert described.attention is None
    assert why in described.notes[0]
    assert described.notes[0].isprintable()


def test_the_context_is_told_where_it_makes_sense():
    assert describe_config(CONFIGS["Llama-3.1-8B"]).context == 131_072
    assert describe_config(CONFIGS["Qwen3-VL-8B"]).context == 262_144
    assert describe_config(CONFIGS["GPT-2 XL"]).context == 1024
    for odd in (None, 0, -1, "x", True, 10**30, 1.5):
        assert describe_config(changed("Llama-3.1-8B", max_position_embeddings=odd)).context is None


def test_text_configs_that_hold_one_another_end():
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"text_config": deep}
    assert describe_config(deep).attention is None


FAMILIES = sorted(PLAIN | WINDOWED | SWITCHED | set(PATTERNED) | set(LINEAR) | MAMBA | GLOBAL_HEADS | {"jamba", "llama4_text"})
KEYS = sorted({key for config in CONFIGS.values() for key in (*config, *config.get("text_config", {}))} - {"model_type"})
numbers = st.integers(-2, 10**9) | st.sampled_from([0, 1, 2, 8, 64])
values = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | numbers
    | st.lists(st.integers(0, 3) | st.text(max_size=3), max_size=5)
)


@given(st.sampled_from(FAMILIES), st.dictionaries(st.sampled_from(KEYS), values))
def test_whatever_stands_there_is_described_or_unknown(family: str, keys: dict[str, Any]):
    described = describe_config({"model_type": family, **keys})
    if described.attention is None:
        assert described.notes[0].startswith("the attention of this model is unknown: ")
    else:
        assert request_bytes(described.attention, BF16, 1000, 16) > 0


@pytest.mark.parametrize("family", sorted(PLAIN | WINDOWED | SWITCHED))
def test_families_without_anything_special_are_as_llama(family: str):
    keys = {"num_hidden_layers": 4, "num_attention_heads": 16, "hidden_size": 1024, "sliding_window": None}
    attention = attention_of({"model_type": family, **keys})
    assert attention.name in {"mha", "gqa", "mqa"}
    assert not any(isinstance(group, State) for group in attention.groups)
