"""The families of models whose every layer is understood, by the `model_type` of their config.json, and what each leaves unsaid.

A family that is not here is unknown: a guess would be wrong by a factor, not by a little.
"""

from __future__ import annotations

from typing import Any

# Keys and values of num_key_value_heads heads in every layer; no window, whatever other keys say.
PLAIN = frozenset(
    {
        "aquila", "arcee", "baichuan", "bitnet", "bloom", "codegen", "cohere", "deepseek", "dots1", "ernie4_5", "ernie4_5_moe",
        "exaone", "gemma", "glm", "glm4", "glm4_moe", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "granite", "granitemoe",
        "helium", "hunyuan_v1_dense", "internlm", "internlm2", "internlm3", "llama", "minicpm", "mpt", "nemotron", "olmo",
        "olmo2", "olmoe", "opt", "persimmon", "phi", "qwen", "seed_oss", "stablelm", "xverse",
        "falcon", "RefinedWeb", "RefinedWebModel", "chatglm",
    }
)  # fmt: skip
# The same, with `sliding_window` in every layer where it is not null.
WINDOWED = frozenset({"mistral", "mixtral", "ministral", "phi3", "phimoe", "starcoder2"})
# The same, with windows from `max_window_layers` on, and only where `use_sliding_window` says so.
SWITCHED = frozenset(
    {
        "qwen2", "qwen2_moe", "qwen2_vl_text", "qwen2_vl", "qwen2_5_vl_text", "qwen2_5_vl", "qwen2_5_omni_text", "qwen3",
        "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "smollm3",
    }
)  # fmt: skip
# Windows with a full layer as every nth; `layer_types` wins where it is there.
PATTERNED = {
    "gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n": 5, "gemma3n_text": 5, "gemma4": 6, "gemma4_text": 6, "gpt_oss": 2,
    "cohere2": 4, "exaone4": 4, "olmo3": 4,
}  # fmt: skip
CHUNKED = {"llama4": 4, "llama4_text": 4}
# Linear attention (Gated DeltaNet) with a full layer as every nth.
LINEAR = {"qwen3_next": 4, "qwen3_5": 4, "qwen3_5_text": 4, "qwen3_5_moe": 4, "qwen3_5_moe_text": 4}
MAMBA = frozenset({"mamba", "falcon_mamba"})
JAMBA = frozenset({"jamba"})
SHARED_LAYERS = frozenset({"gemma3n", "gemma3n_text", "gemma4", "gemma4_text"})
GLOBAL_HEADS = frozenset({"gemma4", "gemma4_text"})

_GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, "num_hidden_layers": 26}
_GEMMA4 = {**_GEMMA3, "num_hidden_layers": 30, "sliding_window": 512, "global_head_dim": 512, "num_kv_shared_layers": 0}
# What the family's own code takes where config.json is silent, for those whose published files leave it out.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256},
    "gemma2": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "llama4_text": {"num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192},
    "cohere2": {"sliding_window": 4096},
    "jamba": {"attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2},
    "mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
    "falcon_mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
    "mixtral": {"num_key_value_heads": 8},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
}

# Keys of attention that is none of the above: where one of them stands, the plain arithmetic would be wrong.
FOREIGN = (
    "compress_rates", "compress_ratios", "compress_rate_csa", "linear_attn_config", "hybrid_override_pattern", "block_types",
    "layers_block_type", "attn_type_list", "cross_attention_layers", "block_configs", "attention_layers", "kv_head_list",
    "index_topk_pattern", "index_topk_freq", "indexer_types",
)  # fmt: skip
FULL, SLIDING, CHUNK, LINEAR_TYPE, INDEXED = (
    "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "indexed_attention",
)  # fmt: skip
