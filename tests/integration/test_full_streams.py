"""Commands whose output can be written nowhere: the disk that it goes to is full, or its reader has gone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import COMMAND

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")


def finished(mill: Any) -> None:
    mill.put_rows([{"id": n, "text": f"row {n}."} for n in range(20)])
    mill.put_job("http://127.0.0.1:9/v1")
    assert mill.rehearse().result.exit_code == 0


def ended(mill: Any, *arguments: str, stdout: Any, stderr: Any = subprocess.PIPE) -> tuple[int, str]:
    command = [str(COMMAND), *arguments]
    done = subprocess.run(command, cwd=mill.folder, env=mill.env, stdout=stdout, stderr=stderr, text=True, check=False)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["runs"], ["show"], ["failures"], ["schema"]])
def test_a_document_that_cannot_be_written_is_one_line_and_no_success(mill: Any, command: list[str]) -> None:
    finished(mill)
    with FULL.open("w") as full:
        code, said = ended(mill, *command, stdout=full)
    assert (code, said) == (7, "headrace: standard output cannot be written (No space left on device).\n")


@pytest.mark.parametrize("more", [[], ["--log-json"], ["--json"]])
def test_a_run_whose_words_can_be_written_nowhere_ends_as_it_would(mill: Any, more: list[str]) -> None:
    finished(mill)
    with FULL.open("w") as full:
        assert ended(mill, "run", "job.toml", *more, stdout=subprocess.DEVNULL, stderr=full) == (0, "")


def test_closed_streams_are_no_bug(mill: Any) -> None:
    finished(mill)
    with mill.sim() as sim:
        for command in ("status", f"run job.toml --new --set endpoint.url={sim.url}"):
            for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
                script = ["/bin/sh", "-c", f'"{COMMAND}" {command} {closed}']
                done = subprocess.run(script, cwd=mill.folder, env=mill.env, check=False, capture_output=True, text=True)
                assert (done.returncode, "Traceback" in done.stderr) == (0, False), (command, closed, done.stderr)
