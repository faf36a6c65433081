"""`headrace init` as a process: what it writes runs as it stands, and at a terminal it can be broken off."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--labels", "cat,dog"], {"cat", "dog"}),
        (["--schema", "animal:string,legs:integer"], None),
        (["--ask", "Say it again."], None),
    ],
)
@pytest.mark.slow
def test_what_is_written_runs_as_it_stands(mill: Any, options: list[str], expected: set[str] | None) -> None:
    mill.put_rows([{"my id": n, "the text": f"row {n} is a text"} for n in range(4)], "data.jsonl")
    with mill.sim("--answer", "label" if expected else "json" if "--schema" in options else "echo") as sim:
        written = mill.command("init", "--url", sim.url, "--model", "sim", *options, stdin=subprocess.DEVNULL)
        assert written.code == 0, written.err
        ran = mill.command("run", "job.toml", "--json")
        assert ran.code == 0, ran.err
        assert sim.stats()["requests"] >= 4
    rows = mill.rows(mill.folder / "data-answers.jsonl")
    assert [row["answer_status"] for row in rows] == ["done"] * 4
    if expected:
        assert {row["answer"] for row in rows} <= expected
    assert mill.command("init", "--url", sim.url, "--model", "sim", stdin=subprocess.DEVNULL).code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("byte", "code", "said"), [(b"\x03", 130, "interrupted"), (b"\x04", 2, "nothing was written")])
def test_ctrl_c_and_the_end_of_input_at_a_terminal_write_nothing(mill: Any, byte: bytes, code: int, said: str) -> None:
    mill.put_texts(2)
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [mill.program, "init"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=mill.folder, env={**mill.env, "TERM": "dumb"},
            start_new_session=True, preexec_fn=lambda: _own_terminal(theirs),  # noqa: PLW1509 (one call of the system, no lock)
        )  # fmt: skip
        os.close(theirs)
        _read_until(ours, "[in.jsonl]:")
        text = _read_until(ours, None, byte)
        assert process.wait(60) == code
    finally:
        os.close(ours)
    assert said in text
    assert "Traceback" not in text
    assert not (mill.folder / "job.toml").exists()


def _own_terminal(descriptor: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def _read_until(descriptor: int, mark: str | None, typed: bytes = b"") -> str:
    """What the terminal shows, up to the mark, or to its end. `typed` is typed, and again while nothing comes.

    A signal that comes after the prompt and just before the line is waited for is seen only at the next key.
    """
    text = ""
    os.write(descriptor, typed)
    while mark is None or mark not in text:
        if not select.select([descriptor], [], [], 2.0)[0]:
            os.write(descriptor, typed)
            continue
        try:
            block = os.read(descriptor, 4096)
        except OSError:  # Linux says so when the last process has gone
            break
        if not block:
            break
        text += block.decode(errors="replace")
    return text


def test_a_pipe_is_nobody_to_ask(mill: Any) -> None:
    told = mill.command("init", stdin=subprocess.DEVNULL)
    assert told.code == 2
    assert told.err.startswith("headrace: init needs --input: ")
    assert not Path(mill.folder / "job.toml").exists()
