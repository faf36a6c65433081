"""The seams of the house. The docstrings are the contracts; `headrace.testing.contracts` holds the suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from headrace.events import Event
from headrace.values import (
    Answer,
    Attempt,
    Capacity,
    Chunk,
    Failure,
    Gauges,
    Intaken,
    Item,
    Outcome,
    Piece,
    Record,
    Reduction,
    Reply,
    Request,
    Sample,
    Slice,
    Unit,
)


class Source(Protocol):
    """Reads an input as records, in order, in chunks. Blocking: called off the event loop, by one caller at a time.

    Opening checks that every file can be read at all (InputError). `read` never raises for one bad record: that is a
    Record with a reason. It raises InputBrokenError when the input breaks off; the records before it have been returned.
    Memory is bounded by one chunk and one record of at most `max_record` bytes.
    """

    def read(self, limit: int) -> Chunk:
        """The next records: at most `limit`, or about 1 MB. After `done` it is not called again."""
        ...

    def seek(self, position: str) -> None:
        """Go on after the chunk that carried this position. Same files, same content."""
        ...

    def close(self) -> None: ...


class Endpoint(Protocol):
    """Who answers. One call is one send: no retries, no redirects, no waiting for a pooled connection.

    Never raises but for cancellation; whatever goes wrong is a Failure, mapped once, with no secret in its message.
    """

    @property
    def name(self) -> str:
        """For people: scheme, host and path, without credentials."""
        ...

    @property
    def identity(self) -> str:
        """Who answers, for reuse: stored with each attempt."""
        ...

    async def send(self, request: Request) -> Reply | Failure: ...

    async def capacity(self) -> Capacity | None:
        """What the server says that it is and holds, in a few seconds at most; None: nobody has answered, ask again later."""
        ...

    async def gauges(self) -> Gauges | None:
        """How the server is loaded now, in a few seconds at most; None where it does not say."""
        ...

    async def close(self) -> None: ...


class Judge(Protocol):
    """Says whether a reply is an acceptable answer. Pure; never raises."""

    def judge(self, reply: Reply) -> Answer | Failure: ...

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:
        """The payload of a re-ask: the first one with the reply and a stricter instruction appended."""
        ...


class Renderer(Protocol):
    """Turns a piece into the encoded variable part of a request's body. Raises RecordError."""

    def render(self, piece: Piece) -> bytes: ...


class Reducer(Protocol):
    """Joins the answers of divided items by further requests: what a ledger asks in the transaction that commits the last of
    a level. Called by the thread that writes; never raises.
    """

    @property
    def config(self) -> int:
        """The configuration under which its requests are made."""
        ...

    def reduce(self, item: Item, level: int, answers: Sequence[str]) -> list[Reduction]:
        """The requests of `level` (from 1) that join all answers of the level below; one of them, or none, is the last."""
        ...

    def answered(self, units: Sequence[Unit]) -> list[Outcome]:
        """Outcomes of those units that need not be sent: another run has their answers."""
        ...


class Batch:
    """One group commit: filled by the engine, written in one transaction. All of it becomes durable, or nothing does.

    `made` and `answered` are filled by the commit: units that a `Reducer` has made of answers which became durable with it, with
    payload, and outcomes of those that are not to be sent.
    """

    __slots__ = (
        "answered", "items", "leases", "made", "meta", "outcomes", "pieces", "released", "reopened", "samples", "slices", "units",
    )  # fmt: skip

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.pieces: list[tuple[int, int, int]] = []  # item, n, unit
        self.slices: list[Slice] = []
        self.units: list[Unit] = []
        self.made: list[Unit] = []
        self.answered: list[Outcome] = []
        self.leases: list[int] = []
        self.released: list[int] = []  # leased, and not sent after all
        self.reopened: list[int] = []  # failed only because the configuration is wrong
        self.outcomes: list[Outcome] = []
        self.samples: list[Sample] = []
        self.meta: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


class Ledger(Protocol):
    """The only truth about a run. Blocking; one writer, one batch at a time. What `finish` returned from is on disk.

    After DiskError nothing more is written: the batch that failed is not durable and its units are not done.
    """

    def prepare(self, batch: Batch) -> None:
        """Write a batch into a transaction that others do not see yet: short work, which waits for no disk as a rule.

        Raises DiskError; then nothing is left of it, as after `finish` has raised.
        """
        ...

    def finish(self) -> None:
        """Make durable what was prepared. Waits for the disk. Raises DiskError."""
        ...

    def close(self) -> None: ...


class Intake(Protocol):
    """The feed's supply: reads the input on, and makes requests of what the ledger holds. Blocking; one caller at a time."""

    def take(self, limit: int) -> Intaken:
        """Read on: at most `limit` records. After `done` it is not called again. Raises InputError, InputBrokenError."""
        ...

    def recall(self, after: int, limit: int) -> list[Unit]:
        """Pending units with seq > after that are durable, in order, with payload. Raises InputBrokenError."""
        ...

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        """Those of these units that are pending and durable, in this order, with payload. Raises InputBrokenError."""
        ...

    def interrupt(self) -> None:
        """Let a `take` that computes break off with InputBrokenError, if it can. Called beside it, from the event loop."""
        ...


class Sink(Protocol):
    """Writes output rows in the order given, atomically: the path holds the whole file after `close`, or what it held before.

    Raises OutputError. `abort` leaves nothing behind.
    """

    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Row(Protocol):
    """One output record. `raw` is the input's own JSON object where there is one (its fields pass through byte for
    byte); `answers` are our fields, in order, with JSON-ready values.
    """

    @property
    def raw(self) -> bytes | None: ...

    @property
    def answers(self) -> dict[str, Any]: ...

    @property
    def answer_json(self) -> bytes | None:
        """JSON text that stands for the value of the first field of `answers`, or None."""
        ...


class Clock(Protocol):
    """Wall time, for what is shown and stored. Durations are measured in loop time."""

    def now(self) -> float:
        """Unix seconds."""
        ...


class Observer(Protocol):
    """Is told what happens. Must not block and must not raise."""

    def __call__(self, event: Event) -> None: ...


class Executor(Protocol):
    """A way to get every pending unit settled."""

    async def run(self) -> Any: ...


class Records(Protocol):
    """Where records live: bytes by (file, offset, length)."""

    def fetch(self, places: Iterable[tuple[int, int, int]]) -> list[bytes]: ...


__all__ = [
    "Answer",
    "Attempt",
    "Batch",
    "Clock",
    "Endpoint",
    "Executor",
    "Intake",
    "Judge",
    "Ledger",
    "Observer",
    "Record",
    "Records",
    "Reducer",
    "Renderer",
    "Row",
    "Sink",
    "Source",
]
