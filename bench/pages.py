"""What it costs to explain a run: its page, and its comparison with another. `python -m bench.pages [--units N]`.

The ledgers are written here, through the ledger itself, as a run of so many labels over half an hour would leave them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure, at_most, print_table
from bench.processes import run
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch
from headrace.values import Answer, Attempt, Item, Kind, Outcome, Reply, Sample, State, Unit, Usage

HEADRACE = (sys.executable, "-m", "headrace")
UNITS = 1_000_000
COMPARED = 100_000
REPORT_S, REPORT_MB, PAGE_MB = 20.0, 300.0, 2.0
COMPARE_S = 10.0
SECONDS = 1800
LABELS = ("games", "science", "web", "graphics", "sound", "libraries", "admin", "other")
_A_COMMIT = 5000
_BEGAN = 1_790_000_000.0


def write_ledger(folder: Path, units: int, seed: int) -> None:
    """A finished run: one unit in a hundred failed, one in fifty was sent twice."""
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    ledger = SqliteLedger(folder / "ledger.db")
    content = {
        "model": {"name": "m", "temperature": seed},
        "prompt": {"user": "{{ text }}"},
        "input": {},
        "slice": {},
        "answer": {},
    }
    ledger.add_config(_BEGAN, content, {"endpoint": [{"url": "http://h/v1", "concurrency": "auto"}], "limits": {"order": "auto"}})
    ledger.add_endpoint("h/v1", "http://h/v1")
    for first in range(0, units, _A_COMMIT):
        seqs = range(first, min(first + _A_COMMIT, units))
        batch = Batch()
        batch.items = [Item(seq, 1, seq * 100, 99, seq + 1, f"record {seq}") for seq in seqs]
        batch.pieces = [(seq, 0, seq) for seq in seqs]
        batch.units = [Unit(seq=seq, hash=seq.to_bytes(16, "big"), item=seq) for seq in seqs]
        batch.outcomes = [outcome for seq in seqs for outcome in _outcomes(seq, rng, _BEGAN + SECONDS * seq / units)]
        ledger.commit(batch)
    last = Batch()
    last.samples = [
        Sample(_BEGAN + second, 1, 64, 60 + second % 5, units // SECONDS, 1, "endpoint", paused=False, lag_s=0.001)
        for second in range(SECONDS)
    ]
    last.meta = {
        "reading": {"done": True}, "ending": {"reason": None, "exit_code": 0, "finished": True}, "job": "bench",
        "fingerprint": [{"path": "in.jsonl", "size": 1, "mtime_ns": 1, "chunks": []}],
    }  # fmt: skip
    ledger.commit(last)
    ledger.close()


def _outcomes(seq: int, rng: random.Random, at: float) -> list[Outcome]:
    seconds = rng.lognormvariate(0.0, 0.5)
    sends = []
    if rng.random() < 0.02:
        refused = Attempt(seq, 0, at, 0.1, 1, 1, Kind.OVERLOADED, status=503, message="busy")
        sends.append(Outcome(seq, State.LEASED, refused, age_s=0.1))
    if rng.random() < 0.01:
        refused = Attempt(seq, 0, at, 0.1, 1, 1, Kind.BAD_REQUEST, status=400, message="no")
        return [*sends, Outcome(seq, State.FAILED, refused, error="bad_request: no", age_s=0.1)]
    label = rng.choice(LABELS)
    usage = Usage(rng.randrange(50, 900), 6, 32)
    reply = Reply(f'{{"label": "{label}"}}', "stop", usage=usage, model="m")
    answered = Attempt(seq, 0, at, seconds, 1, 1, status=200, reply=reply, usage=usage)
    return [*sends, Outcome(seq, State.DONE, answered, Answer(f'"{label}"'), spent=1, age_s=seconds)]


def measure(units: int = UNITS, compared: int = COMPARED) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = folder / ".headrace" / "runs"
        large, a, b = (runs / f"20260101-00000{n}-aaaa" for n in range(3))
        write_ledger(large, units, 0)
        write_ledger(a, compared, 0)
        write_ledger(b, compared, 1)
        page = run([*HEADRACE, "report", str(large), "--to", "page.html"], folder)
        size_mb = (folder / "page.html").stat().st_size / 1e6
        both = run([*HEADRACE, "compare", str(a), str(b), "--json"], folder)
    return [
        at_most(f"report of a run of {units:,} units", page.wall_s, REPORT_S, "s"),
        at_most("report: peak memory", page.peak_mb, REPORT_MB, "MB", 0),
        at_most("report: the page", size_mb, PAGE_MB, "MB", 2),
        at_most(f"compare of two runs of {compared:,} units", both.wall_s, COMPARE_S, "s"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="What a page and a comparison cost.")
    parser.add_argument("--units", type=int, default=UNITS)
    units = parser.parse_args().units
    return print_table(measure(units, min(COMPARED, units)))


if __name__ == "__main__":
    raise SystemExit(main())
