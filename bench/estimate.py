"""How near `headrace estimate` comes: prompt tokens of 1,000 texts after 100 answers of a real llama.cpp, against its own count.

`python -m bench.estimate`. Needs the embedded model (`make weights`). A ratio, so that a busy machine spoils nothing; then
what a record costs, for what it is worth.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zstandard

from bench.figures import Figure, at_most, print_table, shown
from bench.processes import ROOT, MeasurementError
from headrace.local.weights import find_weights
from headrace.runs.estimate import estimate
from headrace.runs.exact import counter_of
from headrace.runs.jobfile import load_job

RECORDS = 1000
ANSWERED = 100
BAR = 3.0  # percent
EXAMPLE = ROOT / "examples" / "ten-thousand"


def measure(records: int = RECORDS) -> list[Figure]:
    weights = find_weights(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        job = _job(Path(folder), records)
        before = estimate(load_job(job))
        command = [sys.executable, "-m", "headrace", "run", str(job), "--quiet"]
        # One token each: what the prompts take is in the answer's usage all the same.
        ended = subprocess.run([*command, "--set", f"input.limit={ANSWERED}", "--set", "model.max_tokens=1"], check=False)
        if ended.returncode not in {0, 3}:
            raise MeasurementError(f"the run of {ANSWERED} ended with {ended.returncode}")
        began = time.process_time()
        after = estimate(load_job(job))
        took = time.process_time() - began
        with counter_of(str(weights.path)) as counter:
            real = estimate(load_job(job), counter=counter)
    count = real.prompt.expected
    off = 100 * (after.prompt.expected / count - 1)
    inside = after.prompt.low <= count <= after.prompt.high
    return [
        shown(f"prompt tokens of {records:,} records, counted by llama.cpp", count, "tokens", 0),
        shown("off before any answer", 100 * (before.prompt.expected / count - 1), "%"),
        at_most(f"off after {ANSWERED} answers (estimated: {after.prompt.expected:,.0f})", abs(off), BAR, "%", 2),
        Figure("within the interval", f"{after.prompt.low:,.0f} to {after.prompt.high:,.0f}", "holds the count", inside),
        shown("processor time a record, with what earlier answers teach", 1e6 * took / records, "µs"),
    ]


def _job(folder: Path, records: int) -> Path:
    """The example's job over its first records."""
    with (EXAMPLE / "packages.jsonl.zst").open("rb") as packed:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(packed), encoding="utf-8")
        texts = [line for line, _ in zip(lines, range(records), strict=False)]
    assert all(json.loads(line)["text"] for line in texts)
    (folder / "packages.jsonl").write_text("".join(texts), encoding="utf-8")
    job = folder / "job.toml"
    job.write_text(
        (EXAMPLE / "job.toml").read_text(encoding="utf-8").replace("packages.jsonl.zst", "packages.jsonl"), encoding="utf-8"
    )
    return job


if __name__ == "__main__":
    raise SystemExit(print_table(measure()))
