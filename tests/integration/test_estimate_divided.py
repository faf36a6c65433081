"""What an estimate says of a job that divides its records and joins the answers by a prompt, held against the run."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.runs.estimate import estimate
from headrace.runs.jobfile import load_job

pytest.importorskip("semantic_text_splitter")


def test_pieces_and_the_requests_that_join_their_answers_are_counted(mill: Any) -> None:
    mill.put_rows([{"text": f"Record {n}. " + "One sentence of many. " * (5 * (n % 4))} for n in range(20)])
    mill.put_job(
        "http://127.0.0.1:9/v1",
        model={"name": "m", "max_tokens": 16},
        slice={"split": {"size": "100 chars", "join": {"prompt": "Join: {{ answers }}"}}},
        answer={"on_truncated": "keep"},
    )
    found = estimate(load_job(mill.folder / "job.toml"))

    seen = mill.rehearse().seen

    assert found.pieces > found.items
    assert found.requests == pytest.approx(seen["requests"], rel=0.15)
    assert "of the requests join answers" in found.notes[0]
    assert estimate(load_job(mill.folder / "job.toml")).requests == 0
