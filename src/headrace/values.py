"""The values that travel the main path: each hop adds one frozen value and keeps the one before.

They hold no cycles, so the garbage collector need not look at them (`gc=False`): there are millions.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct


class Status(StrEnum):
    """An item's status, as `answer_status` says it."""

    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"
    PENDING = "pending"


class Kind(StrEnum):
    """What a failure is. The groups below say what each means for the unit and for the run."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    PROTOCOL = "protocol"

    AUTH = "auth"
    QUOTA = "quota"
    MODEL_MISSING = "model_missing"
    BAD_ENDPOINT = "bad_endpoint"
    SCHEMA_REFUSED = "schema_refused"
    MISCONFIGURED = "misconfigured"

    BAD_REQUEST = "bad_request"
    CONTEXT_TOO_LONG = "context_too_long"
    TOO_LARGE = "too_large"
    CONTENT_FILTER = "content_filter"
    DEADLINE = "deadline"
    AMBIGUOUS = "ambiguous"

    INVALID_JSON = "invalid_json"
    SCHEMA_MISMATCH = "schema_mismatch"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    REFUSAL = "refusal"

    BAD_INPUT = "bad_input"


TRANSIENT = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.SERVER_ERROR, Kind.TIMEOUT, Kind.CONNECTION, Kind.PROTOCOL})
STOPPING = frozenset({Kind.AUTH, Kind.QUOTA, Kind.MODEL_MISSING, Kind.BAD_ENDPOINT, Kind.SCHEMA_REFUSED, Kind.MISCONFIGURED})
PERMANENT = frozenset(
    {
        Kind.BAD_REQUEST,
        Kind.CONTEXT_TOO_LONG,
        Kind.TOO_LARGE,
        Kind.CONTENT_FILTER,
        Kind.DEADLINE,
        Kind.AMBIGUOUS,
    }
)
UNACCEPTABLE = frozenset({Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH, Kind.TRUNCATED, Kind.EMPTY, Kind.REFUSAL})


class State(IntEnum):
    """A unit's state in the ledger. Values are stored: never renumber."""

    PENDING = 0
    LEASED = 1  # possibly sent: a crash now leaves it open
    DONE = 2
    FAILED = 3
    QUARANTINED = 4


FIRST_MADE = 1 << 31
"""Units that are made of answers (REDUCE) are numbered from here on: those that are read keep numbers without gaps."""


class UnitKind(IntEnum):
    """What a unit is asked for. Values are stored: never renumber."""

    ASK = 0
    REDUCE = 1
    EVAL = 2
    JUDGE = 3
    CANARY = 4
    CALIBRATE = 5
    REPEAT = 6


class Origin(IntEnum):
    """Where an attempt comes from. Values are stored: never renumber."""

    SENT = 0
    LOST = 1  # a lease that a crash or a second Ctrl-C left open: whether it was sent is unknown
    REUSED = 2  # taken over from another run: nothing was sent


class Sent(StrEnum):
    """Whether a failed request reached the server, which decides whether it may have been billed."""

    NO = "no"  # the connection itself failed: nothing was sent
    MAYBE = "maybe"  # sent, and no complete reply came (also 408, 504, 524): possibly billed
    YES = "yes"  # a complete reply came


class Note(StrEnum):
    """What `answer_notes` may hold."""

    INPUT_CUT = "input_cut"
    OUTPUT_CUT = "output_cut"
    REPAIRED = "repaired"
    FINISH_UNKNOWN = "finish_unknown"
    USAGE_MISSING = "usage_missing"
    INPUT_TRUNCATION_SUSPECTED = "input_truncation_suspected"


class Record(Struct, frozen=True, gc=False):
    """What a source yields: one input record.

    `fields` is None when the record is unreadable; `reason` then says why. `raw` is the record's bytes: for a file read
    in place the exact bytes of its line without the line end (`offset` says where), else UTF-8 JSON to be copied
    (`offset` is -1). `number` is what people are told: the 1-based physical line in a line file, else the record's number.
    """

    number: int
    raw: bytes
    fields: dict[str, Any] | None
    reason: str | None = None
    file: int = 0
    offset: int = -1


class Chunk(Struct, frozen=True, gc=False):
    """Some records and the position to go on from after them. `done`: the input has ended."""

    records: list[Record]
    position: str
    done: bool
    excluded: int = 0


class Item(Struct, frozen=True, gc=False):
    """One input record as the ledger holds it. `seq` counts from 0 over the whole input and is the output's order.

    `error` is the reject's `kind: cause`, or None. Of an unreadable record only `raw` is known.
    """

    seq: int
    file: int
    offset: int
    length: int
    number: int
    id: str | int | float | bool | None
    error: str | None = None
    readable: bool = True
    notes: int = 0  # bit set, see headrace.ledger


class Piece(Struct, frozen=True, gc=False):
    """One slice of an item. `fields` is what the template sees; `cut` says that text was cut off.

    `n` counts from 0, `of` is how many pieces the item has.
    """

    item: int
    n: int
    fields: dict[str, Any]
    cut: bool = False
    of: int = 1


class Slice(Struct, frozen=True, gc=False):
    """What a piece of a divided item holds of one field: its text from `start` up to `stop`, in code points.

    `gap` is the white space around `stop` in the text, see `headrace.slicing.gaps`: what joined answers have between them.
    """

    item: int
    n: int
    field: str
    start: int
    stop: int
    gap: int = 0


class Unit(Struct, frozen=True, gc=False):
    """One distinct request. `item` and `n` name the piece that it was first met in.

    `payload` is the encoded variable part of the body (the messages array, or the prompt string), or None where it is
    to be rendered again from the record. `spent` counts sends of this ask that count against `max_attempts`; `ask` is 0
    for the first ask and grows with each re-ask; `age_s` is the time since its first send without pauses.
    """

    seq: int
    hash: bytes
    item: int
    n: int = 0
    kind: UnitKind = UnitKind.ASK
    config: int = 1
    payload: bytes | None = None
    ask: int = 0
    spent: int = 0
    age_s: float = 0.0
    state: State = State.PENDING
    corrected: bytes | None = None  # the payload of a re-ask that goes on
    plain: bool = False  # its answer is a text, whatever `[answer]` says of the item's: a reducing prompt joins it with others


class Request(Struct, frozen=True, gc=False):
    """One send. `payload` as in Unit (of a re-ask: with the correction appended); `plain`: no schema is asked for."""

    unit: int
    ask: int
    payload: bytes
    idempotency_key: str
    timeout_s: float
    plain: bool = False


class Usage(Struct, frozen=True, gc=False):
    """Tokens as the server counted them; None where it did not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class Limit(Struct, frozen=True, gc=False):
    """A limit that a server named with a reply: of requests, tokens, input_tokens or output_tokens.

    `reset_s`: seconds until it is whole again where it `refills` steadily, else until its window ends. `period_s`: the
    window's length, where the server says it.
    """

    what: str
    limit: float | None = None
    remaining: float | None = None
    reset_s: float | None = None
    period_s: float | None = None
    refills: bool = True


class Reply(Struct, frozen=True, gc=False):
    """A complete, well-formed reply, not judged yet. `finish` is the server's own word, or None.

    `likeliest` is set where log-probabilities were asked for: the first place's likeliest tokens as text, with the natural
    logarithm of each one's probability, likeliest first. Bytes that are no UTF-8 stand as lone surrogates. `timing`: seconds in
    which the server says that it computed prompt and answer, where it does.
    """

    content: str | None
    finish: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    usage: Usage | None = None
    model: str | None = None
    likeliest: list[tuple[str, float]] | None = None
    limits: tuple[Limit, ...] | None = None
    timing: tuple[float, float] | None = None


class Failure(Struct, frozen=True, gc=False):
    """Why a send, or the judging of its reply, gave no answer.

    `wait_s` is the wait that the server named. `mended`: the endpoint has already changed how it speaks (a renamed
    field, a fresh key), so the same unit is to be sent again at once and the send does not count. `status` is the HTTP
    status, `code` the server's own code.
    """

    kind: Kind
    message: str
    sent: Sent = Sent.YES
    status: int | None = None
    code: str | None = None
    wait_s: float | None = None
    mended: bool = False
    usage: Usage | None = None
    refused: bool = False  # the connection was refused: a server may still be loading
    learnt: str | None = None  # what is sent otherwise from now on, where people should know: their schema
    limits: tuple[Limit, ...] | None = None


class Answer(Struct, frozen=True, gc=False):
    """An accepted answer. `value` is its JSON text; None means: exactly the reply's content, as a string.

    `confidence` is a scored label's share of the probability, in 0..1.
    """

    value: str | None = None
    notes: tuple[Note, ...] = ()
    confidence: float | None = None


class Attempt(Struct, frozen=True, gc=False):
    """One send as the ledger keeps it. `started_at` is wall time (Unix seconds); `kind` None means a usable reply.

    `origin` says whether this process knows of the send. `most`: the tokens of prompt and answer that it may have taken at
    most, where it may have been billed and came without usage.
    """

    unit: int
    ask: int
    started_at: float
    seconds: float
    config: int
    endpoint: int
    kind: Kind | None = None
    sent: Sent = Sent.YES
    message: str | None = None
    status: int | None = None
    reply: Reply | None = None
    usage: Usage | None = None
    origin: Origin = Origin.SENT
    most: tuple[int, int] | None = None


class Outcome(Struct, frozen=True, gc=False):
    """What becomes of a unit after a send, written together with its attempt (None: the unit was never sent again).

    A unit whose `state` stays LEASED goes on: a retry or a re-ask follows. `error` is `kind: cause` of a unit that
    failed or was quarantined.
    """

    unit: int
    state: State
    attempt: Attempt | None
    answer: Answer | None = None
    error: str | None = None
    ask: int = 0
    spent: int = 0
    age_s: float = 0.0


class Intaken(Struct, frozen=True, gc=False):
    """What one step of reading adds to the ledger. `units` are the new ones, with payload; `first_unit` numbers the first.

    `meta` is committed with them: how far the input has been read.
    """

    items: list[Item]
    pieces: list[tuple[int, int, int]]
    units: list[Unit]
    first_unit: int
    meta: dict[str, Any]
    done: bool
    outcomes: list[Outcome] = []  # of units that need not be sent: their answers are taken over from another run
    rejected: int = 0
    slices: list[Slice] = []  # of items that were divided


class Reduction(Struct, frozen=True, gc=False):
    """One request that joins the answers from `first` up to `stop` of the level below. `n` counts within its level.

    The one that `is_last` gives the item's answer. `error` is `kind: cause` where no request can be made of these answers.
    """

    n: int
    first: int
    stop: int
    is_last: bool
    hash: bytes
    payload: bytes = b""
    error: str | None = None


class Gauges(Struct, frozen=True, gc=False):
    """What a server says of its load just now, all clients together; None where it does not say.

    `kv_used` is a share of 0 to 1, of the fullest of its engines. The last three are counts since the server's start, the
    prefix cache's in tokens.
    """

    running: int | None = None
    waiting: int | None = None
    waiting_for_capacity: int | None = None  # those of `waiting` that found no room, where reasons are told apart
    kv_used: float | None = None
    preemptions: int | None = None
    prefix_hits: float | None = None
    prefix_queries: float | None = None


class Capacity(Struct, frozen=True, gc=False):
    """What a server is and holds, all its engines together; None where it does not say.

    `server` is vllm, sglang, llama.cpp, ollama, tgi, tei, tensorrt-llm, openai or unknown. `requests` are worked on at once
    at most, `tokens` held in the KV cache, in blocks of `block`; a request may have `context` of them. `told_by` says where
    the figures are from, `gauges` which of `Gauges` it tells. `lists_all`: `models` are all that it lists.
    """

    server: str = "unknown"
    requests: int | None = None
    tokens: int | None = None
    block: int | None = None
    context: int | None = None
    prefix_caching: bool | None = None
    told_by: str = ""
    models: tuple[str, ...] = ()
    gauges: tuple[str, ...] = ()
    lists_all: bool = True


class Sample(Struct, frozen=True, gc=False):
    """One second of one endpoint, for reports. `bound_by`: what keeps the run from going faster.

    `waiting` and `kv_used` are the server's own, as in `Gauges`.
    """

    at: float
    endpoint: int
    window: int
    in_flight: int
    settled: int
    retries: int
    bound_by: str | None
    paused: bool
    lag_s: float
    waiting: int | None = None
    kv_used: float | None = None

    @property
    def says_load(self) -> bool:
        return self.waiting is not None or self.kv_used is not None
