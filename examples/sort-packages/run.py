"""Runs the job against a simulated endpoint in this process, and shows what came of it."""

from __future__ import annotations

import asyncio
import collections
import tempfile
from pathlib import Path

import headrace
from headrace.testing.sim import SimOptions, SimServer

HERE = Path(__file__).parent


async def main() -> None:
    options = SimOptions(answer="label", latency_ms=100, jitter=0.5, fail_once_rate=0.05, seed=7)
    async with SimServer(options) as sim:
        with tempfile.TemporaryDirectory() as runs:  # a trial leaves no run behind
            result = await headrace.arun(HERE / "job.toml", run_dir=runs, overrides=[f"endpoint.url={sim.url}"])
            print(result)
            print("requests:", result.status["requests"])
            print("labels:", dict(collections.Counter(record["answer"] for record in result).most_common()))
            print("output:", result.path)


if __name__ == "__main__":
    asyncio.run(main())
