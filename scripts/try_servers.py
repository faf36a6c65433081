"""Runs `headrace run` against a real inference server as a user would, breaks things in the middle, and compares the counts.

    python scripts/try_servers.py SERVER --data texts.jsonl --work DIR [--only SCENARIO,...] -- COMMAND... --port {port}

SERVER is llama.cpp, vllm or sglang: it decides what is right where the three differ. COMMAND starts the server; `{port}` in it is
replaced, and the arguments that a scenario needs are put behind it. The data are records with `name` and `text`. A tap between
client and server counts the POSTs from the outside and keeps every reply that is no 200 in DIR/refusals.jsonl. Only loopback is
used. Ends with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server_tap import Tap, free_port

HEADRACE = Path(sys.executable).with_name("headrace")
CATEGORIES = ["database", "fonts", "games", "multimedia", "network", "programming", "science", "system"]
KEY, WRONG_KEY = "sk-right-f3a9c1d7", "sk-wrong-0b52e84d"
IN_FLIGHT = 8
_JOB = """\
name = "sort-packages"

[input]
path = "input.jsonl"
id = "name"

[slice]
truncate = "{truncate}"

[prompt]
system = "You sort Debian packages. The categories are: {categories}."
user = "{{{{ text }}}}"

[model]
name = "{model}"
temperature = 0
max_tokens = {max_tokens}

[endpoint]
url = "{url}"
concurrency = {in_flight}
{key}
[answer]
schema = "schema.json"
field = "category"

[output]
path = "labels.jsonl"

[limits]
{limits}
"""


@dataclass(frozen=True)
class Kind:
    """Where the servers differ."""

    queue: tuple[str, ...] | None = None  # arguments that make it refuse when full
    checks_model: bool = False
    needs_v1: bool = True
    refused_schema: dict[str, Any] | None = None


# Valid schemas that a server cannot turn into a grammar; vLLM and SGLang both use xgrammar.
_NEVER = {"type": "object", "properties": {"category": {"enum": CATEGORIES}, "other": False}, "required": ["category"]}
_LOOKAROUND = {"type": "object", "properties": {"category": {"type": "string", "pattern": "^(?<=x)a$"}}, "required": ["category"]}
KINDS = {
    "llama.cpp": Kind(needs_v1=False, refused_schema=_NEVER),
    "vllm": Kind(queue=("--max-num-queued-reqs", "4"), checks_model=True, refused_schema=_LOOKAROUND),
    "sglang": Kind(queue=("--max-queued-requests", "4"), refused_schema=_LOOKAROUND),
}


@dataclass
class Job:
    """One job folder: written, run, killed, asked for its status."""

    folder: Path
    url: str
    records: list[dict[str, str]]
    model: str = "local"
    truncate: str = "600 chars"
    max_tokens: int = 32
    in_flight: int = IN_FLIGHT
    with_key: bool = False
    limits: str = ""
    schema: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def write(self) -> Job:
        self.folder.mkdir(parents=True)
        (self.folder / "input.jsonl").write_text("".join(json.dumps(record) + "\n" for record in self.records))
        properties = {"category": {"enum": CATEGORIES}}
        plain = {"type": "object", "properties": properties, "required": ["category"], "additionalProperties": False}
        (self.folder / "schema.json").write_text(json.dumps(self.schema or plain))
        text = _JOB.format(
            url=self.url, model=self.model, truncate=self.truncate, max_tokens=self.max_tokens, in_flight=self.in_flight,
            limits=self.limits, categories=", ".join(CATEGORIES), key='api_key_env = "TRIED_KEY"\n' if self.with_key else "",
        )  # fmt: skip
        (self.folder / "job.toml").write_text(text)
        return self

    async def start(self, *options: str) -> asyncio.subprocess.Process:
        """`headrace run job.toml --json`, its words appended to said.txt."""
        with (self.folder / "said.txt").open("ab") as said:
            return await asyncio.create_subprocess_exec(
                HEADRACE, "run", "job.toml", "--json", *options, cwd=self.folder, env={**os.environ, **self.environment},
                stdout=asyncio.subprocess.PIPE, stderr=said,
            )  # fmt: skip

    async def run(self, *options: str) -> dict[str, Any]:
        """Run to the end; the last document, with the process's own exit code under `exited`."""
        process = await self.start(*options)
        stdout, _ = await process.communicate()
        return {**json.loads(stdout or b"{}"), "exited": process.returncode}

    async def status(self) -> dict[str, Any]:
        """The document of its only run; empty before there is one (`last` would be another job's)."""
        runs = list(self.folder.glob(".headrace/runs/*"))
        if not runs:
            return {}
        process = await asyncio.create_subprocess_exec(
            HEADRACE,
            "status",
            runs[0],
            "--json",
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        stdout, _ = await process.communicate()
        return json.loads(stdout) if process.returncode == 0 else {}

    async def until_answered(self, count: int) -> None:
        """Wait until so many items are answered, by the run's own status."""
        while answered(await self.status()) < count:  # noqa: ASYNC110 (another process is watched)
            await asyncio.sleep(0.3)

    def output(self) -> list[dict[str, Any]]:
        path = self.folder / "labels.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def said(self) -> str:
        return (self.folder / "said.txt").read_text()


def answered(status: Mapping[str, Any]) -> int:
    """Items whose answer came, acceptable or not: a small model, or one of random weights, rambles now and then."""
    items = status.get("items", {})
    return int(items.get("done", 0) + items.get("quarantined", 0))


class Server:
    """The server under trial, in its own process group so that its workers end with it."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self.port = free_port()
        self.arguments: tuple[str, ...] = ()

    async def start(self, *arguments: str) -> None:
        """Start, or start again with other arguments, and wait until /health answers."""
        if self._process is not None and self._process.returncode is None and arguments == self.arguments:
            return
        await self.end()
        self.arguments = arguments
        command = [word.replace("{port}", str(self.port)) for word in self._command] + list(arguments)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, start_new_session=True)
        began = time.monotonic()
        while not await self._is_healthy():
            if self._process.returncode is not None or time.monotonic() - began > 240:
                raise SystemExit(f"the server did not start: see {self._log}")
            await asyncio.sleep(0.3)

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        os.killpg(self._process.pid, how)
        await self._process.wait()

    async def _is_healthy(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b" 200 " in await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()


class Trial:
    """One server's trial: makes jobs, checks, and remembers what failed."""

    def __init__(self, kind: Kind, server: Server, tap: Tap, work: Path, records: list[dict[str, str]]) -> None:
        self.kind, self.server, self.tap, self.work, self.records = kind, server, tap, work, records
        self.failed: list[str] = []
        self.report: dict[str, dict[str, Any]] = {}
        self._scenario = ""

    def begin(self, name: str) -> None:
        self._scenario = name
        self.report[name] = {"checks": 0, "failed": 0, "seconds": 0.0}
        self.tap.reset(name)

    def job(self, count: int, **settings: Any) -> Job:
        url = settings.pop("url", f"http://127.0.0.1:{self.tap.port}/v1")
        records = settings.pop("records", self.records[:count])
        name = self._scenario + ("" if not (self.work / self._scenario).exists() else f"-{len(list(self.work.iterdir()))}")
        return Job(self.work / name, url, records, **settings).write()

    def check(self, what: str, ok: object, shown: object = "") -> None:
        print(f"  {'ok  ' if ok else 'FAIL'} {what}{f': {shown}' if shown != '' else ''}", flush=True)
        self.report[self._scenario]["checks"] += 1
        if not ok:
            self.report[self._scenario]["failed"] += 1
            self.failed.append(f"{self._scenario}: {what}: {shown}")

    def check_whole(self, job: Job, status: dict[str, Any], exits: Sequence[int] = (0, 3)) -> None:
        """What holds after every finished run: nothing lost, order kept, counts equal to the tap's."""
        items, output = status["items"], job.output()
        self.check("exit code", status["exited"] in exits, status["exited"])
        self.check("every record is in the output, in order", [r["name"] for r in output] == [r["name"] for r in job.records])
        by_status = Counter(record["answer_status"] for record in output)
        self.check("status counts what the output holds", all(items[s] == n for s, n in by_status.items()), dict(by_status))
        self.check("nothing is pending", items["pending"] == 0 and items["total"] == len(job.records), items)
        right = all((r["answer"] in CATEGORIES) if r["answer_status"] == "done" else r["answer"] is None for r in output)
        self.check("each answer is one of the categories, or null", right)
        self.check_sent(status)

    def check_sent(self, status: dict[str, Any]) -> None:
        sent, seen = status["requests"]["sent"], self.tap.posts
        self.check("requests.sent is what arrived", sent == seen, f"sent {sent}, arrived {seen}, {dict(self.tap.statuses)}")


Scenario = Callable[[Trial], Awaitable[None]]


async def plain(trial: Trial) -> None:
    """A whole run; a second command sends nothing."""
    job = trial.job(len(trial.records))
    began = time.monotonic()
    status = await job.run()
    trial.check_whole(job, status)
    print(f"       {len(job.records)} records in {time.monotonic() - began:.0f} s; {json.dumps(status['tokens'])}")
    trial.report["plain"]["items_per_minute"] = status["rate"]["items_per_minute"]
    trial.check("tokens are known", status["tokens"]["unknown_requests"] == 0 and status["tokens"]["prompt"] > 0)
    again = await job.run()
    trial.check(
        "a second command sends nothing", again["exited"] == status["exited"] and trial.tap.posts == status["requests"]["sent"]
    )


async def killed(trial: Trial) -> None:
    """kill -9 of headrace in the middle, then the same command."""
    count = len(trial.records) // 2
    job = trial.job(count)
    process = await job.start()
    await job.until_answered(3)
    process.kill()
    await process.communicate()
    dead = await job.status()
    trial.check("a dead run is interrupted, without exit code", (dead["state"], dead["exit_code"]) == ("interrupted", None))
    before = trial.tap.posts
    trial.check(
        "attempts and open leases cover what arrived", dead["requests"]["sent"] >= before, (dead["requests"]["sent"], before)
    )
    status = await job.run()
    items, output = status["items"], job.output()
    trial.check("the same command finishes it", status["exited"] in {0, 3} and answered(status) == count, items)
    trial.check("nothing is lost or twice", [r["name"] for r in output] == [r["name"] for r in job.records])
    repeats = trial.tap.posts - len(trial.tap.bodies)
    trial.check("sent again is at most what was in flight", repeats <= IN_FLIGHT + 2, f"{repeats} of {trial.tap.posts}")
    trial.check("no more arrived than is counted", trial.tap.posts <= status["requests"]["sent"], status["requests"])


async def interrupted(trial: Trial) -> None:
    """Ctrl-C drains; the same command goes on; nothing is sent twice."""
    count = max(len(trial.records) // 3, 3 * IN_FLIGHT)
    job = trial.job(count)
    process = await job.start()
    await job.until_answered(3)
    process.send_signal(signal.SIGINT)
    stdout, _ = await process.communicate()
    stopped = json.loads(stdout)
    trial.check("exit 130, interrupted", (process.returncode, stopped["state"]) == (130, "interrupted"))
    trial.check("what was in flight is kept", answered(stopped) == trial.tap.posts, (stopped["items"], trial.tap.posts))
    trial.check("a partial output stands there", (job.folder / "labels.partial.jsonl").exists())
    status = await job.run()
    trial.check_whole(job, status)
    trial.check("nothing was sent twice", trial.tap.posts == len(trial.tap.bodies))


async def key(trial: Trial) -> None:
    """A wrong key stops the run and leaves all pending; with the right one it goes on."""
    await trial.server.start("--api-key", KEY)
    job = trial.job(24, with_key=True, environment={"TRIED_KEY": WRONG_KEY})
    status = await job.run()
    trial.check("exit 4, auth", (status["exited"], status["reason"]) == (4, "auth"), status.get("message"))
    trial.check("all pending", status["items"]["pending"] == 24, status["items"])
    trial.check("at most one window was tried", trial.tap.posts <= IN_FLIGHT, trial.tap.posts)
    trial.check_sent(status)
    shown = job.said() + json.dumps(status)
    trial.check("no key is shown", WRONG_KEY not in shown and WRONG_KEY.encode() not in _stored(job))
    job.environment["TRIED_KEY"] = KEY
    trial.check_whole(job, await job.run())
    trial.check("no key is stored", KEY.encode() not in _stored(job))


async def model(trial: Trial) -> None:
    """A model name that the server does not know."""
    await trial.server.start()
    job = trial.job(24, model="no-such-model")
    status = await job.run()
    if not trial.kind.checks_model:
        trial.check_whole(job, status)
        return
    trial.check("exit 4, model_missing", (status["exited"], status["reason"]) == (4, "model_missing"), status.get("message"))
    trial.check("all pending", status["items"]["pending"] == 24, status["items"])
    trial.check_sent(status)


async def address(trial: Trial) -> None:
    """/v1 forgotten, then a port where nobody listens."""
    await trial.server.start()
    job = trial.job(24, url=f"http://127.0.0.1:{trial.tap.port}")
    status = await job.run()
    if trial.kind.needs_v1:
        trial.check("exit 4, bad_endpoint", (status["exited"], status["reason"]) == (4, "bad_endpoint"), status.get("message"))
        trial.check("all pending", status["items"]["pending"] == 24, status["items"])
        trial.check_sent(status)
    else:
        trial.check_whole(job, status)
    job = trial.job(24, url=f"http://127.0.0.1:{free_port()}/v1", limits='give_up_after = "6s"')
    began = time.monotonic()
    status = await job.run()
    took = time.monotonic() - began
    trial.check("exit 4, bad_endpoint", (status["exited"], status["reason"]) == (4, "bad_endpoint"), status.get("message"))
    trial.check("all pending, after the time given", status["items"]["pending"] == 24 and 5 < took < 15, f"{took:.1f} s")


async def long(trial: Trial) -> None:
    """Records longer than the context fail alone."""
    await trial.server.start()
    records = [dict(record) for record in trial.records[:24]]
    for number in (0, 1, 2, 11, 23):
        records[number]["text"] = f"{number} " + "a package of many words and few meanings " * 1000
    job = trial.job(24, records=records, truncate="1000000 chars")
    status = await job.run()
    trial.check_whole(job, status, (3,))
    errors = [record["answer_error"] for record in job.output() if record["answer_status"] == "failed"]
    trial.check(
        "five failed as context_too_long", [str(e).partition(":")[0] for e in errors] == ["context_too_long"] * 5, errors[:1]
    )
    trial.check("each was sent once", trial.tap.posts == 24, trial.tap.posts)


async def cut(trial: Trial) -> None:
    """max_tokens too small: truncated, never re-asked."""
    await trial.server.start()
    job = trial.job(16, max_tokens=2)
    status = await job.run()
    trial.check_whole(job, status, (3,))
    kinds = Counter(str(record["answer_error"]).partition(":")[0] for record in job.output())
    trial.check("all are truncated, each sent once", kinds == {"truncated": 16} and trial.tap.posts == 16, dict(kinds))


async def schema(trial: Trial) -> None:
    """A schema that the server refuses stops the run."""
    await trial.server.start()
    job = trial.job(24, schema=trial.kind.refused_schema)
    status = await job.run()
    trial.check("exit 4, schema_refused", (status["exited"], status["reason"]) == (4, "schema_refused"), status.get("message"))
    trial.check("all pending", status["items"]["pending"] == 24, status["items"])
    trial.check_sent(status)


async def restarted(trial: Trial) -> None:
    """The server dies under the run and comes back: the run waits and goes on."""
    await trial.server.start()
    arguments = trial.server.arguments
    count = len(trial.records) // 2
    job = trial.job(count, url=f"http://127.0.0.1:{trial.server.port}/v1")
    process = await job.start()
    await job.until_answered(count // 4)
    await trial.server.end()
    await asyncio.sleep(4)
    waiting = await job.status()
    trial.check("it waits", waiting["state"] == "running" and waiting["items"]["failed"] == 0, waiting["requests"])
    await trial.server.start(*arguments)
    stdout, _ = await process.communicate()
    status = {**json.loads(stdout), "exited": process.returncode}
    trial.check("all are answered", status["exited"] in {0, 3} and answered(status) == count, status["items"])
    trial.check("nothing is lost", [r["name"] for r in job.output()] == [r["name"] for r in job.records])
    requests = status["requests"]
    lost = requests["by_kind"].get("connection", 0)
    unknown = status["tokens"]["unknown_requests"]  # a connection that was refused sent nothing
    trial.check("each lost send is sent again", requests["sent"] == count + unknown and requests["retries"] == lost, requests)
    trial.check("the use of what was in flight is unknown", 0 < unknown <= IN_FLIGHT + 3, status["tokens"])


async def full(trial: Trial) -> None:
    """A queue that is full answers 503 without Retry-After: slower, nothing lost, no attempt spent."""
    if trial.kind.queue is None:
        print("       (it queues without bound)")
        return
    await trial.server.start(*trial.kind.queue)
    job = trial.job(min(200, len(trial.records)), in_flight=32)
    began = time.monotonic()
    status = await job.run()
    trial.check_whole(job, status)
    trial.check(
        "it did refuse, as overloaded",
        status["requests"]["by_kind"].get("overloaded") == trial.tap.statuses[503] > 0,
        status["requests"],
    )
    print(f"       {len(job.records)} records in {time.monotonic() - began:.0f} s; {json.dumps(status['concurrency'])}")


SCENARIOS: tuple[Scenario, ...] = (plain, killed, interrupted, model, address, long, cut, schema, restarted, full, key)


def _stored(job: Job) -> bytes:
    return b"".join(path.read_bytes() for path in job.folder.rglob("*") if path.is_file())


async def _played(trial: Trial, scenario: Scenario) -> None:
    """One scenario; one that breaks off is a check that failed, and the others are still played."""
    try:
        await scenario(trial)
    except Exception as error:  # noqa: BLE001 (what breaks off is counted and shown)
        trial.check("it came to its end", ok=False, shown=f"{type(error).__name__}: {error}")


def _report(path: str | None, trial: Trial) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(trial.report))


async def _try(options: argparse.Namespace, work: Path, records: list[dict[str, str]]) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # the server ends with its trial
    server = Server(options.command, work / "server.log")
    chosen = {scenario.__name__: scenario for scenario in SCENARIOS}
    names = options.only.split(",") if options.only else list(chosen)
    async with Tap(server.port, work / "refusals.jsonl") as tap:
        trial = Trial(KINDS[options.server], server, tap, work, records)
        try:
            await server.start()
            for name in names:
                print(f"{name}: {chosen[name].__doc__}", flush=True)
                trial.begin(name)
                began = time.monotonic()
                await _played(trial, chosen[name])
                trial.report[name]["seconds"] = round(time.monotonic() - began, 1)
        finally:
            await server.end()
            _report(options.report, trial)
    print("\n".join(["", f"{len(trial.failed)} checks failed", *trial.failed]))
    return 1 if trial.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("server", choices=sorted(KINDS))
    parser.add_argument("--data", required=True, help="JSON Lines with `name` and `text`")
    parser.add_argument("--work", required=True, help="a new folder")
    parser.add_argument("--records", type=int, default=300, help="how many records the whole runs take")
    parser.add_argument("--only", help="some scenarios, by name")
    parser.add_argument("--report", help="writes checks, failures and seconds of each scenario there, as JSON")
    parser.add_argument("command", nargs="+", help="starts the server; {port} is replaced")
    options = parser.parse_args()
    work = Path(options.work).resolve()
    work.mkdir(parents=True)
    with Path(options.data).open() as lines:
        records = [json.loads(line) for line in itertools.islice(lines, options.records)]
    try:
        return asyncio.run(_try(options, work, records))
    except asyncio.CancelledError:
        return 143


if __name__ == "__main__":
    sys.exit(main())
