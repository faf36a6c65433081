"""`make bench`: every figure, its bar and the verdict. `python -m bench [--quick]`; exits 1 when a bar is missed."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

from bench import client_cost, estimate, faults, memory, pages, quality, start
from bench.figures import Figure, print_table
from bench.processes import ROOT, MeasurementError

QUICK_UNITS = 200_000


def script(name: str, *arguments: str) -> list[Figure]:
    """A bench that prints for itself and says by its exit code whether its bars hold; a process of its own, for its memory."""
    ended = subprocess.run([sys.executable, "-m", f"bench.{name}", *arguments], cwd=ROOT, check=False)
    holds = ended.returncode == 0
    return [Figure(f"{name}: see above", "bars hold" if holds else "a bar is missed", "all of its own", holds)]


def parts(*, quick: bool) -> Sequence[tuple[str, Callable[[], list[Figure]]]]:
    if quick:
        return (
            ("client_cost", lambda: client_cost.measure(records=10_000, few=1000, rounds=2, share=0.5)),
            ("dedupe", lambda: script("dedupe", str(QUICK_UNITS))),
            ("ledger", lambda: script("ledger", str(QUICK_UNITS // 4))),
            ("start", lambda: start.measure(many=QUICK_UNITS, finished=QUICK_UNITS // 10)),
            ("faults", lambda: faults.measure(rounds=1)),
            ("memory", lambda: memory.measure(records=QUICK_UNITS // 2)),
            ("feed", lambda: script("feed", "--quick")),
            ("order", lambda: script("order", "--quick")),
            ("estimate", lambda: estimate.measure(records=300)),
            ("pages", lambda: pages.measure(QUICK_UNITS, QUICK_UNITS // 10)),
            ("quality", lambda: quality.measure(jobs=4)),
        )
    return (
        ("client_cost", client_cost.measure),
        ("dedupe", lambda: script("dedupe")),
        ("ledger", lambda: script("ledger")),
        ("start", start.measure),
        ("faults", faults.measure),
        ("memory", memory.measure),
        ("feed", lambda: script("feed")),
        ("order", lambda: script("order")),
        ("estimate", estimate.measure),
        ("pages", pages.measure),
        ("quality", quality.measure),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What headrace costs, against its bars.")
    parser.add_argument("--quick", action="store_true", help="a small version: minutes instead of half an hour")
    figures: list[Figure] = []
    for name, measure in parts(quick=parser.parse_args().quick):
        print(f"-- {name}", flush=True)
        try:
            figures += measure()
        except MeasurementError as error:
            print(error)
            figures.append(Figure(f"{name}: see above", "not measured", "", holds=False))
    print()
    return print_table(figures)


if __name__ == "__main__":
    raise SystemExit(main())
