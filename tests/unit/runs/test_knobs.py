"""What the engine is told of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.policy.tuning import AUTO_START
from headrace.runs.jobfile import job_from_dict
from headrace.runs.pacing import pace_of


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
