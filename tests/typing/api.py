"""Never run: the type checker must accept how the public names are used, and refuse what there is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import headrace
from headrace.events import Event, Progress, Warned
from headrace.protocols import Batch, Clock, Endpoint, Judge, Ledger, Observer
from headrace.testing import (
    NEVER,
    Deadlock,
    FakeEndpoint,
    Laws,
    RunawayError,
    ThreadRefusedError,
    VirtualLoop,
    by_unit,
    fails_first,
    run_virtual,
)
from headrace.testing.memory_ledger import MemoryLedger
from headrace.testing.sim import Rule, SimOptions, SimServer
from headrace.values import Answer, Failure, Kind, Reply, Request


def observer(event: Event) -> None:
    if isinstance(event, Progress):
        assert_type(event.done, int)
    elif isinstance(event, Warned):
        assert_type(event.message, str)


def any_observer(event: object) -> None: ...


def sync(path: Path) -> None:
    result = headrace.run(path)
    assert_type(result, headrace.Result)
    assert_type(result.run, str)
    assert_type(result.exit_code, int)
    assert_type(result.reason, str | None)
    assert_type(result.message, str | None)
    assert_type(result.path, Path | None)
    assert_type(result.folder, Path)
    assert_type(result.status, dict[str, Any])
    assert_type(iter(result), Iterator[dict[str, Any]])
    for record in result:
        print(record["answer_status"])
    assert_type(result.to_polars(), Any)
    assert_type(result.to_pandas(), Any)
    headrace.run("job.toml", new=True, reuse="last", overrides=["model.temperature=0"], run_dir="runs", observers=[observer])
    headrace.run({"input": {"path": "x.jsonl"}})
    headrace.run("job.toml", fresh=True)  # type: ignore[call-arg]  # a keyword that there is not
    headrace.run("job.toml", True)  # type: ignore[call-arg]  # whether it is new is said by name
    headrace.run(b"job.toml")  # type: ignore[arg-type]  # a path is text
    headrace.map([{"text": "x"}], prompt="{{ text }}")  # type: ignore[attr-defined]  # not served yet
    assert_type(headrace.__version__, str)


def jobs(path: Path) -> None:
    job = headrace.Job(
        base=path, name="sort", input={"path": "x.jsonl"}, prompt={"user": "{{ text }}"}, model={"name": "m"},
        endpoint=[{"url": "http://127.0.0.1:9/v1"}], answer={"labels": ["a", "b"]}, output={"path": "out.jsonl"}, limits={},
    )  # fmt: skip
    headrace.run(job)
    headrace.Job(endpoint={"url": "local"})
    headrace.Job(inputs={"path": "x.jsonl"})  # type: ignore[call-arg]  # a section that there is not
    headrace.Job(name=3)  # type: ignore[arg-type]  # a name is text
    headrace.Job("job.toml")  # type: ignore[call-arg]  # a file is run as it is


async def inside_a_loop() -> None:
    watching: Observer = observer
    result = await headrace.arun("job.toml", observers=[watching, any_observer], run_dir=Path("runs"))
    assert_type(result, headrace.Result)
    print(headrace.arun("job.toml").run)  # type: ignore[attr-defined]  # it is to be awaited


def errors() -> None:
    try:
        headrace.run("job.toml")
    except headrace.SpecError as error:
        assert_type(error.key, str | None)
        assert_type(error.found, str | None)
        assert_type(error.allowed, str | None)
    except (headrace.InputError, headrace.LedgerError) as error:
        assert_type(error.exit_code, int)
    except headrace.HeadraceError as error:
        assert_type(error.exit_code, int)


def script(request: Request, nth: int) -> Reply | Failure | None:
    return Failure(Kind.OVERLOADED, "busy", status=503) if request.unit == nth else None


def doubles() -> None:
    endpoint = FakeEndpoint(Laws(latency_ms=20, slots=4), script=script, outages=[(0.0, NEVER, Failure(Kind.TIMEOUT, "late"))])
    as_endpoint: Endpoint = endpoint
    ledger: Ledger = MemoryLedger()
    ledger.prepare(Batch())
    assert_type(endpoint.requests_seen, int)
    assert_type(as_endpoint.identity, str)
    FakeEndpoint(script=by_unit({0: [None, Reply("text")]}))
    FakeEndpoint(script=fails_first(2, Failure(Kind.SERVER_ERROR, "boom")))
    FakeEndpoint(laws=Laws(latency="20ms"))  # type: ignore[call-arg]  # a law that there is not


def virtual_time() -> None:
    async def later() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    try:
        assert_type(run_virtual(later(), seed=1), float)
    except (Deadlock, RunawayError, ThreadRefusedError) as error:
        print(error)
    assert_type(VirtualLoop().time(), float)


async def simulated() -> None:
    async with SimServer(SimOptions(script=(Rule(match="x", status=429),), latency_ms=5)) as sim:
        assert_type(sim.url, str)


class Accepting:
    """Whoever has the methods of a protocol satisfies it."""

    def judge(self, reply: Reply) -> Answer | Failure:
        return Answer() if reply.content else Failure(Kind.EMPTY, "empty")

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:
        return payload


class Standing:
    def now(self) -> float:
        return 0.0


judge: Judge = Accepting()
clock: Clock = Standing()
no_clock: Clock = Accepting()  # type: ignore[assignment]  # which has no `now`
