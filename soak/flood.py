"""Gigabytes of answers and a disk that is slow to take them: memory must not grow with what has been answered."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from headrace.engine.knobs import Asked, Ending, Knobs, Pace, Parts, Start
from headrace.engine.live import LiveEngine
from headrace.testing import run_virtual
from headrace.testing.life import ContentJudge, VirtualClock, VirtualOffload, at_once
from headrace.values import Capacity, Failure, Gauges, Reply, Request
from soak.lives import StoredIntake
from soak.stores import Facts, OnDisk

ANSWER_BYTES = 1_000_000
IN_FLIGHT = 32
COMMIT_S = 1.0  # of virtual time, at most, while an answer takes 20 ms: the disk is what everything waits for
SETTLED_AFTER = 400  # answers: by then all that is kept at once has been kept once
MOST_GROWTH = 1.1


class LongAnswers:
    """Answers each request with a megabyte of its own. Satisfies `headrace.protocols.Endpoint`."""

    name = identity = "long answers"

    def __init__(self) -> None:
        self.answered = 0
        self.early_kb = 0

    async def send(self, request: Request) -> Reply | Failure:
        await asyncio.sleep(0.02)
        self.answered += 1
        if self.answered == SETTLED_AFTER:
            self.early_kb = _most_kb()
        word = f"{request.unit} "
        return Reply(content=(word * (ANSWER_BYTES // len(word) + 1))[:ANSWER_BYTES], finish="stop")

    async def capacity(self) -> Capacity | None:
        return Capacity()

    async def gauges(self) -> Gauges | None:
        return None

    async def close(self) -> None:
        pass


def flood(gigabytes: float) -> int:
    """Answer and keep so much; prints the figures. 1 if memory has grown."""
    count = max(2 * SETTLED_AFTER, int(gigabytes * 1e9 / ANSWER_BYTES))
    endpoint, began = LongAnswers(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store = OnDisk(Path(folder))
        ledger = store.open(None, retry_ambiguous=True, most=lambda _: None)
        try:
            ending = run_virtual(_lived(store, ledger, endpoint, count), seed=1, max_time_s=10_000_000, max_steps=100_000_000)
            assert ending.reason is None, ending
            done = store.done()
        finally:
            store.close()
    late_kb = _most_kb()
    grown = late_kb / endpoint.early_kb
    print(
        f"{done:,} answers of {ANSWER_BYTES / 1e6:g} MB kept, {time.monotonic() - began:.0f} s: at most "
        f"{endpoint.early_kb / 1000:.0f} MB after {SETTLED_AFTER}, {late_kb / 1000:.0f} MB at the end (x {grown:.2f})"
    )
    return 0 if done == count and grown <= MOST_GROWTH else 1


async def _lived(store: OnDisk, ledger: object, endpoint: LongAnswers, count: int) -> Ending:
    rng = random.Random(1)
    parts = Parts(
        endpoints=[Asked(endpoint, Pace(IN_FLIGHT))], judge=ContentJudge(),
        intake=StoredIntake([f"text {n}" for n in range(count)], store, Facts()), ledger=ledger,  # type: ignore[arg-type]
        clock=VirtualClock(), offload_rows=at_once(),
        offload_ledger=VirtualOffload(rng, longest_s=COMMIT_S), offload_intake=VirtualOffload(rng), rng=rng,
    )  # fmt: skip
    return await LiveEngine(Knobs(run="flood", config=1), parts, Start()).run()


def _most_kb() -> int:
    """The most memory that this process has had, in kB (the kernel of macOS counts bytes)."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1024 if sys.platform == "darwin" else most
