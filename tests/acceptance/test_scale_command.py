"""Many records: memory, tasks and open files follow the number in flight, not the number of records."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.events import Event, Progress
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import execute
from headrace.testing.sim import SimOptions, SimServer

pytestmark = pytest.mark.slow
MANY = 50_000
FEW = 5_000


def put(mill: Any, count: int) -> None:
    filler = "x" * 1000
    with (mill.folder / "in.jsonl").open("w") as file:
        for n in range(count):
            file.write(f'{{"id": {n}, "text": "row {n}", "more": "{filler}"}}\n')


def peak_kb(mill: Any) -> int:
    """Run to the end; the peak of resident memory."""
    command = [str(mill.program), "run", "job.toml", "--quiet", "--new"]
    process = subprocess.Popen(command, cwd=mill.folder, env=mill.env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def test_scl_01_memory_does_not_grow_with_the_records(mill):
    with mill.sim("--answer", "text:ok") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 32}, input={"id": "id"})
        peaks = []
        for count in (FEW, MANY):
            put(mill, count)
            peaks.append(peak_kb(mill))
            with mill.output.open("rb") as lines:
                assert sum(1 for _ in lines) == count
        assert sim.stats()["requests"] == FEW + MANY
        assert sim.stats()["sockets"]["peak"] <= 32 + 1
        assert peaks[1] - peaks[0] < 60_000  # kB, for 45,000 records of 1 kB more
        again = mill.run()  # scl_04: what is finished is found out without asking
        assert again.code == 0
        assert again.document["items"]["done"] == MANY
        assert sim.stats()["requests"] == FEW + MANY


def test_scl_02_there_are_tasks_for_what_is_in_flight_and_no_more(mill, monkeypatch: pytest.MonkeyPatch):
    put(mill, MANY // 2)
    mill.put_job("http://127.0.0.1:9/v1", endpoint={"concurrency": 16}, limits={"run_deadline": "4s"})
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))
    most: list[int] = []
    first: list[int] = []

    async def counted(folder: Path) -> Any:
        async with SimServer(SimOptions(answer="text:ok", latency_ms=5)) as sim:

            def observe(event: Event) -> None:
                most.append(len(asyncio.all_tasks()))
                if isinstance(event, Progress) and sim.stats.requests and not first:
                    first.append(event.total)

            return await execute(load_job(folder / "job.toml", [f"endpoint.url={sim.url}"]), None, [observe])

    result = asyncio.run(counted(mill.folder))
    assert result.exit_code in {0, 5}
    assert result.status["items"]["done"] > 100
    assert most
    assert max(most) <= 2 * 16 + 50
    assert first[0] < MANY // 2  # sending does not wait for the whole input
