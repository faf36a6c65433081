"""Child processes of the bench: the client that is measured, and the server that it asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class MeasurementError(Exception):
    """What was to be measured did not happen: a child failed, or its counts do not agree."""


class Ran(NamedTuple):
    """What one child cost. `started` is monotonic time before it was made; `peak_mb` its largest resident size."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    started: float
    exit_code: int


class Server(NamedTuple):
    """A server that runs. `url` ends with /v1."""

    url: str

    def stats(self) -> dict[str, Any]:
        return self._get("/stats")

    def reset(self) -> None:
        self._get("/stats/reset")

    def _get(self, path: str) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url.removesuffix("/v1") + path) as answer:
            counts: dict[str, Any] = json.load(answer)
            return counts


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, allowed: Sequence[int] = (0,)) -> Ran:
    """Run a child to its end; CPU and memory are those of the child alone, with its threads."""
    log = folder / "bench-child.log"
    with log.open("wb") as output:
        started = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, env=_environment(folder, environment), stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in allowed:
        shown = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise MeasurementError(f"{' '.join(command)} ended with {child.returncode}:\n{shown}")
    peak = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Ran(usage.ru_utime + usage.ru_stime, wall, peak, started, child.returncode)


@contextmanager
def start(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child that runs beside the bench; it is ended with the block."""
    with (folder / "bench-child.log").open("wb") as output:
        child = subprocess.Popen(command, cwd=folder, env=_environment(folder, environment), stdout=output, stderr=output)
        try:
            yield child
        finally:
            child.kill()
            child.wait()


@contextmanager
def instant_server(*options: str) -> Iterator[Server]:
    """The server of `bench.instant_server`, as its own process."""
    command = [sys.executable, "-m", "bench.instant_server", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            ready = child.stdout.readline().split()
            if ready[:1] != ["READY"]:
                raise MeasurementError("the bench's server did not start")
            yield Server(ready[1])
        finally:
            child.terminate()


def headrace(job: Path) -> list[str]:
    return [sys.executable, "-m", "headrace", "run", str(job), "--quiet"]


def _environment(folder: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    """The registry of runs stays out of the user's own; nothing is sent through a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1", **(more or {})}
