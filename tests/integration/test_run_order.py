"""Runs over HTTP in each order: the output stays the input's, and an unfinished run goes on in another order."""

from __future__ import annotations

import random

import pytest

from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
SLOW = {"latency_ms": 20, "prefill_ms_per_token": 0.05, "cache_blocks": 4000}


def rows(groups: int, members: int) -> list[dict[str, str]]:
    found = [
        {"document": f"Document {group}. ".ljust(1500, "d"), "question": f"Question {n} about {group}?"}
        for group in range(groups)
        for n in range(members)
    ]
    random.Random(1).shuffle(found)
    return found


def put(mill, order: str, groups: int, members: int) -> list[dict[str, str]]:
    found = rows(groups, members)
    mill.put_rows(found)
    mill.put_job(
        URL,
        prompt={"system": "You answer.", "user": "{{ document }}\n\n{{ question }}"},
        endpoint={"concurrency": 8},
        limits={"order": order},
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("order", ["auto", "input", "prefix", "longest"])
def test_the_output_has_the_order_of_the_input(mill, order: str) -> None:
    found = put(mill, order, 12, 10)
    done = mill.rehearse(answer="echo", **SLOW)
    assert done.items == {"done": 120}
    assert [row["question"] for row in mill.rows()] == [row["question"] for row in found]
    assert all(row["question"] in row["answer"] for row in mill.rows())
    tokens = done.result.status["tokens"]
    cached = tokens["cached"] / tokens["prompt"]
    assert cached > 0.7 if order in {"auto", "prefix"} else cached > 0


@pytest.mark.slow
def test_an_unfinished_run_goes_on_in_another_order(mill) -> None:
    put(mill, "auto", 250, 8)
    quota = Rule(status=429, body={"error": {"code": "insufficient_quota", "message": "no credit"}}, after=300)
    first = mill.rehearse(quota, answer="text:yes", **SLOW)
    assert first.result.exit_code == 4
    before = first.result.status["items"]["done"]
    assert 0 < before < 2000
    second = mill.rehearse(overrides=["limits.order=longest"], answer="text:yes", latency_ms=5)
    assert second.items == {"done": 2000}
    assert second.seen["requests"] == 2000 - before
    assert len(mill.runs) == 1
