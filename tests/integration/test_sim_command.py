"""`headrace sim` as a process: it says where it listens, serves, and ends with 0 when told to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.sim import sim
from headrace.errors import SpecError

PROGRAM = "import typer; from headrace.cli.sim import sim; typer.run(sim)"

app = typer.Typer()
app.command()(sim)


@contextlib.contextmanager
def running(*options: str, env: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}) as process:
        assert process.stdout is not None
        try:
            word, _, url = process.stdout.readline().strip().partition(" ")
            assert word == "READY"
            yield process, url
        finally:
            process.kill()


def post(url: str, body: Any, headers: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), headers or {})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


@pytest.mark.slow
def test_it_serves_and_ends_with_0_on_either_signal(tmp_path: Path):
    table = tmp_path / "table.json"
    table.write_text('{"rose": "red"}')
    script = tmp_path / "script.jsonl"
    script.write_text('{"match": "sing", "content": "la"}\n\n')
    options = ("--answer", "label", "--labels", "red, green", "--table", str(table), "--script", str(script))
    for number in (signal.SIGTERM, signal.SIGINT):
        with running(*options, "--api-key-env", "SIM_KEY", env={"SIM_KEY": "hush"}) as (process, url):
            said = [
                post(f"{url}/completions", {"prompt": text}, {"Authorization": "Bearer hush"})["choices"][0]["text"]
                for text in ("a rose", "sing")
            ]
            assert said == ["red", "la"]
            process.send_signal(number)
            assert process.wait(10) == 0


def refusal(*options: str) -> str:
    result = CliRunner().invoke(app, list(options))
    assert isinstance(result.exception, SpecError)
    return str(result.exception)


def test_a_wrong_script_is_refused_with_its_line(tmp_path: Path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"status": 500}\n{"status": "five"}\n')
    assert "line 2" in refusal("--script", str(script))


@pytest.mark.parametrize("flag", ["--table", "--script"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, flag: str):
    assert f"{flag} {tmp_path / 'gone'} cannot be read" in refusal(flag, str(tmp_path / "gone"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal(flag, str(tmp_path / "binary"))


def test_a_table_must_be_one_object(tmp_path: Path):
    (tmp_path / "table.json").write_text('["a"]')
    assert "one JSON object" in refusal("--table", str(tmp_path / "table.json"))


def test_a_key_variable_that_is_not_set_is_refused():
    assert refusal("--api-key-env", "NOT_SET_ANYWHERE") == "--api-key-env names NOT_SET_ANYWHERE, which is not set"


def test_impossible_options_are_refused():
    assert "--error-rate is 2.0" in refusal("--error-rate", "2")
    assert "max_completion_tokens" in refusal("--max-tokens-field", "tokens")


def test_every_option_is_in_the_help():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).stdout
    for flag in ("--host", "--slots", "--decode-ms-per-token", "--retry-after", "--no-schema", "--script", "--api-key-env"):
        assert flag in shown
