"""The laws of `bench.feed` over HTTP: whole processes against `headrace sim`, a thousand units each, about half a minute.

`python -m bench.feed_http [--units N] [--without-peer] [LAW…]`. The oracle is the best fixed concurrency that `bench.feed` finds,
or the allowed rate. Beside it: the self-tuning window of the saturate package.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.client_cost import FOLDER, Peer, interpreter
from bench.figures import Figure, at_least, at_most, print_table, shown
from bench.processes import ROOT, MeasurementError, Server, run

UNITS = 1000
SATURATE = Peer("saturate", "saturate==0.2.0", (UNITS, UNITS))
TEXT = "a record that is to be read "
JOB = """\
name = "feed"
[input]
path = "records.jsonl"
id = "name"
[prompt]
user = "{{ text }}"
[model]
name = "m"
[output]
path = "answers.jsonl"
"""


class Law(NamedTuple):
    """One kind of endpoint, as options of `headrace sim`. `oracle`: the fixed concurrency that is best there, or None where
    `per_minute` units are allowed at most.
    """

    name: str
    options: str
    bar: float
    oracle: int | None = None
    per_minute: float | None = None
    refused_bar: float | None = None


LAWS = (
    Law("slots", "--slots 8 --prefill-ms-per-token 0.1 --decode-ms-per-token 2 --answer echo:400 --jitter 0.2", 0.97, oracle=8),
    Law("kv", "--kv-tokens 40000 --prefill-ms-per-token 0.05 --decode-ms-per-token 20 --answer echo:400", 0.93, oracle=72),
    Law(
        "refusals",
        "--max-in-flight 40 --overload-status 429 --latency-ms 300 --decode-ms-per-token 10 --answer echo:400 --jitter 0.5",
        0.93, oracle=40, refused_bar=0.01,
    ),
    Law(
        "capacity",
        "--slots 16 --prefill-ms-per-token 0.1 --decode-ms-per-token 4 --answer echo:400 --jitter 0.2 --capacity 10:0.5,20:1",
        0.93, oracle=16,
    ),
    Law("rpm", "--requests-per-minute 2000 --latency-ms 1000 --jitter 0.5 --answer echo:40", 0.98, per_minute=2000, refused_bar=0.005),
    Law(
        "tpm", "--tokens-per-minute 1000000 --latency-ms 1000 --jitter 0.5 --answer echo:400", 0.98, per_minute=1_000_000,
        refused_bar=0.005,
    ),
)  # fmt: skip


class Outcome(NamedTuple):
    """What one client did: units and tokens a second from its first request to its last answer, and the share refused."""

    units: float
    tokens: float
    refused: float


@contextmanager
def simulated(options: str) -> Iterator[Server]:
    """`headrace sim` as a process of its own."""
    command = [sys.executable, "-m", "headrace", "sim", *options.split()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            ready = child.stdout.readline().split()
            if ready[:1] != ["READY"]:
                raise MeasurementError("headrace sim did not start")
            yield Server(ready[1])
        finally:
            child.terminate()


def write_texts(path: Path, count: int) -> None:
    """Distinct from their first character on, with lognormal lengths."""
    rng = random.Random(7)
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            size = max(12, int(1600 * rng.lognormvariate(-0.125, 0.5)))
            file.write(json.dumps({"name": str(n), "text": (f"{n} " + TEXT * 200)[:size]}) + "\n")


def asked(servers: Sequence[Server], count: int) -> Outcome:
    """By the servers' own clocks and counts."""
    found = [server.stats() for server in servers]
    answered = sum(stats["by_status"].get("200", 0) for stats in found)
    if answered < count:
        raise MeasurementError(f"{answered} of {count} units were answered")
    seconds = max(stats["seconds"] for stats in found)
    requests = sum(stats["requests"] for stats in found)
    tokens = sum(stats["tokens"]["prompt"] + stats["tokens"]["completion"] for stats in found)
    refused = sum(stats["by_status"].get(status, 0) for stats in found for status in ("429", "503"))
    return Outcome(count / seconds, tokens / seconds, refused / requests)


def ours(servers: Sequence[Server], count: int, concurrency: int | str) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "records.jsonl", count)
        endpoints = "".join(f'[[endpoint]]\nurl = "{one.url}"\nconcurrency = {json.dumps(concurrency)}\n' for one in servers)
        (folder / "job.toml").write_text(JOB + endpoints, encoding="utf-8")
        run([sys.executable, "-m", "headrace", "run", str(folder / "job.toml"), "--quiet"], folder)
        return asked(servers, count)


def theirs(server: Server, count: int) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "records.jsonl", count)
        script = str(FOLDER / "peers" / "saturate.py")
        command = [str(interpreter(SATURATE)), "-P", script, server.url, str(count), "auto", str(folder / "records.jsonl")]
        run([*command, str(folder / "out")], folder)
        return asked([server], count)


def measured(law: Law, count: int, *, with_peer: bool) -> list[Figure]:
    """Each client has a server of its own: what one has seen says nothing to the next."""
    with simulated(law.options) as server:
        auto = ours([server], count, "auto")
    figures = []
    if law.oracle is not None:
        with simulated(law.options) as server:
            best = ours([server], count, law.oracle).units
        figures.append(shown(f"{law.name}: fixed {law.oracle}", best, "units/s", 2))
    else:
        best = (law.per_minute or 0.0) / 60
    reached = auto.tokens if law.name == "tpm" else auto.units
    figures.append(at_least(f"{law.name}: auto, share of it", reached / best, law.bar, digits=3))
    if law.refused_bar is not None:
        figures.append(at_most(f"{law.name}: auto, refused", 100 * auto.refused, 100 * law.refused_bar, "%", 2))
    if with_peer:
        with simulated(law.options) as server:
            peer = theirs(server, count)
        share = (peer.tokens if law.name == "tpm" else peer.units) / best
        figures.append(Figure(f"{law.name}: saturate", f"{share:.3f} (refused {100 * peer.refused:.1f} %)"))
    return figures


def several(count: int) -> list[Figure]:
    """Endpoints of speeds 1 : 3 : 9, against the sum of what they can do."""
    options = [f"--slots 4 --latency-ms {1440 / speed:g} --jitter 0.2 --answer echo:40" for speed in (1, 3, 9)]
    with ExitStack() as stack:
        servers = [stack.enter_context(simulated(one)) for one in options]
        together = ours(servers, count, "auto").units
    return [at_least("speeds 1 : 3 : 9: auto, share of their sum", together / (4 * 13 / 1.44), 0.96, digits=3)]


def main() -> int:
    names = [law.name for law in LAWS]
    parser = argparse.ArgumentParser(prog="python -m bench.feed_http", description="The laws of bench.feed over HTTP.")
    parser.add_argument("laws", nargs="*", metavar="LAW", help=f"{', '.join(names)}, several; all where none is named")
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--without-peer", action="store_true")
    options: Any = parser.parse_args()
    wanted = options.laws or [*names, "several"]
    figures: list[Figure] = []
    for law in LAWS:
        if law.name in wanted:
            print(f"-- {law.name}", flush=True)
            figures += measured(law, options.units, with_peer=not options.without_peer)
    if "several" in wanted:
        figures += several(options.units)
    return print_table(figures)


if __name__ == "__main__":
    raise SystemExit(main())
