"""Lives of a job that divides its documents: pieces, and level by level what joins their answers, over crashes.

The endpoint echoes, and a join asks with the answers that it joins, one behind the other. So the answer of a document that was
divided, asked, joined and killed in between is the document itself, or something was lost, doubled or put in another's place.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from headrace.engine.bounds import kept
from headrace.engine.knobs import Asked, Ending, Knobs, Pace, Parts, Start
from headrace.engine.live import LiveEngine
from headrace.errors import LedgerError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.policy.budget import Caps, Most, Spent
from headrace.runs.costs import RECORDED, recorded
from headrace.runs.prices import Found
from headrace.runs.spending import spent_of
from headrace.slicing.join import groups
from headrace.testing import FakeEndpoint, Laws, run_virtual
from headrace.testing.life import ContentJudge, Crash, VirtualClock, VirtualOffload, at_once, payload_of
from headrace.testing.memory_ledger import MemoryLedger
from headrace.values import (
    FIRST_MADE,
    Failure,
    Intaken,
    Item,
    Kind,
    Origin,
    Reduction,
    Reply,
    Request,
    Slice,
    State,
    Unit,
    UnitKind,
)
from soak.plans import BESIDE, PRICES
from soak.till import CAPS, Till, raised, wrongly_ended

MEMORY = Path("/dev/shm")
LAST_PROCESSES = 3
DONE, FAILED = State.DONE, State.FAILED
Document = tuple[str, ...]


class ViolationError(AssertionError):
    """A promise was broken. The message says which."""


@dataclass(frozen=True)
class Plan:
    """`crashes`: for each process but the last ones where it dies: at a statement, at a callback, or at a time. `caps` are the
    limits of these; what has ended one is raised for the next.
    """

    documents: tuple[Document, ...]
    room: int  # characters of answers that stand in one join
    concurrency: int
    laws: Laws
    refused: frozenset[str]  # parts that are never answered
    crashes: tuple[tuple[str, float], ...]
    on_disk: bool
    caps: Caps

    @property
    def most(self) -> Most:
        """Beside its bytes: an answer says again what was asked, and the last join asks with a whole document."""
        return Most(BESIDE, self.longest // 4 + 1)

    @property
    def longest(self) -> int:
        return max(len("".join(document)) for document in self.documents)


@dataclass
class Facts:
    """What a ledger says: units' states and answers, items' pieces, items' levels of (first, stop, is last, unit)."""

    states: dict[int, State]
    answers: dict[int, str]
    pieces: dict[tuple[int, int], int]
    levels: dict[int, list[list[tuple[int, int, bool, int]]]]


def draw(seed: int) -> Plan:
    """The plan of a seed: an equal seed gives an equal plan."""
    rng = random.Random(f"divided {seed}")
    documents = tuple(_document(rng) for _ in range(rng.choice([1, 2, 5, 20])))
    parts = sorted({part for document in documents for part in document})
    doublings = rng.choice([6, 10, 13])
    return Plan(
        documents=documents + documents[: rng.choice([0, 0, 1])],  # perhaps one comes again
        room=rng.choice([1, 30, 100]),
        concurrency=rng.choice([1, 4, 16]),
        laws=Laws(
            latency_ms=rng.choice([1, 50]), jitter=0.5, seed=seed, error_rate=rng.choice([0.0, 0.1]),
            reset_rate=rng.choice([0.0, 0.1]),
        ),
        refused=frozenset(rng.sample(parts, 1)) if rng.random() < 0.2 else frozenset(),
        crashes=tuple(
            (kind, rng.random() * 3 if kind == "time" else 2 ** (rng.random() * doublings))
            for kind in rng.choices(["statement", "callback", "time"], k=rng.randint(1, 4))
        ),
        on_disk=rng.random() < 0.4,
        caps=_caps(rng, documents),
    )  # fmt: skip


def _caps(rng: random.Random, documents: Sequence[Document]) -> Caps:
    """In every second life one limit or several, of a part of what pieces and joins take or a little more than that."""
    if rng.random() < 0.5:
        return Caps()
    share = rng.choice([0.1, 0.4, 0.8, 1.5])
    requests = share * sum(map(len, documents)) * 1.5
    tokens = share * sum(len("".join(document)) for document in documents) * 1.5 + 100
    return Caps(
        cost=tokens * (PRICES.output or 0.0) if rng.random() < 0.5 else None,
        tokens=1 + int(tokens) if rng.random() < 0.5 else None,
        requests=1 + int(requests) if rng.random() < 0.5 else None,
    )


def _document(rng: random.Random) -> Document:
    """Of one part or of many, some of which other documents have too."""
    count = rng.choice([1, 1, 2, 3, 8, 40])
    return tuple(f"<{rng.randrange(9 if rng.random() < 0.3 else 10**6)}:{n if rng.random() < 0.7 else 0}>" for n in range(count))


class Joiner:
    """Satisfies `headrace.protocols.Reducer`: asks with the answers themselves."""

    config = 1

    def __init__(self, room: int) -> None:
        self._room = room

    def reduce(self, item: Item, level: int, answers: Sequence[str]) -> list[Reduction]:  # noqa: ARG002 - the protocol's
        found = groups([len(answer) for answer in answers], self._room)
        made = []
        for n, (first, stop) in enumerate(found):
            payload = payload_of("".join(answers[first:stop]))
            made.append(Reduction(n, first, stop, len(found) == 1, hashlib.sha256(b"join" + payload).digest()[:16], payload))
        return made

    def answered(self, units: Sequence[Unit]) -> list[Any]:  # noqa: ARG002 - the protocol's
        return []


class _Intake:
    """Reads documents that stand in memory. `stored` is whatever the ledger is read through."""

    def __init__(self, documents: Sequence[Document], stored: _Stored) -> None:
        self._documents = documents
        self._stored = stored
        self._units = {value: seq for seq, value in stored.read_hashes().items()}
        self._next = stored.items()

    def take(self, limit: int) -> Intaken:
        items, pieces, units, slices = [], [], [], []
        first = len(self._units)
        for document in self._documents[self._next : self._next + min(limit, 2)]:
            for n, part in enumerate(document):
                value = hashlib.sha256(part.encode() + bytes([len(document) > 1])).digest()[:16]
                seq = self._units.setdefault(value, len(self._units))
                if seq >= first + len(units):
                    units.append(Unit(seq=seq, hash=value, item=self._next, n=n, payload=payload_of(part)))
                pieces.append((self._next, n, seq))
                if len(document) > 1:
                    slices.append(Slice(self._next, n, "text", n, n + 1))
            items.append(Item(self._next, 0, 0, 0, self._next + 1, None))
            self._next += 1
        done = self._next >= len(self._documents)
        return Intaken(items, pieces, units, first, {"done": done}, done, slices=slices)

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def recall(self, after: int, limit: int) -> list[Unit]:
        return list(map(self._with_payload, self._stored.pending(after, limit)))

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        return list(map(self._with_payload, self._stored.pending_these(seqs)))

    def _with_payload(self, unit: Unit) -> Unit:
        return replace(unit, payload=self._stored.payload(unit))


class _Stored:
    """A ledger that outlives its processes, in memory or in a file."""

    def __init__(self, path: Path | None, plan: Plan) -> None:
        self._path = path
        self._plan = plan
        self._memory = MemoryLedger()
        self.ledger: Any = None
        self._reader: LedgerReader | None = None
        if path is not None:
            ledger = SqliteLedger(path)
            ledger.add_config(1.0, {}, {RECORDED: recorded(["fake"], [Found(PRICES)])})
            ledger.add_endpoint("fake", "fake")
            ledger.close()

    def open(self, joiner: Joiner, hook: Any) -> Any:
        ledger: Any = self._memory if self._path is None else SqliteLedger(self._path)
        if self._path is not None:
            self._reader = LedgerReader(self._path)
        ledger.recover(1, 0.0, retry_ambiguous=True, most=self._most_of())
        ledger.reduce_with(joiner)
        if self._path is None:
            ledger.hook = hook
        else:
            ledger._hook = hook  # noqa: SLF001 - the crash point begins behind recovery
        self.ledger = ledger
        return ledger

    def _most_of(self) -> Callable[[int], tuple[int, int]]:
        """What a unit that was left open may have taken, as a run tells by rendering it again."""
        of_size = kept(self._memory.meta.get if self.reader is None else self.reader.meta, [1], self._plan.most)
        if self.reader is None:
            units = self._memory.units
        else:
            units = {stored.unit.seq: stored.unit for stored in self.reader.leased()}
        return lambda seq: of_size(len(self.payload(units[seq])))

    def payload(self, unit: Unit) -> bytes:
        """What a unit asks."""
        if unit.kind is UnitKind.REDUCE:
            return payload_of("".join(self.joined(unit)))
        return payload_of(self._plan.documents[unit.item][unit.n])

    def spent(self) -> Spent:
        """What counts against the limits. Asked while a process has it open or after it."""
        if self._path is None:
            return self._memory.spent(PRICES)
        reader = LedgerReader(self._path)
        try:
            return spent_of(reader, self._plan.most)
        finally:
            reader.close()

    def has_lost(self) -> bool:
        """Whether a dead process left something open, which counts though it may never have left."""
        if self._path is None:
            return any(attempt.origin is Origin.LOST for attempt in self._memory.attempts)
        reader = LedgerReader(self._path)
        try:
            found = reader._db.execute("SELECT count(*) FROM attempt WHERE origin = ?", (int(Origin.LOST),))  # noqa: SLF001
            return bool(found.fetchone()[0])
        finally:
            reader.close()

    def close(self) -> None:
        if self._path is None:
            self._memory.hook = None
            return
        self.ledger.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    def reader(self) -> LedgerReader | None:
        return self._reader

    def items(self) -> int:
        return len(self._memory.items) if self.reader is None else int(self.reader.one("count_items")[0])

    def read_hashes(self) -> dict[int, bytes]:
        if self.reader is None:
            return {seq: unit.hash for seq, unit in self._memory.units.items() if seq < FIRST_MADE}
        blob = b"".join(self.reader.hashes("read_hashes"))
        return {seq: blob[16 * seq : 16 * seq + 16] for seq in range(len(blob) // 16)}

    def is_read(self) -> bool:
        return bool(self._memory.meta.get("done")) if self.reader is None else bool(self.reader.meta("done", default=False))

    def made(self) -> tuple[int, list[int]]:
        if self.reader is None:
            return sum(seq >= FIRST_MADE for seq in self._memory.units), self._memory.pending_made()
        return self.reader.count_made(), self.reader.pending_made()

    def pending(self, after: int, limit: int) -> list[Unit]:
        if self.reader is None:
            return self._memory.pending(after, limit)
        return [stored.unit for stored in self.reader.pending(after, limit)]

    def pending_these(self, seqs: list[int]) -> list[Unit]:
        if self.reader is None:
            return self._memory.pending_these(seqs)
        return [stored.unit for stored in self.reader.pending_these(seqs)]

    def joined(self, unit: Unit) -> list[str]:
        if self.reader is None:
            return self._memory.reduction(unit.seq)[2]
        return self.reader.reduction(unit.item, unit.seq).answers

    def facts(self) -> Facts:
        if self._path is None:
            memory = self._memory
            done = {seq: memory.answer(seq) for seq, state in memory.states.items() if state is DONE}
            levels = {
                item: [[(made.first, made.stop, made.is_last, unit) for made, unit in level] for level in some]
                for item, some in memory.reductions.items()
            }
            return Facts(dict(memory.states), done, dict(memory.pieces), levels)
        reader = LedgerReader(self._path)
        try:
            db = reader._db  # noqa: SLF001 - the tables as they are
            found: dict[int, list[list[tuple[int, int, bool, int]]]] = {}
            for item, level, first, stop, last, unit in db.execute(
                "SELECT item, level, first, stop, is_last, unit FROM reduction ORDER BY item, level, n"
            ):
                some = found.setdefault(item, [])
                some += [[] for _ in range(level - len(some))]
                some[level - 1].append((first, stop, bool(last), unit))
            answers = "SELECT unit.seq, attempt.content FROM unit JOIN attempt ON attempt.id = unit.attempt WHERE unit.state = 2"
            return Facts(
                states={seq: State(state) for seq, state in db.execute("SELECT seq, state FROM unit")},
                answers={seq: as_text(content) or "" for seq, content in db.execute(answers)},
                pieces={(item, n): unit for item, n, unit in db.execute("SELECT item, n, unit FROM piece")},
                levels=found,
            )
        finally:
            reader.close()


def live_divided(seed: int) -> None:
    """Live the life of a seed. Raises ViolationError, or whatever the engine raises that it should not."""
    plan = draw(seed)
    if not plan.on_disk:
        _Life(seed, plan, _Stored(None, plan)).run()
        return
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        _Life(seed, plan, _Stored(Path(folder) / "ledger.db", plan)).run()


class _Life:
    def __init__(self, seed: int, plan: Plan, stored: _Stored) -> None:
        self.seed = seed
        self.plan = plan
        self.stored = stored
        self.sends: dict[int, int] = {}
        self.dead = False
        self.till = Till()
        self.caps = plan.caps

    def run(self) -> None:
        ending = None
        for number, crash in enumerate((*self.plan.crashes, *[("never", 0.0)] * LAST_PROCESSES)):
            before, sends = self.stored.facts(), dict(self.sends)
            if number >= len(self.plan.crashes):
                self.caps = Caps()
            ending = self._process(number, *crash)
            self._check_budget(ending)
            after = self.stored.facts()
            for unit, state in before.states.items():
                _insist(state is not DONE or self.sends.get(unit) == sends.get(unit), f"unit {unit} was done and is sent again")
            self._check_levels(after)
            if ending is not None and ending.reason is None:
                break
        if ending is None or ending.reason is not None:
            raise ViolationError(f"the job did not end: {ending}")
        self._check_end(self.stored.facts())

    def _process(self, number: int, kind: str, at: float) -> Ending | None:
        self.dead = False
        counts = {"statement": 0, "callback": 0}

        def count(what: str) -> None:
            counts[what] += 1
            if kind == what and counts[what] >= at:
                self._die()

        def on_statement(_name: str) -> None:
            if self.dead:
                raise LedgerError("written by a dead process")
            count("statement")

        def on_callback(_handle: asyncio.Handle) -> None:
            if not self.dead:
                count("callback")

        seed, laws = self.seed * 16 + number, Laws(latency_ms=5) if kind == "never" else self.plan.laws
        ledger = self.stored.open(Joiner(self.plan.room), on_statement)
        try:
            return run_virtual(
                self._engine(ledger, random.Random(seed), laws, at if kind == "time" else None), seed=seed, max_time_s=1_000_000,
                max_steps=300_000, on_callback=on_callback,
            )  # fmt: skip
        except Crash:
            return None
        finally:
            self.stored.close()

    async def _engine(self, ledger: Any, rng: random.Random, laws: Laws, kill_at_s: float | None) -> Ending:
        knobs = Knobs(run="divided", config=1, max_attempts=30, caps=self.caps, most=self.plan.most)
        endpoint = _Counted(FakeEndpoint(laws, script=self._script), self)
        parts = Parts(
            endpoints=[Asked(endpoint, Pace(self.plan.concurrency), 1, PRICES)], judge=ContentJudge(), plain_judge=ContentJudge(),
            intake=_Intake(self.plan.documents, self.stored), ledger=ledger, clock=VirtualClock(),
            offload_rows=at_once(), offload_ledger=VirtualOffload(rng), offload_intake=VirtualOffload(rng), rng=rng,
        )  # fmt: skip
        _, units = ledger.next_numbers()
        made, pending = self.stored.made()
        start = Start(
            units, ledger.unsettled(), read_done=self.stored.is_read(), may_make=True, made=made, pending_made=pending,
            spent=self.stored.spent(),
        )  # fmt: skip
        forgotten = self.till.forgotten(start.spent)
        _insist(forgotten is None, forgotten or "")
        engine = LiveEngine(knobs, parts, start)
        if kill_at_s is not None:
            asyncio.get_running_loop().call_later(kill_at_s, self._die)
        return await engine.run()

    def _script(self, request: Request, _n: int) -> Reply | Failure | None:
        if any(request.payload == payload_of(part) for part in self.plan.refused):
            return Failure(Kind.CONTEXT_TOO_LONG, "refused", status=400)
        return None

    def _die(self) -> None:
        self.dead = True
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # nobody hears a dead process
        raise Crash

    # -- what must hold

    def _check_budget(self, ending: Ending | None) -> None:
        """What was charged is within the limits; a limit ends a process only where the next request breaks it."""
        broken = self.till.broken(self.caps)
        _insist(broken is None, broken or "")
        if ending is None or ending.reason not in CAPS:
            return
        size = len(payload_of("x" * self.plan.longest))
        wrong = wrongly_ended(ending, self.caps, self.stored.spent(), (self.plan.most, size), lost=self.stored.has_lost())
        _insist(wrong is None, wrong or "")
        self.caps = raised(self.caps, ending)

    def _check_levels(self, facts: Facts) -> None:
        """At any moment: what is joined is there, and each level joins the whole of the one below once."""
        for item, levels in facts.levels.items():
            below = [facts.pieces[item, n] for n in range(len(self.plan.documents[item]))]
            for number, level in enumerate(levels, 1):
                _insist(all(facts.states[unit] is DONE for unit in below), f"item {item}: level {number} joins what is not there")
                joined = [n for first, stop, _, _ in level for n in range(first, stop)]
                _insist(joined == list(range(len(below))), f"item {item}: level {number} joins {joined} of {len(below)}")
                _insist((len(level) == 1) == level[0][2], f"item {item}: level {number} does not know whether it is the last")
                below = [unit for _, _, _, unit in level]

    def _check_end(self, facts: Facts) -> None:
        documents = self.plan.documents
        _insist({item for item, _ in facts.pieces} == set(range(len(documents))), "an item is missing")
        _insist(all(state in {DONE, FAILED} for state in facts.states.values()), "it ended with units open")
        for item, document in enumerate(documents):
            pieces = [facts.pieces[item, n] for n in range(len(document))]
            levels = facts.levels.get(item, [])
            if any(facts.states[unit] is not DONE for unit in pieces):
                _insist(not levels, f"item {item} lacks a piece and is joined")
                _insist(bool(self.plan.refused & set(document)), f"item {item} failed without a reason")
            elif len(document) == 1:
                _insist(not levels and facts.answers[pieces[0]] == document[0], f"item {item} has another's answer")
            else:
                _insist(bool(levels) and levels[-1][-1][2], f"item {item} is not joined to its end")
                last = levels[-1][-1][3]
                _insist(facts.states[last] is DONE, f"item {item}: its last join is {facts.states[last].name}")
                _insist(facts.answers[last] == "".join(document), f"item {item} came to {facts.answers[last][:80]}")


class _Counted:
    """The endpoint, and how often each unit was sent to it."""

    def __init__(self, inner: FakeEndpoint, life: _Life) -> None:
        self.name = self.identity = "fake"
        self._inner = inner
        self._life = life

    async def send(self, request: Request) -> Reply | Failure:
        if self._life.dead:
            raise asyncio.CancelledError  # what still runs of a dead process while it is taken down sends nothing
        self._life.sends[request.unit] = self._life.sends.get(request.unit, 0) + 1
        settle = self._life.till.charge(request)
        result = await self._inner.send(request)
        settle(result)
        return result

    async def capacity(self) -> None:
        return None

    async def gauges(self) -> None:
        return None

    async def close(self) -> None:
        pass


def _insist(holds: bool, what: str) -> None:
    if not holds:
        raise ViolationError(what)
