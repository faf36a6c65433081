"""What the engine is given: limits of a run, the parts it works with, where it starts, and how it ended."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from headrace.engine.offload import Offload
from headrace.policy.bucket import Rates
from headrace.policy.budget import Budget, Caps, Learnt, Most, Spent
from headrace.policy.classes import BATCH, Manners
from headrace.policy.price import Prices
from headrace.policy.share import Share
from headrace.policy.timeout import AttemptLimits
from headrace.policy.tuning import TuningWindow
from headrace.policy.window import Window
from headrace.protocols import Clock, Endpoint, Intake, Judge, Ledger, Observer


class Pace(Struct, frozen=True):
    """How fast one endpoint is asked. None means: no such limit.

    With `tuned`, `concurrency` is where the window begins, and it finds its own size within (least, most).
    """

    concurrency: int = 8
    tuned: tuple[int, int] | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    background: bool = False  # others come first

    @property
    def most_in_flight(self) -> int:
        return self.tuned[1] if self.tuned is not None else self.concurrency

    def window(self) -> Window | TuningWindow:
        """A new window, as it begins."""
        if self.tuned is None:
            return Window(self.concurrency)
        least, most = self.tuned
        return TuningWindow(self.concurrency, least, most)

    def share(self) -> Share | None:
        """What bounds ours where others come first; None: the endpoint is ours alone."""
        return Share(self.most_in_flight) if self.background else None

    def rates(self, longest: int | None) -> Rates:
        """The limits per minute that the job names, to which a server's own may come. `longest`: answer, in tokens."""
        return Rates(self.requests_per_minute, self.tokens_per_minute, longest)


class Knobs(Struct, frozen=True):
    """Limits and names of one run. Durations are seconds; None means: no such limit.

    `manners` is what follows from `limits.class` and is no key; what is one stands here by itself.
    """

    run: str
    config: int
    max_attempts: int = 6
    retry_invalid: int = 1
    retry_ambiguous: bool = True
    attempt_timeout: float | str = "auto"
    max_tokens: int | None = None
    unit_deadline_s: float = 3600.0
    run_deadline_s: float | None = None
    give_up_after_s: float = 1800.0
    drain_s: float = 30.0
    finish_reading_s: float = 30.0
    order: str = "input"
    shared_bytes: int = 0  # that all payloads have in common at their beginning
    caps: Caps = Caps()
    most: Most = Most()
    manners: Manners = BATCH

    def budget(self, asked: Sequence[Asked], spent: Spent) -> Budget | None:
        """What may still be spent; None where nothing is limited and nothing has a price."""
        return Budget(self.caps, spent) if self.caps or any(one.prices is not None for one in asked) else None

    def attempt_limits(self) -> AttemptLimits:
        """The time limits of attempts at one endpoint, as they begin."""
        return AttemptLimits(self.attempt_timeout, self.max_tokens, self.manners.patience)


class Asked(NamedTuple):
    """One endpoint of the run and how fast it is asked. `number` is the ledger's number of who answers; `prices` are None where
    they are not known.

    `model` is the name that it is asked for, None where there is no doubt about it. `is_proven`: it has answered this
    configuration before, so that its first request need not go alone. `learnt` is what an earlier process of the run has learnt
    of what requests take.
    """

    endpoint: Endpoint
    pace: Pace
    number: int = 1
    prices: Prices | None = None
    model: str | None = None
    is_proven: bool = False
    learnt: Learnt | None = None


@dataclass(frozen=True)
class Parts:
    """The edges that the engine works with."""

    endpoints: Sequence[Asked]
    judge: Judge
    intake: Intake
    ledger: Ledger
    clock: Clock
    offload_rows: Offload
    offload_ledger: Offload
    offload_intake: Offload
    observers: Sequence[Observer] = ()
    plain_judge: Judge | None = None  # of answers that are joined by further requests
    rng: random.Random = field(default_factory=random.Random)


class Ending(Struct, frozen=True):
    """How the engine ended. `reason` None: everything is settled. `message` is one line for people."""

    reason: str | None = None
    message: str | None = None
    exit_code: int = 0
    input_complete: bool = True


class Start(Struct, frozen=True):
    """Where a run stands when the engine takes it up: units that were read, of all units those not settled, whether the
    input has been read whole before, and what has been spent.
    """

    recorded: int = 0
    open_units: int = 0
    read_done: bool = False
    may_make: bool = False  # whether units are made of answers,
    made: int = 0  # how many there are,
    pending_made: Sequence[int] = ()  # and which of them are to be sent
    spent: Spent = Spent()
    ending: Ending | None = None  # the run is stopping already: nothing is sent, only reading is finished
