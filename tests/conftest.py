"""What every test stands on: only loopback is reached, the environment is left as found, and a mill to run jobs in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

from headrace.endpoints.aiohttp import AiohttpTransport
from headrace.endpoints.plain import PlainTransport
from headrace.endpoints.pyreqwest import PyreqwestTransport
from headrace.events import Event
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import RunOptions, RunResult, execute
from headrace.testing.sim import Rule, SimOptions, SimServer

COMMAND = Path(sys.executable).with_name("headrace")
# A busy machine is no reason to fail: what is tried has no time of its own. `make soak` tries more examples of each property.
settings.register_profile(
    "headrace",
    deadline=None,
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headrace")
PATIENCE_S = 120.0  # far more than anything here takes, so that only what hangs is cut

# -- only loopback


class OutsideError(BaseException):
    """A test reached for something that is not this machine. No handler of the program's own takes it for a failure."""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith((".localhost", ".invalid")):  # names that resolve to here, or never
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_outside(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto"):
        return
    address = arguments[1]
    if isinstance(address, tuple) and not _is_loopback(str(address[0])):
        raise OutsideError(f"a test reaches for {address[0]}; only loopback is allowed")


sys.addaudithook(_refuse_outside)


@pytest.fixture(autouse=True, scope="session")
def _transports_reach_only_loopback() -> Iterator[None]:
    """The Rust client and uvloop open sockets that no audit hook sees: their one verb is guarded instead."""
    with pytest.MonkeyPatch.context() as patch:
        for transport in (PlainTransport, PyreqwestTransport, AiohttpTransport):
            patch.setattr(transport, "request", _guarded(transport.request))
        yield


def _guarded(request: Callable[..., Any]) -> Callable[..., Any]:
    async def guarded(self: Any, method: str, url: str, *more: Any) -> Any:
        host = urlsplit(url).hostname or ""
        if not _is_loopback(host):
            raise OutsideError(f"a test sends to {host}; only loopback is allowed")
        return await request(self, method, url, *more)

    return guarded


@pytest.fixture(autouse=True)
def _environment_is_left_as_found() -> Iterator[None]:
    before = {**os.environ}
    yield
    after = {**os.environ}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    changed -= {"PYTEST_CURRENT_TEST"}
    for name in changed:  # the next test is not to suffer
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    assert not changed, f"the test left the environment changed: {', '.join(sorted(changed))}"


@pytest.fixture
def linear() -> Iterator[None]:
    """Fails a test that has used a minute of the processor itself, however busy the machine is with other things.

    For work on texts so long that in proportion to their length it takes a second, and to its square hours.
    """

    def give_up(_number: int, _frame: object) -> None:
        raise AssertionError("a minute of work: it does not grow in proportion to the text")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60.0)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, before)


# -- a mill: a folder with an input, a job and the means to run it


class Told(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Stdout as the one JSON document that it must be."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Rehearsed(NamedTuple):
    """A job that was run in this process against a server in the same loop: how it ended, and what the server counted."""

    result: RunResult
    seen: dict[str, Any]
    events: list[Event]

    @property
    def items(self) -> dict[str, int]:
        """The items' statuses that occur."""
        return {name: count for name, count in self.result.status["items"].items() if count and name != "total"}


class Sim:
    """`headrace sim` as a process of its own."""

    def __init__(self, folder: Path, options: Sequence[str], port: int, env: dict[str, str]) -> None:
        command = [str(COMMAND), "sim", "--port", str(port), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=env)
        assert self.process.stdout is not None
        word, _, self.url = self.process.stdout.readline().strip().partition(" ")
        assert word == "READY"
        self.port = int(self.url.removesuffix("/v1").rpartition(":")[2])

    def stats(self, *, prompts: bool = False) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url[:-3]}/stats{'?prompts=1' if prompts else ''}", timeout=PATIENCE_S) as reply:
            value: dict[str, Any] = json.load(reply)
            return value

    def reset(self) -> None:
        request = urllib.request.Request(f"{self.url[:-3]}/stats/reset", data=b"", method="POST")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Mill:
    """A folder with an input, a job file and an output, and the ways to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = COMMAND
        self.state = folder / "state"
        self.env = {**os.environ, "XDG_STATE_HOME": str(self.state), "NO_COLOR": "1"}
        self.output = folder / "out.jsonl"

    # -- what lies in it

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def put_rows(self, rows: Sequence[Any], name: str = "in.jsonl") -> Path:
        return self.write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def put_texts(self, count: int, name: str = "in.jsonl") -> Path:
        """`count` records of an id and a text, all different."""
        return self.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(count)], name)

    def put_job(self, url: str, *more_urls: str, name: str = "job.toml", **sections: dict[str, Any]) -> Path:
        """A job file of the smallest job, with keys put in by section; a key that is None is left out."""
        tables: dict[str, dict[str, Any]] = {
            "input": {"path": "in.jsonl"},
            "prompt": {"user": "{{ text }}"},
            "model": {"name": "m"},
            "endpoint": {"url": url},
            "output": {"path": self.output.name},
        }
        for section, keys in sections.items():
            tables[section] = {**tables.get(section, {}), **keys}
        lines = []
        for section, keys in tables.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
        text = "\n".join(lines) + "\n"
        if more_urls:
            text = text.replace("[endpoint]", "[[endpoint]]")
            text += "".join(f"[[endpoint]]\nurl = {_toml(more)}\n" for more in more_urls)
        return self.write(name, text)

    def rows(self, path: Path | None = None) -> list[dict[str, Any]]:
        """The output's records, framed by the newline alone."""
        content = (path or self.output).read_bytes()
        assert content.endswith(b"\n") or not content
        return [json.loads(line) for line in content.split(b"\n")[:-1]]

    def answers(self, path: Path | None = None) -> list[Any]:
        return [row["answer"] for row in self.rows(path)]

    def statuses(self, path: Path | None = None) -> list[str]:
        return [row["answer_status"] for row in self.rows(path)]

    @property
    def runs(self) -> list[Path]:
        """The job's run folders, oldest first."""
        root = self.folder / ".headrace" / "runs"
        return sorted(root.iterdir()) if root.exists() else []

    # -- the installed command

    def start(self, *arguments: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        command = [str(COMMAND), *arguments]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogateescape",
            cwd=self.folder, env={**self.env, **(env or {})}, **more,
        )  # fmt: skip

    def told(self, process: subprocess.Popen[str]) -> Told:
        with process:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        assert "Traceback" not in err, err
        return Told(process.returncode, out, err)

    def command(self, *arguments: str, env: dict[str, str] | None = None, **more: Any) -> Told:
        """One command, to its end. It never ends with a traceback."""
        return self.told(self.start(*arguments, env=env, **more))

    def run(self, *arguments: str, env: dict[str, str] | None = None, **more: Any) -> Told:
        """`headrace run job.toml --json`."""
        return self.command("run", "job.toml", "--json", *arguments, env=env, **more)

    def status(self, *arguments: str) -> dict[str, Any]:
        told = self.command("status", *arguments, "--json")
        assert told.code == 0, told.err
        return told.document

    def sim(self, *options: str, script: Sequence[dict[str, Any]] = (), port: int = 0) -> Sim:
        if script:
            path = self.write("script.jsonl", "".join(json.dumps(rule) + "\n" for rule in script))
            options = (*options, "--script", str(path))
        return Sim(self.folder, options, port, self.env)

    # -- in this process

    def rehearse(
        self, *rules: Rule, options: RunOptions | None = None, overrides: Sequence[str] = (), job: str = "job.toml", **laws: Any
    ) -> Rehearsed:
        """Run the job against a server in this process that obeys the laws and the rules. The job's url is overridden."""

        async def rehearsing() -> Rehearsed:
            events: list[Event] = []
            async with SimServer(SimOptions(script=rules, **laws)) as sim:
                loaded = load_job(self.folder / job, [f"endpoint.url={sim.url}", *overrides])
                result = await execute(loaded, options, [events.append])
                return Rehearsed(result, sim.stats.document(), events)

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.state))
            return asyncio.run(rehearsing())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


@pytest.fixture
def mill(tmp_path: Path) -> Mill:
    return Mill(tmp_path)


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Ask until the answer is true, and return it; a test that waits in vain fails."""
    import time

    def ask(question: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionError):
                answer = question()
                if answer:
                    return answer
            time.sleep(0.01)
        raise AssertionError("waited in vain")

    return ask
