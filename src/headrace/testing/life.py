"""Simulated lives: the real engine on virtual time against a fake endpoint, with crashes, until the job has ended."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from msgspec.structs import replace

from headrace.engine.bounds import kept
from headrace.engine.knobs import Asked, Ending, Knobs, Pace, Parts, Start
from headrace.engine.live import LiveEngine
from headrace.errors import LedgerError
from headrace.policy.price import Prices
from headrace.protocols import Endpoint, Judge, Observer
from headrace.testing.memory_ledger import MemoryLedger
from headrace.testing.virtual_loop import run_virtual
from headrace.values import Answer, Failure, Intaken, Item, Kind, Reply, State, Unit

T = TypeVar("T")
MOST_ENDPOINTS = 9
EIGHT = Pace(8)  # in flight at once, where a life says nothing else


class Crash(SystemExit):
    """The process dies here."""


class VirtualOffload:
    """Runs blocking work inline, at the end of a delay that is drawn: a disk or a thread that takes its time."""

    def __init__(self, rng: random.Random, longest_s: float = 0.004) -> None:
        self._rng = rng
        self._longest_s = longest_s
        self._last = 0.0

    def __call__(self, function: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._last = max(self._last, loop.time()) + self._rng.random() * self._longest_s
        loop.call_at(self._last, self._run, function, done)
        return done

    @staticmethod
    def _run(function: Callable[[], T], done: asyncio.Future[T]) -> None:
        if done.cancelled():
            return
        try:
            done.set_result(function())
        except Exception as error:  # noqa: BLE001  handed to whoever waits, as a thread pool does
            done.set_exception(error)


def at_once() -> VirtualOffload:
    """For short work: it takes no time, and still others may run, or the process may end, before it is done."""
    return VirtualOffload(random.Random(0), longest_s=0.0)


class VirtualClock:
    """Wall time that follows the running loop's."""

    def now(self) -> float:
        return 1_700_000_000.0 + asyncio.get_running_loop().time()


class ContentJudge:
    """Accepts any content but an empty one and, where `accept` is given, what that refuses."""

    def __init__(self, accept: Callable[[str], bool] | None = None) -> None:
        self._accept = accept

    def judge(self, reply: Reply) -> Answer | Failure:
        if not reply.content:
            return Failure(Kind.EMPTY, "empty")
        if self._accept is not None and not self._accept(reply.content):
            return Failure(Kind.INVALID_JSON, "not accepted")
        return Answer()

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:
        said = b',{"role":"assistant","content":' + orjson.dumps(reply.content) + b"}"
        return payload[:-1] + said + b',{"role":"user","content":' + orjson.dumps(failure.message) + b"}]"


class TextsIntake:
    """Reads texts that stand in memory; equal texts share a unit. Its position is the number of items."""

    def __init__(self, texts: Sequence[str], ledger: MemoryLedger) -> None:
        self._texts = texts
        self._pending: Callable[[int, int], list[Unit]] = ledger.pending
        self._pending_these: Callable[[list[int]], list[Unit]] = ledger.pending_these
        self._units = {unit.hash: seq for seq, unit in ledger.units.items()}
        self._next = len(ledger.items)

    def take(self, limit: int) -> Intaken:
        items, pieces, units = [], [], []
        first = len(self._units)
        for text in self._texts[self._next : self._next + limit]:
            value = hashlib.sha256(text.encode()).digest()[:16]
            seq = self._units.get(value)
            if seq is None:
                seq = self._units[value] = len(self._units)
                units.append(Unit(seq=seq, hash=value, item=self._next, payload=payload_of(text)))
            items.append(Item(self._next, 0, 0, 0, self._next + 1, None))
            pieces.append((self._next, 0, seq))
            self._next += 1
        done = self._next >= len(self._texts)
        return Intaken(items, pieces, units, first, {"done": done}, done)

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def recall(self, after: int, limit: int) -> list[Unit]:
        return [self._with_payload(unit) for unit in self._pending(after, limit)]

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        return [self._with_payload(unit) for unit in self._pending_these(seqs)]

    def _with_payload(self, unit: Unit) -> Unit:
        return replace(unit, payload=payload_of(self._texts[unit.item]))


def payload_of(text: str) -> bytes:
    """The messages of a chat that asks with this text."""
    return orjson.dumps([{"role": "user", "content": text}])


@dataclass
class Life:
    """One job over all its processes. `ledger` and `endpoint` outlive each of them.

    `step` runs one process to its end or its crash: `crash_at` counts ledger steps, `kill_at_s` is virtual time, and
    `interrupt_at_s` lists the times of Ctrl-C. After a crash everything in flight is gone, as after kill -9. Several endpoints
    are given as a list, with one pace for all or one for each; `prices` are those of all.
    """

    texts: Sequence[str]
    endpoint: Any
    knobs: Knobs = field(default_factory=lambda: Knobs(run="life", config=1))
    pace: Pace | Sequence[Pace] = EIGHT
    judge: Judge = field(default_factory=ContentJudge)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    observers: Sequence[Observer] = ()
    max_steps: int = 300_000
    prices: Prices | None = None
    processes: int = 0
    _dead: bool = False

    def step(
        self, seed: int, *, crash_at: int | None = None, kill_at_s: float | None = None, interrupt_at_s: Sequence[float] = ()
    ) -> Ending | None:
        """The ending of this process, or None after a crash."""
        self.processes += 1
        self._dead = False
        steps = 0

        def hook(_step: str) -> None:
            nonlocal steps
            if self._dead:
                raise LedgerError("written by a dead process")
            steps += 1
            if crash_at is not None and steps >= crash_at:
                self._die()

        of_size = kept(self.ledger.meta.get, range(1, MOST_ENDPOINTS + 1), self.knobs.most)
        self.ledger.recover(
            1, 0.0, retry_ambiguous=self.knobs.retry_ambiguous,
            most=lambda unit: of_size(len(payload_of(self.texts[self.ledger.units[unit].item]))),
        )  # fmt: skip
        self.ledger.hook = hook
        try:
            return run_virtual(
                self._process(seed, kill_at_s, interrupt_at_s), seed=seed, max_time_s=10_000_000, max_steps=self.max_steps
            )
        except Crash:
            return None
        finally:
            self.ledger.hook = None

    async def _process(self, seed: int, kill_at_s: float | None, interrupt_at_s: Sequence[float]) -> Ending:
        rng = random.Random(seed)
        parts = Parts(
            endpoints=self._asked(), judge=self.judge, intake=TextsIntake(self.texts, self.ledger), ledger=self.ledger,
            clock=VirtualClock(), offload_rows=at_once(),
            offload_ledger=VirtualOffload(rng), offload_intake=VirtualOffload(rng), rng=rng,
            observers=self.observers,
        )  # fmt: skip
        _, units = self.ledger.next_numbers()
        start = Start(
            recorded=units, open_units=self.ledger.unsettled(), read_done=bool(self.ledger.meta.get("done")),
            spent=self.ledger.spent(self.prices),
        )  # fmt: skip
        engine = LiveEngine(self.knobs, parts, start)
        loop = asyncio.get_running_loop()
        for at in interrupt_at_s:
            loop.call_later(at, engine.interrupt, 130)
        if kill_at_s is not None:
            loop.call_later(kill_at_s, self._die)
        return await engine.run()

    def _asked(self) -> list[Asked]:
        made = self.endpoint() if callable(self.endpoint) else self.endpoint
        endpoints: list[Endpoint] = made if isinstance(made, list) else [made]
        paces = [self.pace] * len(endpoints) if isinstance(self.pace, Pace) else self.pace
        both = enumerate(zip(endpoints, paces, strict=True), 1)
        return [Asked(endpoint, pace, n, self.prices) for n, (endpoint, pace) in both]

    def _die(self) -> None:
        """Whatever the loop still runs while it is taken down can change nothing any more."""
        self._dead = True
        raise Crash

    def count(self, state: State) -> int:
        """Units in a state, as the ledger has them."""
        return sum(found is state for found in self.ledger.states.values())
