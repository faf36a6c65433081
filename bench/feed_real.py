"""`concurrency = "auto"` against the best fixed number, and `order = "auto"` against the input's, on real servers.

`python -m bench.feed_real SERVER… [--units 300] [--pairs 5] [--prefix-units 300]`. SERVER is llama.cpp, vllm or sglang, installed
by `make test-servers` under .venvs. The best fixed number is the one with the best median of three in a sweep; then pairs of runs
take turns, and the ratio of their medians counts: what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.drive_servers import DATA, SERVERS, Workshop

from bench.figures import Figure, at_least, print_table, shown
from bench.processes import ROOT, MeasurementError, run

SWEEP = (1, 2, 4, 8, 16, 32)
PREFIXES = 20
SHOTS = 6
JOB = """\
name = "real"
[input]
path = "records.jsonl"
id = "name"
[prompt]
user = "{{ text }}"
[model]
name = "local"
temperature = 0
max_tokens = 8
[endpoint]
url = "%(url)s"
concurrency = %(concurrency)s
[output]
path = "answers.jsonl"
[limits]
order = "%(order)s"
"""


@contextmanager
def serving(workshop: Workshop, server: str) -> Iterator[str]:
    """The server in a process group of its own; yields its address once it is well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [word.replace("{port}", str(port)) for word in workshop.command(server)]
    with (workshop.folder / f"{server}.bench.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_well(port, process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_well(port: int, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(800):
        if process.poll() is not None:
            raise MeasurementError(f"the server ended with {process.returncode}")
        try:
            with opener.open(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise MeasurementError("the server did not become well")


def texts(count: int) -> list[str]:
    with DATA.open(encoding="utf-8") as file:
        found = [json.loads(line)["text"][:120] for line in file]
    return [found[n % len(found)] for n in range(count)]


def with_shared_heads(count: int) -> list[str]:
    """Texts behind one of twenty heads of a few examples each, shuffled."""
    rng = random.Random(7)
    shots = texts(PREFIXES * SHOTS)
    heads = ["\n\n".join(shots[n * SHOTS : (n + 1) * SHOTS]) for n in range(PREFIXES)]
    found = [f"{heads[n % PREFIXES]}\n\n{text[:60]} {n}" for n, text in enumerate(texts(count))]
    rng.shuffle(found)
    return found


def ran(url: str, prompts: Sequence[str], salt: int, concurrency: int | str, order: str = "input") -> tuple[float, float]:
    """(units a second, share of prompt tokens from the cache) of one run. `salt` makes its prompts new to the server's cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [json.dumps({"name": str(n), "text": f"{salt}. {text}"}) + "\n" for n, text in enumerate(prompts)]
        (folder / "records.jsonl").write_text("".join(rows), encoding="utf-8")
        values = {"url": url, "concurrency": json.dumps(concurrency), "order": order}
        (folder / "job.toml").write_text(JOB % values, encoding="utf-8")
        run([sys.executable, "-m", "headrace", "run", str(folder / "job.toml"), "--quiet"], folder, allowed=(0, 3))
        shown_status = subprocess.run(
            [sys.executable, "-m", "headrace", "status", "--json"], cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        status: dict[str, Any] = json.loads(shown_status.stdout)
        spans = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
        if len(spans) != len(prompts):
            raise MeasurementError(f"{len(spans)} of {len(prompts)} records came out")
        return status["rate"]["items_per_minute"] / 60, status["tokens"]["cached"] / max(1, status["tokens"]["prompt"])


def windows(url: str, server: str, units: int, pairs: int) -> list[Figure]:
    prompts, salt = texts(units), 0
    ran(url, prompts[:20], -1, 4)  # the first requests of a server are its slowest
    swept: dict[int, list[float]] = {}
    for _ in range(3):
        for fixed in SWEEP:
            salt += 1
            swept.setdefault(fixed, []).append(ran(url, prompts, salt, fixed)[0])
    best = max(SWEEP, key=lambda fixed: statistics.median(swept[fixed]))
    print(f"{server}: " + ", ".join(f"{fixed}: {statistics.median(found):.2f}/s" for fixed, found in swept.items()), flush=True)
    auto, held = [], []
    for _ in range(pairs):
        salt += 2
        auto.append(ran(url, prompts, salt, "auto")[0])
        held.append(ran(url, prompts, salt + 1, best)[0])
    ratio = statistics.median(auto) / statistics.median(held)
    spread = ", ".join(f"{a / h:.2f}" for a, h in zip(auto, held, strict=True))
    return [
        shown(f"{server}: fixed {best}, the best of the sweep", statistics.median(held), "units/s", 2),
        at_least(f"{server}: auto against it ({spread})", ratio, 0.95, digits=3),
    ]


def orders(url: str, server: str, units: int, pairs: int) -> list[Figure]:
    prompts = with_shared_heads(units)
    by_order: dict[str, list[tuple[float, float]]] = {"auto": [], "input": []}
    for n in range(pairs):
        for place, (order, found) in enumerate(by_order.items()):
            found.append(ran(url, prompts, 1000 + 2 * n + place, "auto", order))
    pace = {order: statistics.median(units for units, _ in found) for order, found in by_order.items()}
    cached = {order: statistics.median(share for _, share in found) for order, found in by_order.items()}
    return [
        shown(f"{server}: order = input, prompt tokens from the cache", 100 * cached["input"], "%", 0),
        shown(f"{server}: order = auto, prompt tokens from the cache", 100 * cached["auto"], "%", 0),
        at_least(f"{server}: order = auto against input, {PREFIXES} shared heads", pace["auto"] / pace["input"], 1.2, digits=2),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.feed_real", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", nargs="+", choices=SERVERS, metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--prefix-units", type=int, default=300)
    parser.add_argument("--prefix-pairs", type=int, default=3)
    options = parser.parse_args()
    workshop = Workshop(ROOT / ".venvs")
    figures: list[Figure] = []
    for server in options.servers:
        with serving(workshop, server) as url:
            if options.units:
                figures += windows(url, server, options.units, options.pairs)
            if options.prefix_units:
                figures += orders(url, server, options.prefix_units, options.prefix_pairs)
    return print_table(figures)


if __name__ == "__main__":
    raise SystemExit(main())
