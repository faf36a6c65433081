"""How soon the first request is sent: of a new run by input size, and of a run that goes on. `python -m bench.start`.

Time from before the process is made to the first POST that the server sees. The least of a few tries counts.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, at_most, print_table
from bench.jobs import write_job, write_records
from bench.processes import MeasurementError, Server, headrace, instant_server, start

RECORD_BYTES = 1000
FIRST_S = 2.0
RESUMED_S = 1.5
FEW, MANY = 1000, 2_000_000
FINISHED, PENDING = 1_000_000, 1000
TRIES = 3
PATIENCE_S = 60.0
SETTLING_S = 3.0
TERMINATED = 143


def first_post_s(server: Server, job: Path) -> float:
    """Seconds until the first POST; the process is killed then."""
    server.reset()
    began = time.monotonic()
    with start(headrace(job), job.parent) as child:
        while True:
            first = server.stats()["first"]
            if first is not None:
                return float(first) - began
            if child.poll() is not None or time.monotonic() > began + PATIENCE_S:
                log = (job.parent / "bench-child.log").read_text(encoding="utf-8", errors="replace")
                raise MeasurementError(f"no request was sent:\n{log[-2000:]}")
            time.sleep(0.05)


def fresh(server: Server, folder: Path, count: int) -> float:
    work = folder / f"fresh-{count}"
    work.mkdir()
    write_records(work / "records.jsonl", count, RECORD_BYTES)
    job = write_job(work, server.url)
    tries = []
    for _ in range(TRIES):
        tries.append(first_post_s(server, job))
        shutil.rmtree(work / ".headrace")
    shutil.rmtree(work)
    return min(tries)


def resumed(folder: Path, finished: int, pending: int) -> float:
    """A run is interrupted when all but `pending` units are finished, and taken up again from there each time."""
    work = folder / "resumed"
    work.mkdir()
    write_records(work / "records.jsonl", finished + pending, RECORD_BYTES)
    with instant_server("--answers", str(finished)) as server:
        job = write_job(work, server.url)
        _interrupt_after(server, job, finished)
        runs, kept = work / ".headrace", work / "kept"
        runs.rename(kept)
        tries = []
        for _ in range(TRIES):
            shutil.copytree(kept, runs)
            tries.append(first_post_s(server, job))
            shutil.rmtree(runs)
    shutil.rmtree(work)
    return min(tries)


def _interrupt_after(server: Server, job: Path, finished: int) -> None:
    """Run until the server has stopped answering, let the client read and commit the rest, and stop it."""
    with start(headrace(job), job.parent) as child:
        while server.stats()["requests"] <= finished:
            if child.poll() is not None:
                raise MeasurementError("the run ended before it could be interrupted")
            time.sleep(0.05)
        time.sleep(SETTLING_S)
        for _ in range(2):  # the first drains, the second stops at once
            child.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        if child.wait(PATIENCE_S) != TERMINATED:
            raise MeasurementError(f"the interrupted run ended with {child.returncode}")


def measure(many: int = MANY, finished: int = FINISHED) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with instant_server() as server:
            starts = [(count, fresh(server, folder, count)) for count in (FEW, many)]
        again = resumed(folder, finished, PENDING)
    return [
        *(at_most(f"start: first request of {count:,} records", seconds, FIRST_S, "s", 2) for count, seconds in starts),
        at_most(f"start: next request after {finished:,} finished, {PENDING:,} pending", again, RESUMED_S, "s", 2),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Seconds to the first request.")
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--finished", type=int, default=FINISHED)
    options = parser.parse_args()
    return print_table(measure(options.many, options.finished))


if __name__ == "__main__":
    raise SystemExit(main())
