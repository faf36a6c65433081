"""What each command passes on and prints, with the work itself replaced by a fake."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli import app
from headrace.cli import status as status_command
from headrace.errors import LedgerError
from headrace.events import Warned
from headrace.protocols import Observer
from headrace.runs import failures, outputs, status
from headrace.runs.registry import RUNS_FOLDER, create_run
from headrace.values import Kind, Status

JOB = """
input = { path = "in.jsonl" }
prompt = { user = "{{ text }}" }
model = { name = "m" }
endpoint = { url = "http://127.0.0.1:9/v1" }
output = { path = "out.jsonl" }
"""


def document(state: str = "finished", done: int = 2) -> dict[str, Any]:
    return {
        "run": "r",
        "name": "sort\x1b[2J",
        "state": state,
        "reason": None,
        "exit_code": 0 if state == "finished" else None,
        "input_complete": True,
        "items": {"total": 2, "done": done, "failed": 0, "quarantined": 0, "rejected": 0, "pending": 2 - done},
        "units": {"total": 2, "done": done, "duplicates_saved": 0},
        "requests": {"sent": 2, "retries": 0, "by_kind": {}},
        "tokens": {"prompt": 1, "completion": 1, "cached": 0, "wasted": 0, "unknown_requests": 0},
        "cost": {"spent": 0.0, "currency": "USD", "known": False},
        "rate": {"items_per_minute": 1.0, "retry_rate": 0.0, "failure_rate": 0.0},
        "latency_s": {"p50": None, "p95": None, "p99": None, "max": None},
        "context_tokens": {"mean": None, "p95": None, "max": None},
        "concurrency": {"now": 0, "mean": None, "max": 0, "bound_by": None},
        "quality": {"eval_score": None, "reviewed": 0, "accepted": 0, "interval": None},
        "advice": [],
    }


class Work:
    """Stands for headrace.runs.pipeline, status and export; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.documents = [document()]

    async def execute(self, job: Any, options: Any, observers: Sequence[Observer]) -> SimpleNamespace:
        self.asked.append((job.spec.name, options.run_dir, options.new, options.reuse, len(observers)))
        for observer in observers:
            observer(Warned("careful\x1b[2J"))
        return self._result()

    async def retry(self, run: Any, kinds: Any, overrides: list[str], observers: Sequence[Observer]) -> SimpleNamespace:
        self.asked.append((run.id, kinds, overrides))
        return self._result()

    def status(self, folder: Path) -> dict[str, Any]:
        self.asked.append(folder.name)
        return self.documents.pop(0) if len(self.documents) > 1 else self.documents[0]

    def failures(self, folder: Path) -> dict[str, Any]:
        group = {"status": "failed", "kind": "bad_request", "message": "m" * 500 + "\x07", "count": 1234, "examples": ["a\n", 7]}
        group["excerpt"] = {"record": '{"text": "\x1b[2J\u202e' + "x" * 500, "answer": None}
        return {"groups": [group]}

    def show(self, folder: Path) -> dict[str, Any]:
        return {"run": folder.name}

    def export(self, run: Any, to: Path, only: Any, *, details: bool) -> tuple[int, str | None]:
        self.asked.append((run.id, to, only, details))
        return 1234, "fields left out"

    def _result(self) -> SimpleNamespace:
        return SimpleNamespace(exit_code=0, message=None, output=Path("out.jsonl"), status=document(), reason=None)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    fake = Work()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    pipeline = SimpleNamespace(execute=fake.execute, RunOptions=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "headrace.runs.retry", SimpleNamespace(retry=fake.retry))
    monkeypatch.setitem(sys.modules, "headrace.runs.pipeline", pipeline)
    monkeypatch.setattr(failures, "failures", fake.failures)
    for name in ("status", "show"):
        monkeypatch.setattr(status, name, getattr(fake, name))
    monkeypatch.setattr(outputs, "export_run", fake.export)
    return fake


@pytest.fixture
def run_id(work: Work, tmp_path: Path) -> str:
    folder = create_run(tmp_path / RUNS_FOLDER, 1_796_000_000.0)
    folder.archive.write_text("{}", encoding="utf-8")
    return folder.id


def test_run_passes_its_options_on_and_says_the_ending(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--new", "--reuse", "last", "--run-dir", "d"]) == 0
    assert work.asked == [("job", Path("d"), True, "last", 1)]
    out, err = capsys.readouterr()
    assert "2 of 2 done" in out
    assert "output: out.jsonl" in out
    assert "warning: careful\\x1b[2J" in err
    assert "\x1b" not in out + err


def test_run_with_json_prints_one_document_and_words_go_to_stderr(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == document()
    assert "warning: careful" in err


def test_a_quiet_run_says_nothing(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert work.asked[0][-1] == 0


def test_retry_passes_kinds_and_changed_keys_on(work: Work, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["retry", "--only", "timeout,empty", "--set", "model.max_tokens=9", "--set", "limits.drain=1s"]) == 0
    assert work.asked == [(run_id, {Kind.TIMEOUT, Kind.EMPTY}, ["model.max_tokens=9", "limits.drain=1s"])]


def test_status_is_a_document_or_a_few_harmless_lines(work: Work, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document()
    assert app.invoke(["status", run_id[:8]]) == 0
    assert "sort\\x1b[2J" in capsys.readouterr().out


def test_following_ends_with_the_run(
    work: Work, run_id: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(status_command.time, "sleep", naps.append)
    running = [document("running", done) for done in (0, 0, 1)]
    work.documents = [*running, document()]
    assert app.invoke(["status", "--follow"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["0 of 2 done, 2 pending", "1 of 2 done, 1 pending"]
    assert len(naps) == 3
    work.documents = [*running, document()]
    assert app.invoke(["status", "--follow", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document()


def test_runs_lists_also_one_that_cannot_be_read(
    work: Work, run_id: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.invoke(["runs", "--json"]) == 0
    [entry] = json.loads(capsys.readouterr().out)["runs"]
    assert (entry["run"], entry["state"], entry["items"]["done"]) == (run_id, "finished", 2)
    assert entry["started"].startswith("2026-11-")

    def broken(folder: Path) -> dict[str, Any]:
        raise LedgerError("not a ledger")

    monkeypatch.setattr(status, "status", broken)
    assert app.invoke(["runs"]) == 0
    assert "not a ledger" in capsys.readouterr().out


def test_failures_are_groups_with_short_harmless_examples(work: Work, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["failures"]) == 0
    line, excerpt = capsys.readouterr().out.splitlines()
    assert line.startswith("1,234  failed  bad_request  mmm")
    assert line.endswith("e.g. a\\n, 7")
    assert len(line) < 250
    assert excerpt.startswith('    record  {"text": "\\x1b[2J\\u202ex')
    assert len(excerpt) < 200
    assert app.invoke(["failures", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == work.failures(Path())


def test_show_prints_the_archive(work: Work, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["show", run_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"run": run_id}


def test_export_passes_path_statuses_and_details_on(work: Work, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["export", "--to", "x.csv", "--only", "done,failed", "--details"]) == 0
    assert work.asked == [(run_id, Path("x.csv"), {Status.DONE, Status.FAILED}, True)]
    out, err = capsys.readouterr()
    assert out == "1,234 records written to x.csv\n"
    assert err == "headrace: fields left out\n"
