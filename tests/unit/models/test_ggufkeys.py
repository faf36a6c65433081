"""Attention out of a GGUF header's keys, as a file or Ollama tells them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.ggufkeys import asks_for_lists, describe_gguf
from headrace.policy.attention import Attention, CacheType, Heads, Latent, State, request_bytes, token_bytes

MIB = 2**20


def keys(architecture: str, **own: Any) -> dict[str, Any]:
    """`attention_head_count=4` stands for the key `ARCHITECTURE.attention.head_count`; only the first mark is a dot."""
    found: dict[str, Any] = {"general.architecture": architecture}
    for name, value in own.items():
        prefix = next((prefix for prefix in ("attention_", "ssm_", "rope_") if name.startswith(prefix)), "")
        found[f"{architecture}.{prefix.replace('_', '.')}{name.removeprefix(prefix)}"] = value
    return found


LLAMA = keys(
    "llama", block_count=32, context_length=131_072, embedding_length=4096, attention_head_count=32, attention_head_count_kv=8
)
GEMMA = keys(
    "gemma3", block_count=62, embedding_length=5376, attention_head_count=32, attention_head_count_kv=16,
    attention_key_length=128, attention_value_length=128, attention_sliding_window=1024,
)  # fmt: skip
DEEPSEEK = keys(
    "deepseek2", block_count=61, attention_head_count=128, attention_head_count_kv=1, attention_key_length=576,
    attention_value_length=512, attention_key_length_mla=192, attention_value_length_mla=128, attention_kv_lora_rank=512,
    rope_dimension_count=64,
)  # fmt: skip
JAMBA = keys(
    "jamba", block_count=32, embedding_length=4096, attention_head_count=32,
    attention_head_count_kv=[8 if place % 8 == 4 else 0 for place in range(32)],
    ssm_inner_size=8192, ssm_state_size=16, ssm_conv_kernel=4,
)  # fmt: skip
QWEN = keys(
    "qwen3next", block_count=48, embedding_length=2048, attention_head_count=16, attention_head_count_kv=2,
    attention_key_length=256, attention_value_length=256,
    ssm_inner_size=4096, ssm_state_size=128, ssm_conv_kernel=4, ssm_group_count=16,
)  # fmt: skip


def attention_of(fields: dict[str, Any], **changed: Any) -> Attention:
    described = describe_gguf({**fields, **keys(str(fields["general.architecture"]), **changed)})
    assert described.attention is not None, described.notes
    return described.attention


def test_a_plain_model_costs_what_its_config_says_too():
    described = describe_gguf(LLAMA)
    assert (described.family, described.context, described.weights, described.notes) == ("llama", 131_072, None, ())
    assert described.attention == Attention((Heads(32, 8, 128, 128),), 32)
    assert token_bytes(described.attention, CacheType.BF16) == 131_072


def test_heads_of_their_own_are_kept_where_none_are_shared():
    without = {key: value for key, value in LLAMA.items() if not key.endswith("head_count_kv")}
    assert attention_of(without).name == "mha"


def test_keys_and_values_may_differ_in_length():
    assert attention_of(LLAMA, attention_key_length=192, attention_value_length=96).groups == (Heads(32, 8, 192, 96),)


def test_heads_may_be_told_for_each_layer():
    groups = attention_of(LLAMA, attention_head_count_kv=[8] * 30 + [4] * 2).groups
    assert groups == (Heads(30, 8, 128, 128), Heads(2, 4, 128, 128))


def test_windows_follow_the_pattern_of_the_architecture_or_of_the_file():
    gemma = attention_of(GEMMA)
    assert {group.kind: group.layers for group in gemma.groups} == {"full": 10, "sliding": 52}
    assert request_bytes(gemma, CacheType.BF16, 131_072) == 10_656 * MIB
    halves = attention_of(GEMMA, attention_sliding_window_pattern=2)
    assert {group.kind: group.layers for group in halves.groups} == {"full": 31, "sliding": 31}
    listed = attention_of(GEMMA, attention_sliding_window_pattern=[True] * 60 + [False] * 2)
    assert {group.kind: group.layers for group in listed.groups} == {"full": 2, "sliding": 60}
    assert attention_of(GEMMA, attention_sliding_window=None).name == "gqa"


def test_layers_with_a_window_may_have_heads_of_another_length():
    groups = attention_of(GEMMA, attention_key_length_swa=64, attention_value_length_swa=64).groups
    assert groups == (Heads(52, 16, 64, 64, 1024), Heads(10, 16, 128, 128))


def test_layers_that_share_a_cache_or_only_guess_ahead_add_nothing():
    assert attention_of(GEMMA, attention_shared_kv_layers=2).layers == 60
    assert attention_of(LLAMA, nextn_predict_layers=1).layers == 31


def test_a_latent_is_told_by_its_own_keys():
    assert attention_of(DEEPSEEK).groups == (Latent(61, 512, 64),)


def test_states_are_kept_at_32_bits():
    assert attention_of(JAMBA).groups == (Heads(4, 8, 128, 128), State(28, 8192 * 16, 8192 * 3, CacheType.FP32, CacheType.FP32))
    assert request_bytes(attention_of(JAMBA), CacheType.BF16, 0) == 2 * 8_716_288
    delta = attention_of(QWEN)
    assert delta.groups == (Heads(12, 2, 256, 256), State(36, 524_288, 24_576, CacheType.FP32, CacheType.FP32))
    assert [group.layers for group in attention_of(QWEN, full_attention_interval=2).groups] == [24, 24]
    told = attention_of(QWEN, attention_recurrent_layers=[True] * 47 + [False])
    assert [group.layers for group in told.groups] == [1, 47]


def test_a_model_of_states_alone_has_no_heads():
    mamba = keys("mamba", block_count=64, ssm_inner_size=8192, ssm_state_size=16, ssm_conv_kernel=4, attention_head_count=0)
    assert attention_of(mamba).name == "state"
    assert attention_of(mamba, attention_head_count_kv=0).name == "state"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "general.architecture is not told"),
        ({"general.architecture": 7}, "general.architecture is not told"),
        (keys("of-tomorrow", block_count=2), "architecture 'of-tomorrow'"),
        ({**LLAMA, "llama.block_count": None}, "block_count is not told"),
        ({**LLAMA, "llama.block_count": 20_000}, "more than any model has"),
        ({**LLAMA, "llama.embedding_length": None}, "embedding_length is not told"),
        ({**LLAMA, "llama.attention.head_count_kv": [8] * 3}, "head_count_kv is not a list of 32 layers"),
        ({**LLAMA, "llama.attention.head_count_kv": [8] * 31 + ["x"]}, "head_count_kv is 'x'"),
        ({**LLAMA, "llama.attention.head_count_kv": [8] * 31 + [0]}, "head_count_kv is not told for each layer"),
        ({**LLAMA, "llama.attention.head_count": None, "llama.attention.head_count_kv": None}, "head_count_kv is not told"),
        ({**LLAMA, "llama.attention.head_count": [32] * 32}, "key_length is not told"),
        ({**LLAMA, "llama.attention.shared_kv_layers": 32}, "leaves no layer with a cache"),
        ({**GEMMA, "gemma3.attention.sliding_window_pattern": [True]}, "sliding_window_pattern is not a list of 62 layers"),
        ({**keys("gemma4", block_count=6, attention_sliding_window=512), **LLAMA, "general.architecture": "gemma4"}, "sliding_window_pattern is not told"),
        ({**DEEPSEEK, "deepseek2.attention.key_length_mla": None}, "convert it again"),
        ({**JAMBA, "jamba.ssm.state_size": None}, "ssm.state_size is not told"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_unknown_and_says_what(fields: dict[str, Any], why: str):
    described = describe_gguf(fields)
    assert described.attention is None
    assert why in described.notes[0]


def test_lists_that_were_left_out_are_asked_for():
    assert not asks_for_lists(LLAMA)
    assert not asks_for_lists({})
    for left_out in (None, []):
        assert asks_for_lists({**LLAMA, "llama.attention.head_count_kv": left_out})
    assert not asks_for_lists({**LLAMA, "llama.attention.head_count_kv": [8] * 32})


values = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.integers(-2, 100)
    | st.lists(st.integers(-1, 9), max_size=9)
)


@given(st.sampled_from([LLAMA, GEMMA, DEEPSEEK, JAMBA, QWEN]), st.data())
def test_whatever_stands_there_is_described_or_unknown(fields: dict[str, Any], data: st.DataObject):
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(fields)), values))
    described = describe_gguf({**fields, **changed})
    if described.attention is None:
        assert described.notes[0].startswith("the attention of this model is unknown: ")
    else:
        assert request_bytes(described.attention, CacheType.BF16, 1000, 16) > 0
