"""What `headrace demo` passes on and prints, with the run itself replaced by a fake."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli import app
from headrace.runs import demo as demo_module
from headrace.runs.demo import Demo, figures_of

LABELS = ["fonts", "games", "system"]
STATUS = {
    "run": "r", "name": "demo", "state": "finished",
    "items": {"total": 3, "done": 3, "failed": 0, "quarantined": 0, "rejected": 0, "pending": 0},
    "tokens": {"prompt": 1000, "completion": 3, "cached": 910, "wasted": 0, "unknown_requests": 0},
    "rate": {"items_per_minute": 90.0}, "cost": {"spent": 0.0, "currency": "USD", "known": False},
}  # fmt: skip
ROWS = [
    {
        "name": name, "text": f"{name} a\x1b[2J\n\nMore of it.", "answer": answer, "answer_status": "done",
        "answer_error": None, "answer_confidence": confidence, "answer_model": "Tiny-1M", "expected": expected,
    }
    for name, answer, confidence, expected in [
        ("tetris", "games", 0.912, "games"), ("lato", "fonts", 0.8, "fonts"), ("grub", "games", 0.31, "system"),
    ]
]  # fmt: skip


class Work:
    """Stands for headrace.runs.demo.demo; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.exit_code = 0

    async def demo(self, to: Path, *, limit: int | None, new: bool, observers: Any) -> Any:
        self.asked.append((to, limit, new, len(observers)))
        message = "the first reason" if self.exit_code else None
        result = SimpleNamespace(exit_code=self.exit_code, message=message, output=to / "answers.jsonl", status=STATUS)
        return Demo(to, result, figures_of(ROWS, LABELS) if not self.exit_code else None)  # type: ignore[arg-type]  # a fake


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    fake = Work()
    monkeypatch.setattr(demo_module, "demo", fake.demo)
    monkeypatch.setenv("COLUMNS", "80")
    return fake


def test_the_figures_are_two_tables_and_a_few_lines(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["demo"]) == 0
    assert work.asked == [(Path("headrace-demo"), None, False, 1)]
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "games 1 1 0.50 1.00 0.67" in lines
    assert "system 1 0 - 0.00 0.00" in lines
    assert "grub grub a\\x1b[2J system games 0.31" in lines
    assert "model Tiny-1M" in lines
    assert "throughput 90 records/min: 3 in 2 s" in lines
    assert "tokens 1,000 prompt, 910 of them (91%) from the prefix cache" in lines
    assert "accuracy 0.667 (2 of 3), 95 % Wilson interval 0.208 to 0.939" in lines
    assert "to beat 0.333: the sample's largest class (games) as the answer to all" in lines
    assert "sure of the 2 answers with the highest confidence 2 are right" in lines
    assert "\x1b" not in out


def test_json_is_one_document_of_the_status_and_the_figures(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["demo", "--json", "--to", "there", "--limit", "3", "--new"]) == 0
    assert work.asked == [(Path("there"), 3, True, 1)]
    document = json.loads(capsys.readouterr().out)
    assert (document["folder"], document["output"]) == ("there", str(Path("there/answers.jsonl")))
    assert document["status"] == STATUS
    figures = document["figures"]
    assert (figures["n_total"], figures["n_scored"], figures["n_error"]) == (3, 3, {})
    assert figures["score"] == pytest.approx(2 / 3)
    assert figures["interval"] == pytest.approx([0.207660, 0.938508], abs=5e-7)
    assert figures["largest_class"] == {"label": "games", "n": 1}
    assert figures["models"] == ["Tiny-1M"]
    assert figures["surest_half"] == {"n": 2, "right": 2}
    assert figures["per_class"]["system"] == {"n": 1, "answered": 0, "right": 0, "precision": None, "recall": 0.0, "f1": 0.0}


def test_a_demo_that_stopped_has_no_figures_and_says_why(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    work.exit_code = 4
    assert app.invoke(["demo"]) == 4
    out, err = capsys.readouterr()
    assert "the first reason" in err
    assert "accuracy" not in out
    assert "the same command goes on where this stopped" in out
    assert app.invoke(["demo", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["figures"] is None


def test_a_quiet_demo_says_nothing(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["demo", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_no_record_at_all_is_refused(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["demo", "--limit", "0"]) == 2
    assert work.asked == []
