"""One life: the real engine on virtual time, process after process, and what must hold after each of them."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from headrace.engine.bounds import kept
from headrace.engine.knobs import Asked, Ending, Parts, Start
from headrace.engine.live import LiveEngine
from headrace.errors import DiskError, LedgerError
from headrace.events import EndpointBack, EndpointDown, EndpointGone, EndpointPaused, Event, Stopping
from headrace.policy.budget import Caps
from headrace.policy.canary import ALONE_S
from headrace.policy.verdict import TABLE, Action
from headrace.policy.wrong import SUSPECT
from headrace.testing import FakeEndpoint, Laws, run_virtual
from headrace.testing.life import ContentJudge, Crash, TextsIntake, VirtualClock, VirtualOffload, at_once, payload_of
from headrace.testing.virtual_loop import places_of
from headrace.values import Capacity, Failure, Gauges, Kind, Origin, Reply, Request, Sent, State
from soak.plans import PRICES, End, Plan, draw
from soak.stores import Facts, InMemory, OnDisk, Store
from soak.till import CAPS, Till, raised, wrongly_ended

T = TypeVar("T")

MEMORY = Path("/dev/shm")
LAST_PROCESSES = 4
JUST_ENDED_S = 0.1
CODES = {None: {0}, "interrupted": {130}, "run_deadline": {5}, "disk": {7}}
REASK_BYTES = 200  # more than a re-ask of a life adds
SETTLED = (State.DONE, State.FAILED, State.QUARANTINED)


class ViolationError(AssertionError):
    """A promise was broken. The message says which."""


@dataclass
class Sites:
    """Where crashes fell: statements of the ledger, and places in the code at which somebody awaited."""

    statements: set[str] = field(default_factory=set)
    seen_statements: set[str] = field(default_factory=set)
    awaits: set[tuple[str, int]] = field(default_factory=set)


class Door:
    """One endpoint as an auditor sees it. Satisfies `headrace.protocols.Endpoint`."""

    def __init__(self, watched: Watched, number: int) -> None:
        self.name = self.identity = f"fake {number}"
        self._watched = watched
        self.inner: FakeEndpoint | None = None
        self._process = 0
        self._pages = 0
        self.in_flight = 0
        self.peak = 0
        self.is_down = False  # as the engine tells
        self.answered_while_down = 0
        self.alone_until: float | None = None  # the first request of a process goes alone: until then, or until a reply
        self.crowded = 0  # requests that went beside it

    async def send(self, request: Request) -> Reply | Failure:
        assert self.inner is not None
        if self._watched.is_dead:
            raise asyncio.CancelledError  # what still runs of a dead process while it is taken down sends nothing
        self._watched.on_sent(request)
        charge = self._watched.till.charge(request)
        process, now = self._process, asyncio.get_running_loop().time()
        self.crowded += self.in_flight > 0 and now < (now + 1 if self.alone_until is None else self.alone_until)
        if self.alone_until is None:
            self.alone_until = now + ALONE_S
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            result = await self.inner.send(request)
            charge(result)
            if isinstance(result, Reply) and process == self._process:
                self.alone_until = 0.0
            self.answered_while_down += self.is_down and isinstance(result, Reply)
            if isinstance(result, Failure) and result.wait_s is not None:
                self._watched.was_unwell = True  # it asks all to wait, which is not told of a run that stops
            return result
        finally:
            if process == self._process:  # what a dead process left is collected while a later one lives
                self.in_flight -= 1
                self._watched.ended_at.append(asyncio.get_running_loop().time())

    async def capacity(self) -> Capacity | None:
        return await self._told(lambda inner: inner.capacity())

    async def gauges(self) -> Gauges | None:
        return await self._told(lambda inner: inner.gauges())

    async def _told(self, page: Callable[[FakeEndpoint], Awaitable[T]]) -> T | None:
        """A page takes its time, and one in seven does not come."""
        assert self.inner is not None
        self._pages += 1
        await asyncio.sleep(0.003)
        return await page(self.inner) if self._pages % 7 else None

    async def close(self) -> None:
        pass

    def start(self, inner: FakeEndpoint) -> None:
        self.inner = inner
        self._process += 1
        self.in_flight = self.peak = self.answered_while_down = self.crowded = 0
        self.is_down = False
        self.alone_until = None


class Watched:
    """All endpoints as an auditor sees them: what came in, over all processes."""

    def __init__(self, count: int) -> None:
        self.doors = [Door(self, number) for number in range(1, count + 1)]
        self.seen = 0
        self.sends: dict[int, int] = {}
        self.keys: dict[tuple[int, int], set[str]] = {}
        self.ended_at: list[float] = []
        self.is_dead = False  # the process that asks
        self.was_unwell = False  # one was held to be down or paused, at any time: such tries are excused
        self.was_misconfigured = False  # one was given up for it: its failures are taken back, and their units begin anew
        self.till = Till()

    @property
    def in_flight(self) -> int:
        return sum(door.in_flight for door in self.doors)

    def observe(self, event: Event) -> None:
        if isinstance(event, EndpointDown | EndpointPaused):
            self.was_unwell = True
        if isinstance(event, EndpointGone):
            self.was_misconfigured |= "failed alike" in event.why
        if isinstance(event, Stopping):  # a crash may come before the ending does
            self.was_misconfigured |= event.reason == "misconfigured"
        for door in self.doors:
            if isinstance(event, EndpointDown | EndpointBack) and event.endpoint == door.name:
                door.is_down, door.answered_while_down = isinstance(event, EndpointDown), 0

    def on_sent(self, request: Request) -> None:
        self.seen += 1
        self.sends[request.unit] = self.sends.get(request.unit, 0) + 1
        self.keys.setdefault((request.unit, request.ask), set()).add(request.idempotency_key)


def live(seed: int, sites: Sites | None = None) -> None:
    """Live the life of a seed. Raises ViolationError, or whatever the engine raises that it should not."""
    plan = draw(seed)
    sites = sites or Sites()
    if not plan.on_disk:
        _Life(plan, InMemory(), sites).run()
        return
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        _Life(plan, OnDisk(Path(folder)), sites).run()


class _Life:
    def __init__(self, plan: Plan, store: Store, sites: Sites) -> None:
        self.plan = plan
        self.store = store
        self.sites = sites
        self.endpoint = Watched(len(plan.paces))
        self.facts = Facts()
        self.committed: dict[int, State] = {}  # what commits that returned said of units
        self.dead = False
        self.disk_failed_at: float | None = None  # nothing is safe that came after this
        self.at_death: tuple[int, int] = (0, 0)  # in flight, and completions of the last 0.1 s
        self.caps = plan.caps

    def run(self) -> None:
        ending = None
        for number, end in enumerate((*self.plan.ends, *[End()] * LAST_PROCESSES)):
            well = number >= len(self.plan.ends)
            ending = self._process(number, end, well=well)
            if well and ending is not None and ending.reason is None:
                break
        if ending is None or ending.reason is not None:
            raise ViolationError(f"the job did not end: {ending}")
        self._check_end(ending)

    # -- one process

    def _process(self, number: int, end: End, *, well: bool) -> Ending | None:
        before = self.facts
        seen, sends = self.endpoint.seen, dict(self.endpoint.sends)
        self.endpoint.ended_at = []
        for place, door in enumerate(self.endpoint.doors):
            outages = self.plan.outages if not well and (place == 0 or self.plan.is_shared) else ()
            laws = Laws(latency_ms=5) if well else self.plan.laws
            door.start(FakeEndpoint(laws, script=None if well else self._script, outages=outages))
        if well:
            self.caps = Caps()
        ending = self._run(number, end)
        facts = self.store.facts()
        self._check_first()
        self._check_budget(ending)
        self._check(facts, before, self.endpoint.seen - seen, sends, ending)
        self.facts = facts
        return ending

    def _run(self, number: int, end: End) -> Ending | None:
        self.dead = self.endpoint.is_dead = False
        self.disk_failed_at = None
        seed = self.plan.seed * 16 + number
        statements = callbacks = 0

        def on_statement(name: str) -> None:
            nonlocal statements
            if self.dead:
                raise LedgerError("written by a dead process")
            self.sites.seen_statements.add(name)
            statements += end.named in {None, name}
            if end.statement is not None and statements >= end.statement and end.named in {None, name}:
                self.sites.statements.add(name)
                self._die()

        def on_callback(handle: asyncio.Handle) -> None:
            nonlocal callbacks
            if self.dead or end.callback is None:
                return
            if end.site is not None and not any(map(end.site.holds, places_of(handle))):
                return
            callbacks += 1
            if callbacks >= end.callback:
                self.sites.awaits.update(places_of(handle))
                self._die()

        ledger = self.store.open(on_statement, retry_ambiguous=self.plan.knobs.retry_ambiguous, most=self._most_of())
        try:
            return run_virtual(
                self._engine(ledger, end, random.Random(seed)), seed=seed, max_time_s=10_000_000, max_steps=300_000,
                on_callback=on_callback,
            )  # fmt: skip
        except Crash:
            return None
        finally:
            self.store.close()

    async def _engine(self, ledger: Any, end: End, rng: random.Random) -> Ending:
        facts = self.store.facts()
        self.facts = facts
        parts = Parts(
            endpoints=self._asked(), judge=_Judge(), intake=StoredIntake(self.plan.texts, self.store, facts),
            ledger=_Committed(ledger, self, end), clock=VirtualClock(), offload_rows=at_once(),
            offload_ledger=VirtualOffload(rng), offload_intake=VirtualOffload(rng), rng=rng, observers=[self.endpoint.observe],
        )  # fmt: skip
        open_units = facts.count(State.PENDING, State.LEASED)
        knobs = replace(self.plan.knobs, caps=self.caps)
        spent = self.store.spent(knobs.most)
        forgotten = self.endpoint.till.forgotten(spent)
        _insist(forgotten is None, forgotten or "")
        engine = LiveEngine(knobs, parts, Start(len(facts.states), open_units, read_done=facts.read_done, spent=spent))
        loop = asyncio.get_running_loop()
        for at in end.interrupts_at_s:
            loop.call_later(at, engine.interrupt, 130)
        if end.kill_at_s is not None:
            loop.call_later(end.kill_at_s, self._die)
        return await engine.run()

    def _asked(self) -> list[Asked]:
        both = enumerate(zip(self.endpoint.doors, self.plan.paces, strict=True), 1)
        return [Asked(door, pace, n, PRICES) for n, (door, pace) in both]

    def _most_of(self) -> Callable[[int], tuple[int, int] | None]:
        """What a unit may have taken, as a run tells by rendering its record again."""
        texts = {hashlib.sha256(text.encode()).digest()[:16]: text for text in self.plan.texts}
        hashes = self.store.facts().hashes
        of_size = kept(self.store.meta, range(1, len(self.plan.paces) + 1), self.plan.knobs.most)
        return lambda unit: of_size(len(payload_of(texts[hashes[unit]])) + REASK_BYTES)

    def _die(self) -> None:
        """Whatever the loop still runs while it is taken down can change nothing any more."""
        now = asyncio.get_running_loop().time()
        unsafe_s = JUST_ENDED_S if self.disk_failed_at is None else now - self.disk_failed_at + JUST_ENDED_S
        self.at_death = (self.endpoint.in_flight, sum(now - at <= unsafe_s for at in self.endpoint.ended_at))
        self.dead = self.endpoint.is_dead = True
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # nobody hears a dead process
        raise Crash

    def _script(self, request: Request, n: int) -> Reply | Failure | None:
        odd = self.plan.odd.get(request.unit, ())
        sent_before = self.endpoint.sends[request.unit] - 1
        match odd[sent_before] if sent_before < len(odd) else None:
            case "empty":
                return Reply(content="", finish="stop")
            case "error":
                return Failure(Kind.SERVER_ERROR, f"odd {n}", status=500)
            case "lost":
                return Failure(Kind.CONNECTION, "lost", Sent.MAYBE)
            case "refused":
                return Failure(Kind.CONTEXT_TOO_LONG, "too long", Sent.YES, status=400)
        return None

    # -- what must hold

    def _check_first(self) -> None:
        """Nothing goes beside the first request to an endpoint before a reply has come, or so much time has passed."""
        crowded = {door.name: door.crowded for door in self.endpoint.doors if door.crowded}
        _insist(not crowded, f"requests went beside the first one: {crowded}")

    def _check_budget(self, ending: Ending | None) -> None:
        """What the endpoints have charged is within the limits; a limit ends a process only where the next request breaks it."""
        broken = self.endpoint.till.broken(self.caps)
        _insist(broken is None, broken or "")
        if ending is None or ending.reason not in CAPS:
            return
        size = max(len(payload_of(text)) for text in self.plan.texts) + REASK_BYTES
        lost = any(origin == Origin.LOST for *_, origin in self.store.facts().attempts)
        most = self.plan.knobs.most
        wrong = wrongly_ended(ending, self.caps, self.store.spent(most), (most, size), lost=lost)
        _insist(wrong is None, wrong or "")
        self.caps = raised(self.caps, ending)

    def _check(self, facts: Facts, before: Facts, seen: int, sends: dict[int, int], ending: Ending | None) -> None:
        recorded = sum(origin == Origin.SENT for *_, origin in facts.attempts[len(before.attempts) :])
        cut = sum(origin == Origin.LOST for *_, origin in facts.attempts[len(self.facts.attempts) :])
        leased = facts.count(State.LEASED)
        _insist(recorded <= seen <= recorded + cut + leased, f"{recorded} recorded, {seen} seen, {leased + cut} left open")
        for unit, state in before.states.items():
            if state is State.DONE:
                _insist(self.endpoint.sends.get(unit) == sends.get(unit), f"unit {unit} was done and is sent again")
                _insist(facts.states[unit] is State.DONE, f"unit {unit} was done and is {facts.states[unit].name}")
        for unit, state in self.committed.items():
            _insist(facts.states.get(unit) is state, f"unit {unit} was committed as {state.name} and is {facts.states.get(unit)}")
        for door, pace in zip(self.endpoint.doors, self.plan.paces, strict=True):
            _insist(door.peak <= pace.most_in_flight, f"{door.peak} were in flight at once at {door.name}")
        if ending is None:
            unknown = [
                unit for unit, state in facts.states.items() if state is State.LEASED and self._sent_unrecorded(unit, facts)
            ]
            in_flight, just_ended = self.at_death
            _insist(len(unknown) <= in_flight + just_ended, f"{len(unknown)} to be sent again of {in_flight} + {just_ended}")
        else:
            _insist(not leased or ending.reason == "disk", f"{leased} leases are left after {ending}")
            allowed = {5} if ending.reason in CAPS else CODES.get(ending.reason, {4})
            _insist(ending.exit_code in allowed, f"{ending.reason} ended with exit code {ending.exit_code}")
            _insist(ending.reason is not None or facts.count(*SETTLED) == len(facts.states), "it ended with units open")
            down = [door.name for door in self.endpoint.doors if door.answered_while_down]
            _insist(not down, f"{down} have answered and are still held to be down")
        self._check_attempts(facts)

    def _sent_unrecorded(self, unit: int, facts: Facts) -> bool:
        return self.endpoint.sends.get(unit, 0) > sum(attempt[0] == unit for attempt in facts.attempts)

    def _check_attempts(self, facts: Facts) -> None:
        """Each attempt but a unit's first has a reason in the table."""
        last: dict[int, tuple[int, str | None, str, int]] = {}
        counted: dict[tuple[int, int], int] = {}
        for unit, ask, kind, sent, origin in facts.attempts:
            if unit in last:
                self._check_again(unit, last[unit], ask)
            last[unit] = (ask, kind, sent, origin)
            if kind is not None and origin == Origin.SENT and sent != Sent.NO and TABLE[Kind(kind)].counts:
                counted[unit, ask] = counted.get((unit, ask), 0) + 1
        if not self.endpoint.was_unwell and not self.endpoint.was_misconfigured:
            for (unit, ask), times in counted.items():
                _insist(times <= self.plan.knobs.max_attempts, f"unit {unit} was sent {times} times in ask {ask}")
        for (unit, ask), keys in self.endpoint.keys.items():
            _insist(len(keys) == 1, f"unit {unit}, ask {ask} was sent under {len(keys)} keys")

    def _check_again(self, unit: int, before: tuple[int, str | None, str, int], ask: int) -> None:
        asked, kind, sent, origin = before
        if origin == Origin.LOST or (sent == Sent.MAYBE and kind != Kind.OVERLOADED):
            _insist(self.plan.knobs.retry_ambiguous, f"unit {unit} may have been billed and is sent again")
        if origin == Origin.LOST:
            return
        _insist(kind is not None, f"unit {unit} had its answer and is sent again")
        action = TABLE[Kind(str(kind))].action
        if ask == asked + 1:
            _insist(action is Action.REASK, f"unit {unit} is asked anew after {kind}")
            _insist(ask <= self.plan.knobs.retry_invalid, f"unit {unit} is asked {ask + 1} times")
        else:
            anew = self.endpoint.was_misconfigured and Kind(str(kind)) in SUSPECT and ask == 0
            again = ask == asked and action in {Action.RETRY, Action.STOP}
            _insist(again or anew, f"unit {unit} is sent again after {kind}, ask {asked} then {ask}")

    def _check_end(self, ending: Ending) -> None:
        facts, texts = self.facts, self.plan.texts
        _insist(ending.exit_code == 0 and ending.input_complete, f"it ended with {ending}")
        _insist(facts.items == len(texts), f"{facts.items} items of {len(texts)}")
        _insist(sorted(facts.pieces) == list(range(len(texts))), "an item is missing or there twice")
        _insist(len(facts.states) == len(set(texts)), f"{len(facts.states)} units of {len(set(texts))} texts")
        for item, unit in facts.pieces.items():
            state = facts.states[unit]
            _insist(state in SETTLED, f"item {item} is {state.name}")
            if state is State.DONE:
                _insist(facts.answers[unit] == texts[item], f"item {item} has another's answer: {facts.answers[unit]}")
            else:
                _insist(bool(facts.errors.get(unit)), f"item {item} is {state.name} without a reason")


class _Committed:
    """The ledger, and beside it what its commits promised when they returned."""

    def __init__(self, ledger: Any, life: _Life, end: End) -> None:
        self._ledger = ledger
        self._life = life
        self._end = end
        self._commits = 0

    def prepare(self, batch: Any) -> None:
        self._commits += 1
        first = self._end.disk_full_from
        if first is not None and first <= self._commits < first + self._end.failing_commits:
            if self._life.disk_failed_at is None:
                self._life.disk_failed_at = asyncio.get_running_loop().time()
            raise DiskError("the disk is full")
        self._ledger.prepare(batch)
        self._batch = batch

    def finish(self) -> None:
        self._ledger.finish()
        batch = self._batch
        for outcome in batch.outcomes:
            if outcome.state in SETTLED:
                self._life.committed[outcome.unit] = outcome.state
        for unit in batch.reopened:
            self._life.committed.pop(unit, None)

    def close(self) -> None:
        self._ledger.close()


class _Judge(ContentJudge):
    """Asks again so that the endpoint, which echoes the last message of a user, still says what belongs to the unit."""

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:  # noqa: ARG002 - the protocol's
        return payload[:-1] + b',{"role":"assistant","content":"' + failure.message.encode() + b'"}]'


class StoredIntake(TextsIntake):
    """Reads texts as `headrace.testing.life` does, from wherever the ledger is kept."""

    def __init__(self, texts: Sequence[str], store: Store, facts: Facts) -> None:
        self._texts = texts
        self._units = {value: seq for seq, value in facts.hashes.items()}
        self._next = facts.items
        self._pending = store.pending
        self._pending_these = store.pending_these


def _insist(holds: bool, what: str) -> None:
    if not holds:
        raise ViolationError(what)
