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
    assert "join answers" in found.notes[0]
    assert estimate(load_job(mill.folder / "job.toml")).requests == 0


LONG = [
    {
        "id": n,
        "text": "".join(
            f"Of {chr(97 + n)} and {chr(97 + m // 9)}{chr(97 + m % 9)} the sentence says a little. "
            for m in range(5 + 20 * (n % 4))
        ),
    }
    for n in range(24)
]
JOIN = "Join:{% for answer in answers %} {{ answer }}{% endfor %}"


def put(mill: Any, rows: list[dict[str, Any]], prompt: str = JOIN, **limits: Any) -> None:
    mill.put_rows(rows)
    mill.put_job(
        "http://127.0.0.1:9/v1", model={"name": "m", "max_tokens": 200}, answer={"on_truncated": "keep"}, limits=limits,
        slice={"split": {"size": "300 chars", "join": {"prompt": prompt}}},
        prices={"input_per_million": 1.0, "output_per_million": 4.0}, endpoint={"identity": "one server"},
    )  # fmt: skip


def looked_at(mill: Any, *overrides: str) -> Any:
    return estimate(load_job(mill.folder / "job.toml", overrides))


@pytest.mark.parametrize("answer", ["echo:20", "echo:200", "echo"])
def test_the_interval_holds_what_short_and_long_answers_come_to(mill: Any, answer: str) -> None:
    put(mill, LONG)
    found = looked_at(mill)
    done = mill.rehearse(answer=answer, prices="1,4")
    assert found.cost.low <= done.seen["bill"] <= found.cost.high
    least, most = (int(word) for word in found.notes[0].partition("(")[2].split(",")[0].split(" to "))
    assert found.units + least <= done.seen["requests"] <= found.units + most


def test_records_of_equal_pieces_are_joined_once(mill: Any) -> None:
    put(mill, LONG + LONG, max_requests=40)
    mill.rehearse(answer="echo:20")
    left = looked_at(mill)
    assert mill.rehearse(answer="echo:20", overrides=["limits.max_requests=1000"]).seen["requests"] == left.requests


def test_records_whose_joining_prompt_prints_something_of_them_are_joined_each(mill: Any) -> None:
    put(mill, LONG + [{**row, "id": row["id"] + 100} for row in LONG], prompt=f"{{{{ id }}}} {JOIN}", max_requests=40)
    mill.rehearse(answer="echo:20")
    left = looked_at(mill)
    assert mill.rehearse(answer="echo:20", overrides=["limits.max_requests=1000"]).seen["requests"] == left.requests


def test_joins_are_counted_too_where_all_pieces_are_answered(mill: Any) -> None:
    put(mill, LONG[3:4])
    pieces = looked_at(mill).units
    mill.rehearse(answer="echo:200", overrides=[f"limits.max_requests={pieces}", "endpoint.concurrency=1"])
    left = looked_at(mill)
    assert left.settled >= pieces - 3
    seen = mill.rehearse(answer="echo:200").seen["requests"]
    assert 0 < left.requests == pytest.approx(seen, abs=2)
