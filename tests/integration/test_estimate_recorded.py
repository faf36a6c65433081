"""How near an estimate comes to real counts: 300 prompts that llama.cpp has counted, the first 100 of them answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.policy import tokens
from headrace.policy.scale import fit
from headrace.runs.expectation import usually_added
from headrace.runs.jobfile import load_job
from headrace.runs.making import making_of
from headrace.runs.prompttexts import prompt_texts

ROOT = Path(__file__).parents[2]
ANSWERED = 100


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """`source` and `counted_by` say of what and by what; `prompt_tokens` are in the records' order."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "prompt_tokens.json").read_text())
    return found


@pytest.fixture(scope="module")
def estimates() -> list[float]:
    """By characters alone, of the same prompts."""
    making = making_of(load_job(ROOT / "examples" / "ten-thousand" / "job.toml").spec)
    lines = (ROOT / "examples" / "sort-packages" / "packages.jsonl").read_text().splitlines()
    payloads = [making.renderer.render(making.slicer(seq, json.loads(line))) for seq, line in enumerate(lines)]
    return [sum(map(tokens.estimate, request.texts)) for request in prompt_texts(payloads)]


def test_after_a_hundred_answers_the_total_is_within_three_percent(recorded: dict[str, Any], estimates: list[float]) -> None:
    counts = recorded["prompt_tokens"]
    scale = fit(estimates[:ANSWERED], counts[:ANSWERED], usually_added(2))

    assert scale is not None
    found = scale.total(sum(estimates), len(estimates))
    assert found.expected == pytest.approx(sum(counts), rel=0.03)
    assert found.low <= sum(counts) <= found.high
    assert found.high - found.low < 0.1 * found.expected


@pytest.mark.parametrize("sign", [-1, 1])
def test_answers_to_the_longest_or_the_shortest_teach_the_others(
    recorded: dict[str, Any], estimates: list[float], sign: int
) -> None:
    """A run that a limit has stopped has asked in its own order, and that may be by length."""
    pairs = sorted(zip(estimates, recorded["prompt_tokens"], strict=True), key=lambda pair: sign * pair[0])
    answered, left = pairs[:ANSWERED], pairs[ANSWERED:]
    scale = fit([one for one, _ in answered], [count for _, count in answered], usually_added(2))

    assert scale is not None
    found = scale.total(sum(one for one, _ in left), len(left))
    assert found.expected == pytest.approx(sum(count for _, count in left), rel=0.03)


def test_before_any_answer_it_is_within_a_tenth(recorded: dict[str, Any], estimates: list[float]) -> None:
    assert sum(estimates) == pytest.approx(sum(recorded["prompt_tokens"]), rel=0.1)


def test_single_prompts_are_met_too(recorded: dict[str, Any], estimates: list[float]) -> None:
    counts = recorded["prompt_tokens"]
    scale = fit(estimates[:ANSWERED], counts[:ANSWERED], usually_added(2))

    assert scale is not None
    off = [
        abs(scale.slope * estimate + scale.constant - count) / count for estimate, count in zip(estimates, counts, strict=True)
    ]
    assert sorted(off)[len(off) // 2] < 0.03
    assert sorted(off)[len(off) * 95 // 100] < 0.1
