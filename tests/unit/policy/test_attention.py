"""What layers keep for a request: by kind, by type of cache, on several GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.attention import (
    Attention,
    CacheType,
    Heads,
    Latent,
    State,
    fullest_bytes,
    prefix_bytes,
    request_bytes,
    stored,
    token_bytes,
)

BF16, FP8 = CacheType.BF16, CacheType.FP8
LLAMA = Attention((Heads(32, 8, 128, 128),), 32)
DEEPSEEK = Attention((Latent(61, 512, 64),), 128)
GEMMA = Attention((Heads(10, 16, 128, 128), Heads(52, 16, 128, 128, 1024)), 32)
JAMBA = Attention((Heads(4, 8, 128, 128), State(28, 8192 * 16, 8192 * 3)), 32)
MIB = 2**20


@pytest.mark.parametrize(
    ("kind", "stored_bytes"),
    [
        (CacheType.FP32, 128), (BF16, 64), (FP8, 32), (CacheType.Q8_0, 34), (CacheType.Q4_0, 18),
    ],
)  # fmt: skip
def test_a_block_of_32_elements_takes_what_its_type_says(kind: CacheType, stored_bytes: int):
    assert stored(32, kind) == stored_bytes
    assert stored(1, kind) == -(-stored_bytes // 32)


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (LLAMA, "gqa"),
        (Attention((Heads(32, 32, 128, 128),), 32), "mha"),
        (Attention((Heads(40, 1, 128, 128),), 48), "mqa"),
        (Attention((Heads(32, 8, 128, 128),)), "full"),
        (Attention((Heads(2, 8, 128, 128), Heads(2, 4, 128, 128)), 8), "gqa"),
        (Attention((Heads(32, 8, 128, 128, 4096),), 32), "sliding"),
        (Attention((Heads(32, 8, 128, 128, 8192, chunked=True),), 32), "chunked"),
        (DEEPSEEK, "mla"),
        (Attention((State(64, 1, 1),)), "state"),
        (GEMMA, "hybrid"),
        (JAMBA, "hybrid"),
    ],
)
def test_attention_has_the_name_that_people_use(attention: Attention, name: str):
    assert attention.name == name


def test_the_layers_of_all_groups_are_the_models():
    assert GEMMA.layers == 62


def test_a_token_costs_keys_and_values_of_all_layers():
    assert token_bytes(LLAMA, BF16) == 2 * 32 * 8 * 128 * 2 == 131_072
    assert token_bytes(LLAMA, FP8) == 65_536
    assert token_bytes(Attention((Heads(1, 2, 192, 128),)), BF16) == 2 * (192 + 128) * 2  # keys longer than values


def test_a_latent_is_kept_once_and_not_for_keys_and_values():
    assert token_bytes(DEEPSEEK, BF16) == 70_272
    # vLLM's fp8_ds_mla: 512 bytes, four scales, the rotary part at 16 bits
    assert token_bytes(DEEPSEEK, CacheType.FP8_DS_MLA) == 61 * 656 == 40_016


def test_what_is_not_in_proportion_has_no_price_a_token():
    assert token_bytes(GEMMA, BF16) is None
    assert token_bytes(JAMBA, BF16) is None


def test_a_window_keeps_no_more_than_itself():
    mistral = Attention((Heads(32, 8, 128, 128, 4096),), 32)
    assert request_bytes(mistral, BF16, 1024) == 128 * MIB
    assert request_bytes(mistral, BF16, 32_768) == request_bytes(mistral, BF16, 4096) == 512 * MIB


def test_a_state_is_the_same_for_every_length():
    constant = request_bytes(JAMBA, BF16, 0)
    assert constant == 8_716_288
    assert request_bytes(JAMBA, BF16, 1000) == constant + 1000 * 16_384
    assert request_bytes(JAMBA, FP8, 0) == constant  # a state's type is its own


def test_requests_take_whole_blocks():
    assert request_bytes(LLAMA, BF16, 17, 16) == request_bytes(LLAMA, BF16, 32, 16) == 32 * 131_072
    assert request_bytes(Attention((Heads(1, 1, 1, 1, 20),)), FP8, 100, 16) == 2 * 32  # a window of 20 lies in two blocks


@pytest.mark.parametrize(("tp", "times"), [(1, 1), (2, 1), (8, 1), (16, 2), (32, 4)])
def test_heads_are_divided_among_gpus_and_replicated_past_that(tp: int, times: int):
    assert token_bytes(LLAMA, BF16, tp) == times * 131_072


def test_a_latent_is_replicated_on_every_gpu():
    assert token_bytes(DEEPSEEK, BF16, 8) == 8 * 70_272


def test_a_state_is_divided_among_gpus():
    assert request_bytes(JAMBA, BF16, 0, 1, 8) == request_bytes(JAMBA, BF16, 0)


def test_stages_divide_layers_and_the_fullest_decides():
    assert fullest_bytes(LLAMA, BF16, 1, 1, (2, 4)) == 131_072 // 8
    assert fullest_bytes(DEEPSEEK, BF16, 1, 1, (1, 2)) == 31 * 1152


def test_a_prefix_is_kept_once_but_for_states():
    assert prefix_bytes(JAMBA, BF16, 160, 16, (1, 1)) == 160 * 16_384
    assert prefix_bytes(GEMMA, BF16, 4096, 16, (1, 1)) == 4096 * 81_920 + 52 * 8192 * 1024
    assert prefix_bytes(LLAMA, BF16, 0, 16, (1, 1)) == 0


dims = st.integers(1, 4096)
groups = st.one_of(
    st.builds(Heads, st.integers(1, 100), st.integers(1, 128), dims, dims, st.none() | st.integers(1, 10_000), st.booleans()),
    st.builds(Latent, st.integers(1, 100), dims, dims, st.integers(0, 200)),
    st.builds(State, st.integers(1, 100), st.integers(1, 10**6), st.integers(1, 10**6)),
)
attentions = st.builds(Attention, st.lists(groups, min_size=1, max_size=4).map(tuple), st.integers(0, 128))
tokens = st.integers(0, 200_000)
blocks = st.sampled_from([1, 16, 64, 256])


@given(attentions, tokens, tokens, blocks)
def test_longer_requests_take_no_less(attention: Attention, one: int, other: int, block: int):
    short, long = sorted((one, other))
    assert request_bytes(attention, BF16, short, block) <= request_bytes(attention, BF16, long, block)


@given(attentions, tokens, blocks, st.integers(1, 64), st.integers(1, 64))
def test_more_gpus_never_leave_more_on_one_of_them(attention: Attention, length: int, block: int, one: int, other: int):
    few, many = sorted((one, other))
    for wide, narrow in (((many, 1), (few, 1)), ((1, many), (1, few))):
        assert fullest_bytes(attention, BF16, length, block, wide) <= fullest_bytes(attention, BF16, length, block, narrow)
    assert request_bytes(attention, BF16, length, block, many) >= request_bytes(attention, BF16, length, block)


@given(attentions, tokens, blocks)
def test_narrower_elements_take_no_more(attention: Attention, length: int, block: int):
    order = [CacheType.Q4_0, CacheType.FP8, CacheType.Q8_0, BF16, CacheType.FP32]
    sizes = [request_bytes(attention, kind, length, block) for kind in order]
    assert sizes == sorted(sizes)


@given(attentions, tokens, tokens, blocks)
def test_a_shared_prefix_and_what_is_not_shared_hold_the_whole_request(attention: Attention, one: int, other: int, block: int):
    shared, length = sorted((one // block * block, other))
    shared = shared // block * block
    whole = request_bytes(attention, BF16, length, block)
    apart = prefix_bytes(attention, BF16, shared, block, (1, 1)) + request_bytes(attention, BF16, length - shared, block)
    assert apart >= whole
