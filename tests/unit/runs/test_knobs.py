"""What the engine is told of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.policy.tuning import AUTO_START
from headrace.runs.jobfile import job_from_dict
from headrace.runs.pacing import knobs_of, pace_of


@pytest.mark.parametrize(
    ("concurrency", "slots", "start"), [(None, None, AUTO_START), (None, 8, 8), ("auto", 2, 2), (3, 8, 3), (20, 8, 20)]
)
def test_an_endpoint_that_has_slots_is_begun_with_as_many_unless_a_number_is_written(concurrency: Any, slots, start: int) -> None:
    tables = {
        "input": {"path": "in.jsonl"}, "prompt": {"user": "x"}, "model": {"name": "local"}, "output": {"path": "out.jsonl"},
        "endpoint": {"url": "local", "concurrency": concurrency},
    }  # fmt: skip
    spec = job_from_dict(tables, Path("/")).spec
    assert pace_of(spec.endpoint[0], slots).concurrency == start


@pytest.mark.parametrize("order", ["auto", "input", "prefix", "longest"])
def test_the_order_of_the_job_and_what_its_prompts_share_reach_the_engine(order: str) -> None:
    tables = {
        "input": {"path": "in.jsonl"}, "prompt": {"user": "x"}, "model": {"name": "m"}, "output": {"path": "out.jsonl"},
        "endpoint": {"url": "http://127.0.0.1:1/v1"}, "limits": {"order": order},
    }  # fmt: skip
    knobs = knobs_of(job_from_dict(tables, Path("/")).spec, "run", 1, 300)
    assert (knobs.order, knobs.shared_bytes) == (order, 300)
