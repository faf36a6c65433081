"""What a unit costs the client in CPU, all in, beside two peers in the same run. `python -m bench.client_cost`.

All in: read, hash, render, send, parse, check the schema, store, write the output. Each client runs twice, over few records
and over more; the difference of the two is what the records cost, without the start. The least of several rounds counts,
and the rounds of the clients take turns, so that a busy minute of the machine meets them all.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure, at_least, at_most, print_table, shown
from bench.jobs import write_job, write_records
from bench.processes import MeasurementError, Server, headrace, instant_server, run

FOLDER = Path(__file__).resolve().parent
RECORD_BYTES = 2000
IN_FLIGHT = 64
MICROSECONDS = 60.0
QUIET_SKELETON = 1600.0  # above it the machine is not quiet, and the ratios decide
TIMES_SKELETON = 20.0
TIMES_FLEXLLM = 6.0


class Peer(NamedTuple):
    """Another client: a script of bench/peers, and what is installed for it."""

    name: str
    needs: str
    counts: tuple[int, int]


PEERS = (Peer("skeleton", "openai==3.57.0", (250, 1250)), Peer("flexllm", "flexllm==0.17.10", (500, 2500)))


def interpreter(peer: Peer) -> Path:
    """The peer's own virtual environment, made when it is not there yet."""
    environment = FOLDER / ".venvs" / peer.name
    python, ready = environment / "bin" / "python", environment / f"{peer.needs}.ready"
    if not ready.exists():
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", peer.needs]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        ready.touch()
    return python


def ours(server: Server, folder: Path, count: int) -> float:
    """CPU seconds of one run over `count` records, from nothing to the written output."""
    work = folder / f"headrace-{count}"
    work.mkdir()
    write_records(work / "records.jsonl", count, RECORD_BYTES)
    server.reset()
    ran = run(headrace(write_job(work, server.url, concurrency=IN_FLIGHT)), work)
    rows = (work / "answers.jsonl").read_bytes().count(b'"answer_status":"done"')
    asked = server.stats()["requests"]
    shutil.rmtree(work)
    if not rows == asked == count:
        raise MeasurementError(f"{count} records became {asked} requests and {rows} answers")
    return ran.cpu_s


def theirs(peer: Peer, server: Server, folder: Path, count: int) -> float:
    work = folder / f"{peer.name}-{count}"
    work.mkdir()
    write_records(work / "records.jsonl", count, RECORD_BYTES)
    server.reset()
    script = str(FOLDER / "peers" / f"{peer.name}.py")
    out = str(work / "out" / "answers.jsonl")
    (work / "out").mkdir()
    # -P: the script of a peer may bear the name of the package that it imports.
    command = [str(interpreter(peer)), "-P", script, server.url, str(count), str(IN_FLIGHT), str(work / "records.jsonl"), out]
    ran = run(command, work)
    asked = server.stats()["requests"]
    shutil.rmtree(work)
    if asked < count:
        raise MeasurementError(f"{peer.name} sent {asked} requests for {count} records")
    return ran.cpu_s


def a_unit(few: Sequence[float], many: Sequence[float], units: int) -> float:
    """CPU µs a unit: the least of each, and their difference."""
    return (min(many) - min(few)) / units * 1e6


def measure(records: int = 20_000, few: int = 2000, rounds: int = 3, share: float = 1.0) -> list[Figure]:
    """`share` makes the peers' runs smaller."""
    costs: dict[tuple[str, int], list[float]] = {}
    counts = {peer.name: tuple(max(50, round(count * share)) for count in peer.counts) for peer in PEERS}
    for peer in PEERS:
        interpreter(peer)
    with tempfile.TemporaryDirectory() as name, instant_server() as server:
        folder = Path(name)
        for _ in range(rounds):
            for count in (few, few + records):
                costs.setdefault(("headrace", count), []).append(ours(server, folder, count))
            for peer in PEERS:
                for count in counts[peer.name]:
                    costs.setdefault((peer.name, count), []).append(theirs(peer, server, folder, count))
    micros = a_unit(costs["headrace", few], costs["headrace", few + records], records)
    other = {peer: a_unit(costs[peer, least], costs[peer, most], most - least) for peer, (least, most) in counts.items()}
    return _figures(micros, min(costs["headrace", few]), other["skeleton"], other["flexllm"])


def _figures(micros: float, start_s: float, skeleton: float, flexllm: float) -> list[Figure]:
    bar = at_most("client: CPU a unit", micros, MICROSECONDS, "µs")
    if skeleton > QUIET_SKELETON:
        bar = bar._replace(bar=f"{bar.bar} when quiet", holds=None if not bar.holds else True)
    return [
        bar,
        shown("client: CPU of a short run", start_s, "s", 2),
        shown("skeleton (openai SDK in threads): CPU a unit", skeleton, "µs", 0),
        shown("flexllm: CPU a unit", flexllm, "µs", 0),
        at_least("skeleton / client", skeleton / micros, TIMES_SKELETON, "x"),
        at_least("flexllm / client", flexllm / micros, TIMES_FLEXLLM, "x"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU a unit, beside two peers.")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    return print_table(measure(options.records, max(options.records // 10, 100), options.rounds))


if __name__ == "__main__":
    raise SystemExit(main())
