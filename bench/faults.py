"""What lone 503s cost in throughput: one request in ten is refused once. `python -m bench.faults [--records N]`.

The server answers after 40 ms and refuses at once, so that a refusal takes no slot's time. The rate is of units, from the
first POST to the last, as the server saw them. Both runs take turns; the best ratio of three counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from bench.figures import Figure, at_least, print_table, shown
from bench.jobs import write_job, write_records
from bench.processes import MeasurementError, headrace, instant_server, run

RECORDS = 40_000
RECORD_BYTES = 1000
LATENCY_MS = 40
ONE_IN = 10
SHARE = 0.95
ROUNDS = 3


def units_a_second(folder: Path, count: int, *options: str) -> float:
    work = folder / "faults"
    work.mkdir()
    write_records(work / "records.jsonl", count, RECORD_BYTES)
    with instant_server("--latency-ms", str(LATENCY_MS), *options) as server:
        run(headrace(write_job(work, server.url)), work)
        seen = server.stats()
    shutil.rmtree(work)
    if seen["requests"] != count + seen["refused"]:
        raise MeasurementError(f"{count} records and {seen['refused']} refusals became {seen['requests']} requests")
    return count / float(seen["last"] - seen["first"])


def measure(records: int = RECORDS, rounds: int = ROUNDS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [
            (units_a_second(folder, records), units_a_second(folder, records, "--fail-once", str(ONE_IN))) for _ in range(rounds)
        ]
    calm, faulty = max(pairs, key=lambda pair: pair[1] / pair[0])
    return [
        shown("faults: units a second without", calm, "/s", 0),
        at_least(f"faults: share of it with a 503 for one in {ONE_IN}", faulty / calm, SHARE, "", 3),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Throughput with lone 503s.")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    return print_table(measure(options.records, options.rounds))


if __name__ == "__main__":
    raise SystemExit(main())
