"""What servers tell of their cache, and that nothing they claim is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.served import (
    Served,
    llama_cpp,
    model_context,
    model_names,
    model_size,
    sglang,
    shown_model,
    tgi,
    vllm,
)

# As vLLM 0.33 writes it, with the labels that count.
GAUGE = (
    '# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n'
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="%s",kv_cache_max_concurrency="55.9",'
    'kv_cache_size_tokens="458352",num_gpu_blocks="%s",sliding_window="None"} 1.0\n'
)  # fmt: skip


def test_vllm_tells_its_tokens():
    assert vllm((GAUGE % (0, 28647)).encode()) == Served("vllm", 458_352, 16)


def test_engines_of_vllm_repeat_the_first_ones_figures_and_their_sum_of_blocks():
    text = GAUGE % (0, 57294) + GAUGE % (1, 57294)
    assert vllm(text.encode()) == Served("vllm", 2 * 458_352, 16)


def test_blocks_alone_are_no_tokens():
    older = 'vllm:num_requests_running 0\nvllm:cache_config_info{block_size="16",num_gpu_blocks="1952"} 1.0\n'
    found = vllm(older.encode())
    assert found is not None
    assert found.tokens is None
    assert "1,952 blocks of 16 tokens" in found.notes[0]
    assert "31,232 tokens if every layer keeps all of them" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "vllm:num_requests_running 0\n",
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0',
        'vllm:cache_config_info{kv_cache_size_tokens="99999999999999999999999"} 1.0',
        "vllm:cache_config_info{" + "x" * 100_000,
    ],
)
def test_a_vllm_that_does_not_tell_says_so(text: str):
    found = vllm(text.encode())
    assert found is not None
    assert found.tokens is None
    assert found.notes


def test_metrics_of_others_are_not_vllms():
    assert vllm(b"sglang:num_running_reqs 0\n") is None
    assert vllm(b"") is None


def test_sglang_tells_what_all_ranks_hold():
    info = {
        "max_total_num_tokens": 100_000, "page_size": 64, "context_length": 32_768,
        "internal_states": [
            {"effective_max_running_requests_per_dp": 100, "memory_usage": {"token_capacity": 100_000}},
            {"effective_max_running_requests_per_dp": 100, "memory_usage": {"token_capacity": 90_000}},
        ],
    }  # fmt: skip
    assert sglang(info) == Served("sglang", 190_000, 64, 200, 32_768)
    assert sglang({**info, "internal_states": [{}, {}]}) == Served("sglang", 200_000, 64, None, 32_768)
    assert sglang({"max_total_num_tokens": 100_000}) == Served("sglang", 100_000)
    assert sglang({"max_total_num_tokens": "x", "internal_states": "y", "page_size": 0}) == Served("sglang")
    assert sglang({"memory_usage": 1}) is None
    assert sglang(None) is None


def test_llama_cpp_tells_its_slots():
    found = llama_cpp({"total_slots": 4, "default_generation_settings": {"n_ctx": 8192}})
    assert found is not None
    assert (found.tokens, found.most, found.context, found.at_least) == (8192, 4, 8192, True)
    assert "4 slots of 8,192 tokens" in found.notes[0]
    for odd in ({"total_slots": "x"}, {"total_slots": 4, "default_generation_settings": []}):
        found = llama_cpp(odd)
        assert found is not None
        assert found.tokens is None
    assert llama_cpp({"slots": 4}) is None
    assert llama_cpp([]) is None


def test_tgi_tells_its_bound_and_older_ones_their_tokens():
    assert tgi({"max_concurrent_requests": 128, "max_total_tokens": 4096}) == Served("tgi", None, 1, 128, 4096)
    assert tgi({"max_concurrent_requests": 128, "max_batch_total_tokens": 60_000}) == Served("tgi", 60_000, 1, 128)
    assert tgi({"version": "1"}) is None


def test_models_are_listed_in_either_form():
    openai = {"data": [{"id": "a", "max_model_len": 4096}, {"id": 7}, "x", {"id": "b"}]}
    ollama = {"models": [{"name": "llama3:latest", "size": 4_700_000_000}]}
    assert model_names(openai) == ["a", "b"]
    assert model_names(ollama) == ["llama3:latest"]
    assert model_context(openai, None) == model_context(openai, "a") == 4096
    assert model_context(openai, "b") is None
    assert model_size(ollama, "llama3:latest") == 4_700_000_000
    assert model_size(ollama, "other") is None
    for odd in (None, [], {}, {"data": "x"}, {"data": None, "models": 3}):
        assert model_names(odd) == []


def test_a_shown_model_is_its_keys():
    assert shown_model({"model_info": {"a": 1}}) == {"a": 1}
    assert shown_model({"model_info": None}) is None
    assert shown_model("x") is None


replies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["data", "models", "id", "name", "size", "max_total_num_tokens", "internal_states", "memory_usage", "token_capacity",
         "effective_max_running_requests_per_dp", "page_size", "total_slots", "default_generation_settings", "n_ctx",
         "max_concurrent_requests", "max_batch_total_tokens", "model_info", "max_model_len"]), inner, max_size=5),
)  # fmt: skip


@given(replies)
def test_whatever_is_replied_is_told_or_not_told(reply: object):
    for told in (sglang(reply), llama_cpp(reply), tgi(reply)):
        if told is not None:
            assert told.tokens is None or told.tokens > 0
    model_names(reply)
    model_context(reply, None)
    shown_model(reply)


@given(st.binary(max_size=300) | st.text(alphabet='vllm:cache_config_info{}=",\\ \n1b', max_size=300).map(str.encode))
def test_whatever_stands_in_metrics_is_survived(text: bytes):
    found = vllm(b"vllm:cache_config_info{" + text)
    assert found is not None
    assert found.tokens is None or found.tokens > 0
