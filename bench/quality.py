"""Do the intervals hold? Whole jobs whose true accuracy is known, reviewed by many samples. `python -m bench.quality [--jobs 20]`.

A simulated model answers from a table of the true categories with errors that are more frequent in some classes, drawn by seed; so each
sample's interval can be held against the truth. The texts are those of examples/ten-thousand.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
from collections import Counter
from pathlib import Path

import zstandard

from bench.feed_http import simulated
from bench.figures import Figure, at_least, at_most, print_table, shown
from bench.processes import ROOT, MeasurementError, headrace, run
from headrace.policy.sampling import Estimate, Stratum, simple, stratified
from headrace.quality.draw import Candidate, Sample, draw

EXAMPLE = ROOT / "examples" / "ten-thousand"
JOBS, RECORDS, SAMPLED = 20, 2000, 200
SAMPLES = 2000  # over all jobs
ERRORS = (0.02, 0.05, 0.08, 0.12, 0.2, 0.3)  # of the classes, by turns
LEAST, MOST = 93.5, 96.5
JOB = """\
name = "quality"
[input]
path = "records.jsonl"
id = "name"
[prompt]
user = "<{{ name }}> {{ text }}"
[model]
name = "sim"
[slice]
truncate = "200 chars"
[endpoint]
url = "%(url)s"
concurrency = 64
[answer]
labels = %(labels)s
[output]
path = "answers.jsonl"
"""


def lines(name: str) -> list[dict[str, str]]:
    with (EXAMPLE / name).open("rb") as file:
        text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8")
        return [json.loads(line) for line in text]


def answered(job: int, packages: list[dict[str, str]], categories: dict[str, str]) -> list[tuple[str, bool]]:
    """Each item's answer, and whether it is right, of one whole run."""
    rng = random.Random(job)
    chosen = rng.sample(packages, RECORDS)
    labels = sorted(set(categories.values()))
    errors = {label: ERRORS[(place + job) % len(ERRORS)] for place, label in enumerate(labels)}
    table = {}
    for package in chosen:
        true = categories[package["name"]]
        wrong = rng.random() < errors[true]
        table[f"<{package['name']}>"] = rng.choice([label for label in labels if label != true]) if wrong else true
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.json").write_text(json.dumps(table), encoding="utf-8")
        (folder / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in chosen), encoding="utf-8")
        with simulated(f"--port 0 --answer label --table {folder / 'table.json'}") as server:
            (folder / "job.toml").write_text(JOB % {"url": server.url, "labels": json.dumps(labels)}, encoding="utf-8")
            run(headrace(folder / "job.toml"), folder)
        rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    if len(rows) != RECORDS or any(row["answer_status"] != "done" for row in rows):
        raise MeasurementError("not all records were answered")
    return [(row["answer"], row["answer"] == categories[row["name"]]) for row in rows]


def estimate(sample: Sample, items: list[tuple[str, bool]]) -> Estimate:
    seen, good = Counter[str](), Counter[str]()
    for item in sample.items:
        seen[sample.strata[item]] += 1
        good[sample.strata[item]] += items[item][1]
    strata = [Stratum(size, seen[name], good[name]) for name, size in sample.sizes.items()]
    return simple(len(items), len(sample.items), sum(good.values())) if len(strata) == 1 else stratified(strata)


def measure(jobs: int = JOBS) -> list[Figure]:
    packages, categories = lines("packages.jsonl.zst"), {one["name"]: one["category"] for one in lines("categories.jsonl.zst")}
    covered, widths, count = Counter[str](), Counter[str](), 0
    for job in range(jobs):
        items = answered(job, packages, categories)
        truth = sum(right for _, right in items) / len(items)
        for seed in range(job * SAMPLES // jobs, (job + 1) * SAMPLES // jobs):
            count += 1
            for kind in ("simple", "stratified"):
                candidates = (Candidate(n, answer if kind == "stratified" else "") for n, (answer, _) in enumerate(items))
                low, high = estimate(draw(candidates, SAMPLED, seed), items).interval
                covered[kind] += low <= truth <= high
                widths[kind] += high - low  # type: ignore[assignment]
    return [
        figure
        for kind in ("simple", "stratified")
        for figure in (
            at_least(f"{kind}: intervals that hold the truth, of {count:,}", 100 * covered[kind] / count, LEAST, " %"),
            at_most(f"{kind}: the same, not too many", 100 * covered[kind] / count, MOST, "%"),
            shown(f"{kind}: mean width", 100 * widths[kind] / count, "points"),
        )
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Whether intervals of reviewed samples hold.")
    parser.add_argument("--jobs", type=int, default=JOBS)
    return print_table(measure(parser.parse_args().jobs))


if __name__ == "__main__":
    raise SystemExit(main())
