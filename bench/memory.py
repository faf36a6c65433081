"""The client's peak memory does not grow with the input. `python -m bench.memory [--records N]`.

jsonl to jsonl over N records of 1 kB and over a tenth of them, and jsonl to Parquet; all against the instant server.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from bench.figures import Figure, at_most, print_table
from bench.jobs import write_job, write_records
from bench.processes import MeasurementError, Server, headrace, instant_server, run

RECORDS = 1_000_000
RECORD_BYTES = 1000
JSONL_MB = 150.0
PARQUET_MB = 250.0
GROWTH_PERCENT = 20.0


def peak_mb(server: Server, folder: Path, count: int, output: str) -> float:
    work = folder / f"{count}-{output}"
    work.mkdir()
    write_records(work / "records.jsonl", count, RECORD_BYTES)
    server.reset()
    ran = run(headrace(write_job(work, server.url, output=output)), work)
    asked, written = server.stats()["requests"], (work / output).stat().st_size
    shutil.rmtree(work)
    if asked != count or not written:
        raise MeasurementError(f"{count} records became {asked} requests and {written} bytes")
    return ran.peak_mb


def measure(records: int = RECORDS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, instant_server() as server:
        folder = Path(name)
        small = peak_mb(server, folder, records // 10, "answers.jsonl")
        large = peak_mb(server, folder, records, "answers.jsonl")
        parquet = peak_mb(server, folder, records, "answers.parquet")
    return [
        at_most(f"memory: peak at {records:,} records, jsonl", large, JSONL_MB, "MB", 0),
        at_most(f"memory: growth from {records // 10:,} to {records:,}", (large / small - 1) * 100, GROWTH_PERCENT, "%", 1),
        at_most(f"memory: peak at {records:,} records, parquet", parquet, PARQUET_MB, "MB", 0),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory by input size.")
    parser.add_argument("--records", type=int, default=RECORDS)
    return print_table(measure(parser.parse_args().records))


if __name__ == "__main__":
    raise SystemExit(main())
