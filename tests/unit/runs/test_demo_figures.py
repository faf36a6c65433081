"""What the demo says of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.errors import DiskError, SpecError
from headrace.runs.demo import FILES, figures_of, place
from headrace.runs.jobfile import load_job

LABELS = ["fonts", "games", "system"]


def row(expected: str, answer: str | None, confidence: float | None = None, error: str | None = None) -> dict[str, Any]:
    status = "done" if error is None else "quarantined" if error.startswith("schema_mismatch") else "failed"
    return {
        "name": "n", "text": "t", "answer": answer, "answer_status": status, "answer_error": error,
        "answer_confidence": confidence, "answer_model": "m", "expected": expected,
    }  # fmt: skip


def test_answers_are_counted_against_their_true_labels():
    rows = [row("games", "games", 0.9), row("games", "fonts", 0.4), row("fonts", "fonts", 0.3), row("games", "games", 0.8)]
    figures = figures_of(rows, LABELS)
    assert (figures.n_total, figures.n_scored, figures.right, figures.score) == (4, 4, 3, 0.75)
    assert figures.interval == pytest.approx((0.300642, 0.954413), abs=5e-7)
    assert figures.largest == ("games", 3)
    assert figures.surest == (2, 2)
    assert list(figures.classes) == LABELS
    assert figures.classes["fonts"][:3] == (1, 2, 1)
    assert figures.rows == rows


def test_an_unacceptable_answer_is_wrong_and_a_missing_one_is_not_scored():
    rows = [
        row("games", "games", 0.5), row("games", None, error="schema_mismatch: none of the labels"),
        row("system", None, error="timeout: no reply"), row("system", None, error="timeout: no reply"),
    ]  # fmt: skip
    figures = figures_of(rows, LABELS)
    assert (figures.n_total, figures.n_scored, figures.right) == (4, 2, 1)
    assert figures.n_error == {"timeout": 2}
    assert figures.largest == ("games", 2)
    assert figures.classes["system"].n == 0


def test_no_answer_at_all_says_nothing():
    figures = figures_of([], LABELS)
    assert (figures.score, figures.interval, figures.largest, figures.surest) == (0.0, (0.0, 1.0), ("", 0), (0, 0))


def test_the_demo_is_a_job_with_a_true_label_for_each_record(tmp_path: Path):
    path = place(tmp_path / "new" / "folder")
    job = load_job(path)
    assert job.spec.endpoint[0].url == "local"
    assert (job.spec.answer.method, job.spec.answer.calibrate) == ("score", True)
    records = [orjson.loads(line) for line in (path.parent / "records.jsonl").read_bytes().splitlines()]
    expected = {
        pair["name"]: pair["category"] for pair in map(orjson.loads, (path.parent / "labels.jsonl").read_bytes().splitlines())
    }
    assert len(records) == 200
    assert [record["name"] for record in records] == list(expected)
    assert set(expected.values()) == set(job.spec.answer.labels or ())
    assert not [record["name"] for record in records if f"\n{record['name']}: " in (job.spec.prompt.prompt or "")]


def test_files_that_are_there_already_are_left_as_they_are(tmp_path: Path):
    place(tmp_path)
    before = {name: (tmp_path / name).stat() for name in FILES}
    place(tmp_path)
    assert {name: (tmp_path / name).stat() for name in FILES} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_another_file_in_the_place_of_one_is_refused_and_kept(tmp_path: Path, name: str):
    (tmp_path / name).write_text("mine")
    with pytest.raises(SpecError, match="is not the demo's"):
        place(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="name another folder"):
        place(tmp_path / "file" / "demo")
