"""The command line: exit codes, one JSON document, one line for a mistake."""

from __future__ import annotations

import enum
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from headrace import __version__
from headrace.cli import app, ending, summary
from headrace.cli.parameters import chosen
from headrace.cli.printing import columns, error_document
from headrace.errors import (
    DiskError,
    HeadraceError,
    InputBrokenError,
    InputError,
    LedgerError,
    LockedError,
    NotYetError,
    OutputError,
    RunNotFoundError,
    SpecError,
)
from headrace.values import Kind

STATUS: dict[str, Any] = {
    "run": "20261130-174501-k3f9",
    "name": "sort",
    "state": "finished",
    "reason": None,
    "exit_code": 3,
    "input_complete": True,
    "items": {"total": 1000, "done": 980, "failed": 15, "quarantined": 5, "rejected": 0, "pending": 0},
    "units": {"total": 900, "done": 880, "duplicates_saved": 100},
    "requests": {"sent": 950, "retries": 50, "by_kind": {"rate_limited": 50}},
    "tokens": {"prompt": 1000, "completion": 200, "cached": 0, "wasted": 10, "unknown_requests": 1},
    "cost": {"spent": 0.0, "currency": "USD", "known": False},
    "rate": {"items_per_minute": 600.0, "retry_rate": 0.05, "failure_rate": 0.02},
    "latency_s": {"p50": 0.5, "p95": 1.0, "p99": 2.0, "max": None},
    "context_tokens": {"mean": 10.0, "p95": 20.0, "max": 30},
    "concurrency": {"now": 0, "mean": 6.0, "max": 8, "bound_by": "endpoint"},
    "quality": {"eval_score": None, "reviewed": 0, "accepted": 0, "interval": None},
    "advice": ["go on"],
}
JOB = """
input = { path = "in.jsonl" }
prompt = { user = "{{ text }}" }
model = { name = "m" }
endpoint = { url = "http://127.0.0.1:9/v1" }
output = { path = "out.jsonl" }
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in app.COMMANDS:
        assert app.invoke([command, "--help"]) == 0
        assert f"headrace {command}" in capsys.readouterr().out


def test_an_unknown_command_is_an_error_of_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["statsu"]) == 2
    assert "status" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["plan", "--nope"],
            "headrace: No such option: --nope (Possible options: --model, --name, --tp); see `headrace plan --help`\n",
        ),
        (["run"], "headrace: Missing argument 'JOB'; see `headrace run --help`\n"),
        (["local", "frob"], "headrace: No such command 'frob'; see `headrace local --help`\n"),
    ],
)
def test_a_usage_error_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(arguments) == 2
    assert capsys.readouterr().err == said


def test_commands_without_a_command_show_their_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["local"]) == 2
    assert capsys.readouterr().err.startswith("Usage: headrace local")


def test_a_usage_error_with_json_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--bogus", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "usage"
    assert "--bogus" in document["error"]["message"]


def test_a_wrong_job_file_is_one_line_and_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--set", "limits.class=bath", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == {
        "kind": "spec",
        "key": "limits.class",
        "found": "'bath'",
        "allowed": '"batch" or "online"',
        "message": 'limits.class: found \'bath\'; allowed: "batch" or "online"',
    }
    assert err.count("\n") == 1
    assert err.startswith("headrace: limits.class")


def test_obs_01_a_key_on_the_command_line_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["run", "job.toml", "--set", "endpoint.api_key=SECRET-TEST-123", "--json"]) == 2
    assert "SECRET-TEST-123" not in "".join(capsys.readouterr())


def test_a_dry_run_without_an_input_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert app.invoke(["run", "job.toml", "--dry-run"]) == 2
    assert "in.jsonl: no such file" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_run_is_a_mistake_of_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "failures", "retry", "show"):
        assert app.invoke([command]) == 2
        assert "there is no run" in capsys.readouterr().err


def test_inp_05_an_ascii_terminal_gets_escapes_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="ascii") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "argv", ["headrace", "export", "\u00e9\u2603", "--to", "\U0001f600.txt"])
    with pytest.raises(SystemExit) as caught:
        app.main()
    monkeypatch.undo()
    assert caught.value.code == 2
    buffer = streams["stderr"].buffer
    assert isinstance(buffer, io.BytesIO)
    assert b"\\U0001f600" in buffer.getvalue()


def test_inp_05_a_locale_without_utf8_starts_over_in_utf8_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, list[str]]] = []

    def begin(path: str, arguments: list[str]) -> None:
        begun.append((path, arguments))
        raise SystemExit

    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "headrace", "runs"])
    monkeypatch.setattr(os, "execv", begin)
    with pytest.raises(SystemExit):
        app.main()
    assert begun == [(sys.executable, [sys.executable, "-X", "utf8", "-m", "headrace", "runs"])]


def test_a_reader_that_has_gone_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert app.invoke(["schema"]) == 0
        monkeypatch.undo()


def test_runs_without_any_is_an_empty_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": []}


def test_the_schema_takes_one_endpoint_or_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert [form.get("type") for form in schema["properties"]["endpoint"]["anyOf"]] == [None, "array"]
    assert "schema" in schema["$defs"]["AnswerSpec"]["properties"]


def test_export_wants_a_format_that_it_can_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["export", "--to", "x.txt"]) == 2
    assert "--to" in capsys.readouterr().err


def test_words_of_only_are_checked() -> None:
    assert chosen("timeout, empty", Kind) == {Kind.TIMEOUT, Kind.EMPTY}
    assert chosen(None, Kind) is None
    for text in ("timeouts", "", ",", "TIMEOUT"):
        with pytest.raises(SpecError, match="--only"):
            chosen(text, Kind)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (SpecError("x"), "spec", 2),
        (NotYetError("x"), "not_yet", 2),
        (InputError("x"), "input", 2),
        (InputBrokenError("x"), "input", 7),
        (LedgerError("x"), "ledger", 7),
        (DiskError("x"), "disk", 7),
        (LockedError("x"), "lock", 7),
        (OutputError("x"), "output", 7),
        (RunNotFoundError("x"), "run_not_found", 2),
    ],
)
def test_every_error_of_ours_has_its_kind_and_code(error: HeadraceError, kind: str, code: int) -> None:
    assert error_document(error)["error"]["kind"] == kind
    assert error.exit_code == code


def test_columns_are_aligned_and_harmless() -> None:
    assert columns([("a", "bb", "x"), ("aaa", "b\n", "yy")]) == ["a    bb   x", "aaa  b\\n  yy"]


def test_a_status_is_a_few_lines() -> None:
    lines = summary.status_lines(STATUS)
    assert "state      finished, exit code 3" in lines
    assert "items      980 of 1,000 done, 15 failed, 5 quarantined" in lines
    assert "cost       unknown" in lines
    assert lines[-1] == "advice: go on"
    assert len(lines) < 15


def test_an_ending_says_what_to_do_next() -> None:
    assert "`headrace failures`" in "\n".join(summary.ending_lines(STATUS, "out.jsonl", 3))
    assert summary.ending_lines(STATUS, None, 4)[-1] == "the same command goes on where this stopped"


class Outcome(enum.Enum):
    WORDS = (False, False)
    JSON = (True, False)
    QUIET = (False, True)


@pytest.mark.parametrize("how", Outcome)
def test_a_result_is_said_once_and_its_code_ends_the_command(how: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    as_json, quiet = how.value
    result = SimpleNamespace(exit_code=4, message="the key was refused", output=None, status=STATUS)
    with pytest.raises(typer.Exit) as caught:
        ending.end(result, json=as_json, quiet=quiet)
    assert caught.value.exit_code == 4
    out, err = capsys.readouterr()
    assert err == "headrace: the key was refused\n"
    assert (json.loads(out) == STATUS) if as_json else (out == "") is quiet


def test_the_process_ends_hard_after_a_run_also_for_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    shown: list[BaseException] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    monkeypatch.setattr(sys, "argv", ["headrace", "run", "job.toml"])
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: shown.append(error))
    monkeypatch.setattr(app, "invoke", lambda _arguments: 5)
    app.main()
    monkeypatch.setattr(app, "invoke", lambda _arguments: 1 // 0)
    app.main()
    assert ends == [5, 1]
    assert [type(error) for error in shown] == [ZeroDivisionError]
