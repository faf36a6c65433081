"""`python -m soak`: lives of a run by the thousand. With --mutants: whether each of the faults put in is noticed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from soak.faults import ENGINE
from soak.mutations import Mutation, install
from soak.reverts import CASES, Revert
from soak.sites import awaits
from soak.trials import ROOT, notices, passing

if TYPE_CHECKING:
    from soak.lives import Sites

CHUNK = 50
FOUND_WITHIN = 500  # seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--flood-gb", type=float, default=5.0, help="so much of answers onto a slow disk; 0: none")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, metavar="SEED", help="live one life in this process, with its traceback")
    parser.add_argument("--mutants", action="store_true", help="try the faults that lives and tests must notice")
    parser.add_argument("--fault", metavar="NAME", help="live with this fault put in")
    parser.add_argument("--case", metavar="ID", help="undo the fix of this case and run its test")
    options = parser.parse_args()
    if options.case is not None:
        return tried_case(next(revert for revert in CASES if revert.case == options.case))
    if options.mutants:
        return mutants(options.workers)
    if options.fault is not None:
        install(next(fault for fault in ENGINE if fault.name == options.fault))
    if options.replay is not None:
        from soak.chunks import whole_life  # noqa: PLC0415 - after the fault is in

        whole_life(options.replay)
        print(f"seed {options.replay}: every promise held")
        return 0
    if options.fault is not None:
        return first_failure(options.first, options.seeds)
    broken = soak(options.first, options.seeds, options.workers)
    return max(broken, flooded(options.flood_gb) if options.flood_gb else 0)


def soak(first: int, count: int, workers: int) -> int:
    """Live `count` lives and print what was broken, and where no crash has fallen."""
    from soak.chunks import Sites, chunk  # noqa: PLC0415 - not before a fault may be put in

    began = time.monotonic()
    sites, failures = Sites(), []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        starts = range(first, first + count, CHUNK)
        for found, met in pool.map(chunk, starts, [min(CHUNK, first + count - start) for start in starts]):
            failures += found
            sites.awaits |= met.awaits
            sites.statements |= met.statements
            sites.seen_statements |= met.seen_statements
    for seed, what in failures:
        print(f"seed {seed}: {what}\n    python -m soak --replay {seed}")
    print(f"{count:,} lives, {len(failures)} violations, {time.monotonic() - began:.0f} s")
    _print_missed(sites)
    return 1 if failures else 0


def flooded(gigabytes: float) -> int:
    """In a process of its own, whose memory is its own."""
    from soak.flood import flood  # noqa: PLC0415 - not before a fault may be put in

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(flood, gigabytes).result()


def first_failure(first: int, count: int) -> int:
    """Live until a promise is broken; 1 if one was."""
    from soak.chunks import whole_life  # noqa: PLC0415 - after the fault is in

    for seed in range(first, first + count):
        try:
            whole_life(seed)
        except Exception as error:  # noqa: BLE001 - whatever it is, the fault was noticed
            print(f"noticed at seed {seed} ({seed - first + 1} lives): {type(error).__name__}: {str(error)[:150]}")
            return 1
    print(f"not noticed in {count} lives")
    return 0


def tried_case(revert: Revert) -> int:
    """One fix undone; 1 if its test does not notice."""
    wrong = passing([revert.test]).get(revert.test)
    noticed, line = notices(revert)
    print(f"{revert.case}: {f'without it: {wrong}' if wrong else 'passes'}; {revert.mutation.name}: {line}")
    return 0 if noticed and wrong is None else 1


def mutants(workers: int) -> int:
    """Each fault in a process of its own, and each fix undone in one; 1 if one of them is not noticed."""
    with ThreadPoolExecutor(workers) as pool:  # whose work is done by the processes that it starts
        whole = pool.submit(passing, [revert.test for revert in CASES])
        reverted = list(zip(CASES, pool.map(notices, CASES), strict=True))
        faults = list(zip(ENGINE, pool.map(_tried, ENGINE), strict=True))
    missed = 0
    for fault, (noticed, line) in faults:
        print(f"{'found ' if noticed else 'MISSED'}  {fault.name}: {line}")
        missed += not noticed
    for revert, (noticed, line) in reverted:
        wrong = whole.result().get(revert.test)
        noticed, line = (noticed, line) if wrong is None else (False, f"without it too: {wrong}")
        print(f"{'found ' if noticed else 'MISSED'}  {revert.case}, {revert.mutation.name}: {line}")
        missed += not noticed
    print(f"{len(ENGINE)} faults, {len(CASES)} fixes undone, {missed} missed")
    return 1 if missed else 0


def _tried(fault: Mutation) -> tuple[bool, str]:
    command = [sys.executable, "-m", "soak", "--fault", fault.name, "--seeds", str(FOUND_WITHIN)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (ran.stdout or ran.stderr).strip().splitlines()
    return ran.returncode == 1 and "noticed at" in ran.stdout, lines[-1] if lines else f"exit {ran.returncode}"


def _print_missed(sites: Sites) -> None:
    missed = [site.name for site in awaits() if not any(map(site.holds, sites.awaits))]
    print(f"awaits at which no crash has fallen: {', '.join(missed) or 'none'}")
    unhit = sorted(sites.seen_statements - sites.statements)
    print(f"statements at which no crash has fallen: {', '.join(unhit) or 'none'}")


__all__: Sequence[str] = ("main",)

if __name__ == "__main__":
    raise SystemExit(main())
