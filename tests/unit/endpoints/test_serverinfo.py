"""What servers say that they hold, all engines together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoints import server_pages as pages

from headrace.endpoints.serverinfo import Models, read_capacity, read_models, server_of_info
from headrace.values import Capacity

NOBODY = Models()


def figures(capacity: Capacity) -> tuple[int | None, int | None, int | None, int | None, bool | None]:
    return capacity.requests, capacity.tokens, capacity.block, capacity.context, capacity.prefix_caching


def test_vllm_repeats_one_engines_tokens_for_each_engine() -> None:
    models = read_models(pages.VLLM_MODELS, "m")
    capacity = read_capacity("vllm", {"metrics": pages.VLLM_METRICS}, models)
    assert figures(capacity) == (None, 204_800, 16, 8192, True)
    assert capacity.told_by == "GET /metrics, vllm:cache_config_info: kv_cache_size_tokens x 2 engines"
    assert capacity.models == ("m",)


def info(**labels: str) -> bytes:
    lines = [
        "vllm:cache_config_info{" + ",".join(f'{key}="{value}"' for key, value in {**labels, "engine": str(n)}.items()) + "} 1.0"
        for n in range(2)
    ]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        # the sum over engines already, repeated for each
        ({"num_gpu_blocks": "573", "block_size": "16"}, 9168),
        ({"num_gpu_blocks": "573", "block_size": "16", "kv_cache_size_tokens": "None"}, 9168),
        ({"num_gpu_blocks": "573", "block_size": "16", "sliding_window": "4096"}, None),
        ({"num_gpu_blocks": "573", "block_size": "528", "mamba_block_size": "528"}, None),
        ({"num_gpu_blocks": "573", "block_size": "16", "sliding_window": "4096", "kv_cache_size_tokens": "1000"}, 2000),
        ({"num_gpu_blocks": "None", "block_size": "16"}, None),
        ({"num_gpu_blocks": "0", "block_size": "16"}, None),
        ({"num_gpu_blocks": "573"}, None),
    ],
)
def test_blocks_count_only_where_one_kind_of_layers_fills_them(labels: dict[str, str], tokens: int | None) -> None:
    assert read_capacity("vllm", {"metrics": info(**labels)}, NOBODY).tokens == tokens


def test_vllm_without_a_configuration_says_nothing() -> None:
    assert read_capacity("vllm", {"metrics": b"vllm:num_requests_running 1\n"}, NOBODY) == Capacity("vllm")
    assert read_capacity("vllm", {}, NOBODY) == Capacity("vllm")


def test_sglang_adds_up_its_ranks() -> None:
    capacity = read_capacity("sglang", {"server_info": pages.SGLANG_INFO}, read_models(pages.SGLANG_MODELS, "m"))
    assert figures(capacity) == (256, 40_480, 1, 8192, True)
    assert capacity.told_by == "GET /server_info: internal_states of 2 ranks"
    assert "secret" not in repr(capacity)


def test_an_older_sglang_says_one_ranks_tokens() -> None:
    page = json.dumps({"max_total_num_tokens": 1000, "dp_size": 4, "max_running_requests": 32, "context_length": 2048}).encode()
    capacity = read_capacity("sglang", {"server_info": page}, NOBODY)
    assert figures(capacity) == (32, 4000, None, 2048, None)
    assert capacity.told_by == "GET /server_info: max_total_num_tokens x 4"
    assert read_capacity("sglang", {"server_info": b'{"disable_radix_cache":true}'}, NOBODY).prefix_caching is False
    assert read_capacity("sglang", {}, NOBODY) == Capacity("sglang")


def test_llama_cpps_slots_have_a_context_each() -> None:
    capacity = read_capacity("llama.cpp", {"props": pages.LLAMA_PROPS}, NOBODY)
    assert figures(capacity) == (8, 32_768, None, 4096, True)
    assert capacity.told_by == "GET /props"


def test_four_slots_are_the_servers_own_choice_and_share_one_context() -> None:
    page = b'{"default_generation_settings":{"n_ctx":8192},"total_slots":4}'
    assert figures(read_capacity("llama.cpp", {"props": page}, NOBODY)) == (4, 8192, None, 8192, True)


def test_without_props_the_slots_are_counted() -> None:
    capacity = read_capacity("llama.cpp", {"slots": pages.LLAMA_SLOTS}, NOBODY)
    assert figures(capacity) == (2, 8192, None, 4096, True)
    assert capacity.told_by == "GET /slots"
    assert read_capacity("llama.cpp", {"slots": b"[]"}, NOBODY) == Capacity("llama.cpp", prefix_caching=True)


def test_text_generation_inference() -> None:
    capacity = read_capacity("tgi", {"info": pages.TGI_INFO, "metrics": pages.TGI_METRICS}, NOBODY)
    assert figures(capacity) == (128, 16_000, None, 4096, None)
    older = pages.TGI_INFO.replace(b'"max_best_of"', b'"max_batch_total_tokens":9000,"max_best_of"')
    assert read_capacity("tgi", {"info": older, "metrics": pages.TGI_METRICS}, NOBODY).tokens == 9000
    assert read_capacity("tgi", {"metrics": b"tgi_batch_max_total_tokens 0\n"}, NOBODY).tokens is None


def test_text_embeddings_inference() -> None:
    assert figures(read_capacity("tei", {"info": pages.TEI_INFO}, NOBODY)) == (512, None, None, 512, None)
    assert read_capacity("tei", {}, NOBODY).told_by == ""


def test_an_info_page_says_whose_it_is() -> None:
    assert server_of_info(pages.TGI_INFO) == "tgi"
    assert server_of_info(pages.TEI_INFO) == "tei"
    assert server_of_info(b'{"model_id":"m"}') is None
    assert server_of_info(None) is None


@pytest.mark.parametrize(
    ("page", "server"),
    [
        (pages.LLAMA_MODELS, "llama.cpp"),
        (pages.VLLM_MODELS, "vllm"),
        (pages.SGLANG_MODELS, "sglang"),
        (pages.OLLAMA_MODELS, "ollama"),
        (pages.OPENAI_MODELS, "openai"),
        (pages.TRTLLM_MODELS, None),
        (b'{"data":[{"id":"m","owned_by":["x"]}]}', None),
        (b"<html>", None),
    ],
)
def test_who_owns_the_model_says_who_serves_it(page: bytes, server: str | None) -> None:
    assert read_models(page, "m").server == server


def test_the_context_is_that_of_the_model_that_is_asked() -> None:
    cards = [{"id": "a", "max_model_len": 100}, {"id": "b\u202e" * 200, "max_model_len": 200}, {"name": "no id"}, 7]
    page = json.dumps({"data": cards}).encode()
    assert read_models(page, "b\u202e" * 200).context == 200
    assert read_models(page, "other").context == 100
    assert read_models(page, None).names == ("a", "b" * 200)
    assert read_models(pages.LLAMA_MODELS, None).context == 4096
    assert read_models(b'{"data":[{"id":"m","meta":null}]}', None).context is None


@pytest.mark.parametrize("value", [True, -1, 0, 1.5, float("nan"), "1e3", "\u00b2", "9" * 30, 2**60, None, [], {}])
def test_a_figure_that_is_no_count_is_absent(value: Any) -> None:
    page = json.dumps({"default_generation_settings": {"n_ctx": 10}, "total_slots": value}).encode()
    assert read_capacity("llama.cpp", {"props": page}, NOBODY).requests is None


def test_a_count_may_come_as_a_float_or_as_text() -> None:
    page = b'{"total_slots":"8","default_generation_settings":{"n_ctx":64.0}}'
    assert figures(read_capacity("llama.cpp", {"props": page}, NOBODY))[:2] == (8, 512)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "id", "n_ctx", "loads"]), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = ("total_slots", "default_generation_settings", "internal_states", "memory_usage", "max_concurrent_requests", "data")


@given(
    st.dictionaries(st.sampled_from(NAMES), json_values) | json_values,
    st.sampled_from(["vllm", "sglang", "llama.cpp", "tgi", "tei", "x"]),
)
def test_no_page_raises(value: Any, server: str) -> None:
    page = json.dumps(value).encode()
    named = dict.fromkeys(("metrics", "props", "slots", "server_info", "info"), page)
    read_capacity(server, named, read_models(page, "m"))
    server_of_info(page)
