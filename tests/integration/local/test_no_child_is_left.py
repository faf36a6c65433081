"""However the process ends that started the embedded model's server, nothing of the server is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.local.server import LocalServer, Serving
from headrace.local.weights import find_weights

PROGRAM = """
import os, sys, time
from pathlib import Path
from headrace.local.server import LocalServer, Serving
from headrace.local.weights import find_weights
end = sys.argv[2]
server = LocalServer(find_weights({}, chosen=Path(sys.argv[1])), Serving(slots=1, context=256))
if end != "while it loads":
    server.wait_ready()
print(server.pid, flush=True)
if end == "exception":
    raise RuntimeError("a bug")
if end == "hard exit":
    os._exit(3)
if end == "forgotten":
    sys.exit(0)
time.sleep(600)
"""

Start = Callable[[str], tuple[subprocess.Popen[str], int]]


@pytest.fixture
def start(small: Path) -> Iterator[Start]:
    """Start a program that has a server and ends as it is told; gives it and the server's pid."""
    started: list[subprocess.Popen[str]] = []

    def starting(end: str) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(small), end], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return process, int(process.stdout.readline())

    yield starting
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [("forgotten", 0), ("exception", 1), ("hard exit", 3)])
def test_a_process_that_ends_takes_the_server_with_it(start: Start, processes, end: str, code: int):
    process, server = start(end)
    assert process.wait() == code
    assert processes.are_gone(server)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["while it loads", "while it serves"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_killed_takes_the_server_with_it(start: Start, processes, end: str, number: signal.Signals):
    process, server = start(end)
    assert processes.session_of(server)
    process.send_signal(number)
    assert process.wait() == -number
    assert processes.are_gone(server)


@pytest.mark.slow
def test_a_server_that_is_stuck_is_killed_by_who_watches_over_it(start: Start, processes):
    process, server = start("while it serves")
    os.kill(server, signal.SIGSTOP)  # as a library that never gives the interpreter back
    process.kill()
    assert processes.are_gone(server)


@pytest.mark.slow
def test_a_server_without_its_watch_ends_all_the_same(start: Start, processes):
    process, server = start("while it serves")
    (watch,) = set(processes.session_of(server)) - {server}
    os.kill(watch, signal.SIGKILL)
    process.kill()
    assert processes.are_gone(server)


@pytest.mark.slow
def test_closing_ends_it_at_once_and_may_be_repeated(small: Path, processes):
    server = LocalServer(find_weights({}, chosen=small), Serving(slots=1, context=256)).wait_ready()
    assert len(processes.session_of(server.pid)) == 2
    server.close()
    assert server.has_ended
    assert processes.session_of(server.pid) == []
    server.close()


@pytest.mark.slow
def test_closing_while_it_loads_ends_the_wait(small: Path, processes):
    server = LocalServer(find_weights({}, chosen=small), Serving(slots=1, context=256))
    threading.Timer(0.05, server.close).start()
    try:
        server.wait_ready()
    except SpecError:
        assert server.has_ended  # the other way the model was loaded before
    server.close()
    assert processes.are_gone(server.pid)


@pytest.mark.slow
def test_a_server_that_died_leaves_no_watch_behind(small: Path, processes):
    server = LocalServer(find_weights({}, chosen=small), Serving(slots=1, context=256)).wait_ready()
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait(60)
    assert "was killed (signal 9)" in server.how_it_ended()
    server.close()
    assert processes.are_gone(server.pid)
