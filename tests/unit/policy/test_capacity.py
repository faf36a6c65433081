"""How many requests fit: the pool, blocks, a shared prefix, copies, and what servers printed of themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.attention import Attention, CacheType, Heads, Latent
from headrace.policy.capacity import (
    GIB,
    Load,
    Memory,
    Plan,
    Store,
    lengths,
    plan,
    plan_of_pool,
    pool_bytes,
    start_at,
    token_times,
)
from headrace.policy.tuning import AUTO_START

LLAMA = Attention((Heads(32, 8, 128, 128),), 32)
LLAMA_WEIGHTS = 16_060_522_496  # 8,030,261,248 parameters at 16 bits
GEMMA = Attention((Heads(10, 16, 128, 128), Heads(52, 16, 128, 128, 1024)), 32)
DEEPSEEK = Attention((Latent(61, 512, 64),), 128)
GPU = Memory(int(79.25 * GIB))
STORE = Store()


def of_pool(tokens: int, attention: Attention = LLAMA) -> Memory:
    """GPUs whose pool holds so many tokens: all of one GPU's memory is the cache."""
    return Memory(tokens * 131_072, utilization=1.0, overhead=0)


def test_the_worked_ceiling_of_an_8b_model_on_one_gpu():
    found = plan(LLAMA, LLAMA_WEIGHTS, GPU, Load(8000, 192), STORE)
    assert found.kv_pool_bytes == pytest.approx(55.95 * GIB, abs=0.005 * GIB)
    assert found.kv_pool_tokens == 458_362
    assert found.times == pytest.approx(55.95, abs=0.005)
    assert (found.max_concurrency, found.suggested_start) == (55, 28)
    assert (found.attention, found.bytes_per_token, found.bytes_per_request) == ("gqa", 131_072, GIB)


# vLLM's own line "GPU KV cache size: N tokens, Maximum concurrency for L tokens per request: X.XXx", as published in its
# docs (parallelism_scaling, benchmarking/cli), its pull request 13596 and its issues (10517; two of Gemma 4 and others).
@pytest.mark.parametrize(
    ("pool", "length", "printed"),
    [
        (643_232, 40_960, "15.70"),
        (15_728_640, 8_192, "1920.00"),
        (127_626 * 16, 2_048, "997.08"),
        (1_952 * 16, 20_000, "1.56"),
        (1_478 * 16, 29_000, "0.82"),
        (2_264_597, 1_048_576, "2.16"),
        (169_314, 163_840, "1.03"),
    ],
)
def test_the_concurrency_is_the_one_that_vllm_printed(pool: int, length: int, printed: str):
    load = Load(length - 1, 1)
    assert f"{float(token_times(pool, load, 16)):.2f}" == printed
    assert plan_of_pool(pool, load, 16).max_concurrency == int(float(printed))
    computed = plan(LLAMA, 0, of_pool(pool), load, STORE)
    assert computed.times is not None
    assert computed.kv_pool_tokens == pool
    # from bytes the last block may be cut: vLLM prints whole blocks
    assert computed.times == pytest.approx(float(printed), abs=0.005)


# The same lines give the pool in GiB to two decimals, so that it is known to ± 0.005 GiB.
@pytest.mark.parametrize(
    ("gib", "per_gpu", "block", "blocks"),
    [
        (3.81, 131_072, 16, 1_952),  # Llama-3.1-8B on an RTX 3090, vLLM issue 10517
        (2.89, 131_072, 16, 1_478),  # the same
        (38.41, 73_728, 128, 4_369),  # Qwen3-VL-8B with TP 2, vllm-ascend's docs: bytes of one rank
    ],
)
def test_blocks_in_a_pool_are_those_that_vllm_printed(gib: float, per_gpu: int, block: int, blocks: int):
    assert gib * GIB / (per_gpu * block) == pytest.approx(blocks, abs=2.6)
    tp = 2 if per_gpu == 73_728 else 1
    attention = Attention((Heads(36, 8, 128, 128),)) if tp == 2 else LLAMA
    memory = Memory(int(gib * GIB), tp=tp, utilization=1.0, overhead=0)
    found = plan(attention, 0, memory, Load(block, block), Store(block=block))
    assert found.kv_pool_tokens == pytest.approx(blocks * block, abs=2.6 * block)


def test_a_gibibyte_is_8192_tokens_of_128_kibibytes():
    found = plan(LLAMA, 0, Memory(GIB, utilization=1.0, overhead=0), Load(1, 1), STORE)
    assert found.kv_pool_tokens == 8192


def test_weights_and_overhead_are_taken_off_what_the_server_may_use():
    assert pool_bytes(Memory(100 * GIB, tp=2, utilization=0.9, overhead=GIB), 50 * GIB) == 180 * GIB - 50 * GIB - 2 * GIB
    assert pool_bytes(Memory(10 * GIB), 50 * GIB) == 0
    assert pool_bytes(Memory(), 50 * GIB) is None
    assert pool_bytes(GPU, None) is None


def test_without_memory_the_costs_are_still_told():
    found = plan(LLAMA, LLAMA_WEIGHTS, Memory(), Load(4000, 200), STORE)
    assert found.bytes_per_request == 4208 * 131_072
    assert (found.kv_pool_bytes, found.kv_pool_tokens, found.times, found.max_concurrency) == (None, None, None, None)
    assert found.suggested_start == AUTO_START
    assert {row.max_concurrency for row in found.table} == {None}


def test_of_a_model_that_is_not_understood_the_pool_alone_is_told():
    assert plan(None, LLAMA_WEIGHTS, GPU, Load(4000, 200), STORE) == Plan(
        kv_pool_bytes=pool_bytes(GPU, LLAMA_WEIGHTS), suggested_start=AUTO_START
    )
    assert plan(None, None, GPU, Load(4000, 200), STORE) == Plan()


def test_a_shared_prefix_is_counted_once():
    pool = 100_000
    found = plan(LLAMA, 0, of_pool(pool), Load(4000, 96, 1024), STORE)
    assert found.bytes_per_request == (4096 - 1024) * 131_072
    assert found.shared_prefix_bytes == 1024 * 131_072
    assert found.max_concurrency == (pool - 1024) // (4096 - 1024)
    assert plan_of_pool(pool, Load(4000, 96, 1024), 16).max_concurrency == found.max_concurrency


def test_only_whole_blocks_of_a_prefix_are_shared():
    found = plan(LLAMA, 0, of_pool(100_000), Load(100, 12, 31), STORE)
    assert found.shared_prefix_bytes == 16 * 131_072
    assert found.bytes_per_request == (112 - 16) * 131_072


def test_a_pool_smaller_than_the_prefix_holds_nothing():
    found = plan(LLAMA, 0, of_pool(512), Load(4000, 96, 1024), STORE)
    assert (found.times, found.max_concurrency, found.suggested_start) == (0.0, 0, 0)
    assert plan_of_pool(512, Load(4000, 96, 1024), 16).max_concurrency == 0


def test_a_model_with_windows_has_no_tokens_in_its_pool():
    found = plan(GEMMA, 0, Memory(10_656 * 2**20 * 3, utilization=1.0, overhead=0), Load(131_000, 72), STORE)
    assert (found.bytes_per_token, found.kv_pool_tokens) == (None, None)
    assert found.max_concurrency == 3


@pytest.mark.parametrize(
    ("memory", "most"),
    [
        (Memory(80 * GIB, tp=8), 8 * 55),  # (0.92 × 640 - 15 - 16) GiB, 1 GiB each
        (Memory(80 * GIB, tp=16), None),
        (Memory(80 * GIB, pp=2), None),
    ],
)
def test_several_gpus_hold_more(memory: Memory, most: int | None):
    alone = plan(LLAMA, LLAMA_WEIGHTS, Memory(80 * GIB), Load(8000, 192), STORE).max_concurrency
    found = plan(LLAMA, LLAMA_WEIGHTS, memory, Load(8000, 192), STORE).max_concurrency
    assert found is not None
    assert alone is not None
    assert found > 2 * alone
    assert most is None or found > most


def test_replicated_heads_take_the_room_of_a_second_pool():
    load, memory = Load(8000, 192), Memory(80 * GIB, utilization=1.0, overhead=0)
    eight = plan(LLAMA, 0, Memory(80 * GIB, tp=8, utilization=1.0, overhead=0), load, STORE)
    sixteen = plan(LLAMA, 0, Memory(80 * GIB, tp=16, utilization=1.0, overhead=0), load, STORE)
    assert eight.max_concurrency == sixteen.max_concurrency == 640
    assert sixteen.bytes_per_token == 2 * 131_072
    assert plan(LLAMA, 0, memory, load, STORE).max_concurrency == 80


def test_the_fullest_stage_decides():
    memory = Memory(10 * GIB, pp=2, utilization=1.0, overhead=0)
    found = plan(DEEPSEEK, 0, memory, Load(8000, 192), STORE)
    assert found.max_concurrency == 10 * GIB // (31 * 1152 * 8192)
    assert found.kv_pool_tokens == 10 * GIB // (31 * 1152)


def test_copies_hold_as_much_each():
    one = plan(LLAMA, LLAMA_WEIGHTS, GPU, Load(8000, 192), STORE)
    four = plan(LLAMA, LLAMA_WEIGHTS, Memory(int(79.25 * GIB), copies=4), Load(8000, 192), STORE)
    assert one.max_concurrency is not None
    assert one.kv_pool_bytes is not None
    assert four.max_concurrency == 4 * one.max_concurrency
    assert four.kv_pool_bytes == 4 * one.kv_pool_bytes
    assert {row.tokens: row.max_concurrency for row in four.table}[8192] == four.max_concurrency
    assert plan(None, LLAMA_WEIGHTS, Memory(int(79.25 * GIB), copies=4), Load(1, 1), STORE).kv_pool_bytes == four.kv_pool_bytes


def test_a_server_that_counts_its_requests_bounds_them():
    found = plan_of_pool(100_000, Load(900, 100), 1, most=16)
    assert (found.kv_pool_tokens, found.max_concurrency, found.suggested_start) == (100_000, 16, 8)
    assert {row.tokens: row.max_concurrency for row in found.table}[65_536] == 1


def test_a_run_begins_at_half_of_what_fits():
    assert [start_at(most) for most in (None, 0, 1, 2, 3, 55, 10_000)] == [AUTO_START, 0, 1, 1, 2, 28, 256]


def test_the_table_goes_up_to_the_models_context():
    assert lengths(Load(4000, 200), 8192) == [1024, 2048, 4096, 4200, 8192]
    assert lengths(Load(100, 28), 3000) == [128, 1024, 2048, 3000]
    assert lengths(Load(4000, 200, 2048), 8192) == [4096, 4200, 8192]
    assert lengths(Load(1, 1), None)[-1] == 2**20
    assert lengths(Load(1, 1), 10 * 2**20)[-2:] == [2**20, 10 * 2**20]


@given(
    st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 10**5), st.sampled_from([1, 16, 128]), st.integers(1, 64),
    st.sampled_from([LLAMA, GEMMA, DEEPSEEK]),
)  # fmt: skip
def test_longer_requests_never_fit_more_often_and_a_shared_prefix_never_less(
    pool: int, prompt: int, more: int, block: int, tp: int, attention: Attention
):
    memory, store = Memory(pool * 131_072, tp=tp, utilization=1.0, overhead=0), Store(block=block)
    short = plan(attention, 0, memory, Load(prompt, 1), store).max_concurrency
    long = plan(attention, 0, memory, Load(prompt + more, 1), store).max_concurrency
    fp8 = plan(attention, 0, memory, Load(prompt, 1), Store(CacheType.FP8, block)).max_concurrency
    shared = plan(attention, 0, memory, Load(prompt, 1, prompt // 2), store).max_concurrency
    assert short is not None
    assert long is not None
    assert fp8 is not None
    assert shared is not None
    assert long <= short <= fp8
    assert attention is GEMMA or short <= shared  # layers with a window keep a window of the prefix besides
