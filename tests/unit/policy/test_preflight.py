"""What a server says of itself, held against the job: names of models, and the length of prompts."""

from __future__ import annotations

import pytest

from headrace.policy.preflight import nearest, too_long, unlisted
from headrace.values import Capacity

LISTED = ("Qwen/Qwen3-8B", "google/gemma-3-270m", "lora-de")


def test_a_strict_server_that_does_not_list_the_model_cannot_answer() -> None:
    found = unlisted("google/gema-3-270m", Capacity("vllm", models=LISTED))
    assert found is not None
    assert found.is_certain
    assert found.message == 'it does not serve the model "google/gema-3-270m"; it lists "google/gemma-3-270m"'
    assert unlisted("google/gemma-3-270m", Capacity("vllm", models=LISTED)) is None
    upper = unlisted("QWEN/QWEN3-8B", Capacity("vllm", models=LISTED))
    assert upper is not None
    assert upper.message.endswith('; it lists "Qwen/Qwen3-8B"')


def test_a_name_that_was_cut_for_its_length_is_no_other_name() -> None:
    long = "m" * 300
    assert unlisted(long, Capacity("vllm", models=(long[:200],))) is None
    assert unlisted("m\u200b", Capacity("vllm", models=("m",))) is None  # what cannot be printed is not shown


@pytest.mark.parametrize("server", ["sglang", "llama.cpp", "tgi", "tei", "tensorrt-llm"])
def test_a_server_that_answers_to_any_name_is_not_doubted(server: str) -> None:
    assert unlisted("whatever", Capacity(server, models=LISTED)) is None


@pytest.mark.parametrize("server", ["openai", "ollama", "unknown"])
def test_where_a_list_may_be_partial_it_is_a_warning(server: str) -> None:
    found = unlisted("gpt-5", Capacity(server, models=LISTED))
    assert found is not None
    assert not found.is_certain
    assert found.message.endswith("; the first request finds out")


@pytest.mark.parametrize("name", ["gemma-3-270m", "google/gemma-3-270m:free", "GOOGLE/gemma-3-270m", "x/lora-de"])
def test_other_ways_to_write_a_listed_name_are_no_cause(name: str) -> None:
    assert unlisted(name, Capacity("unknown", models=LISTED)) is None


def test_tags_of_ollama() -> None:
    assert unlisted("gemma3", Capacity("ollama", models=("gemma3:latest",))) is None


def test_nothing_is_said_where_nothing_or_only_a_page_is_listed() -> None:
    assert unlisted("m", Capacity("vllm")) is None
    assert unlisted("m", Capacity("unknown", models=LISTED, lists_all=False)) is None
    found = unlisted("m", Capacity("vllm", models=LISTED, lists_all=False))
    assert found is not None
    assert not found.is_certain


def test_the_nearest_are_named_or_the_first() -> None:
    assert nearest("x", ()) == ""
    assert nearest("zzz", ("aa", "bb", "cc", "dd")) == '; it lists "aa", "bb", "cc" and 1 more'
    assert nearest("zzz", ("aa",)) == '; it lists "aa"'


def test_a_prompt_that_cannot_fit_is_said_and_one_that_may_is_not() -> None:
    assert too_long(4096, 64, 3000.0) is None
    assert too_long(4096, 64, 4300.0) is None  # an estimate
    said = too_long(4096, 64, 8000.0)
    assert said is not None
    assert said.startswith("the longest prompt read so far has about 8,000 tokens, with model.max_tokens = 64 about 8,064; the")
    without = too_long(4096, None, 8000.0)
    assert without is not None
    assert "max_tokens" not in without


def test_an_answer_that_takes_the_whole_context_leaves_no_room() -> None:
    said = too_long(4096, 4096, 0.0)
    assert said is not None
    assert said.startswith("model.max_tokens = 4,096 leaves no room")
