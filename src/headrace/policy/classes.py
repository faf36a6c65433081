"""What follows from `limits.class`: one table, and what it makes of each kind of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from headrace.policy.timeout import Patience
from headrace.policy.verdict import Action, Standing, decide
from headrace.values import Failure, Kind


class Backoff(Struct, frozen=True):
    """Seconds before the second send, doubled with each failure up to the longest."""

    first_s: float
    longest_s: float


class Manners(Struct, frozen=True):
    """How long and how often an endpoint is asked. Durations are seconds.

    The first five are keys of `[limits]`: what the job writes wins. `patience` says what `attempt_timeout = "auto"` means;
    `backoff` is no key.
    """

    max_attempts: int
    attempt_timeout: float | str
    unit_deadline: float
    give_up_after: float
    drain: float
    patience: Patience
    backoff: Backoff


# Nobody waits for a single answer, and each may have been paid for: hold out, and let the endpoint come back. A GPU node that
# is replaced takes ten to twenty minutes, hence half an hour; an hour covers six attempts of which some were cut.
BATCH = Manners(
    max_attempts=6, attempt_timeout="auto", unit_deadline=3600.0, give_up_after=1800.0, drain=30.0,
    patience=Patience(base_s=60.0, per_token_s=0.25, times=3.0), backoff=Backoff(first_s=0.5, longest_s=60.0),
)  # fmt: skip

# Somebody waits. Attempts and back-off are those of the providers' own clients: two retries, half a second doubled up to 8 s,
# and no waiting for whoever asks for more than 2 minutes. Their 600 s for an attempt suit nobody at a screen: 20 s for the
# queue and the prompt, then ten tokens a second, which is slower than people read. Past 5 minutes nobody is there any more.
ONLINE = Manners(
    max_attempts=3, attempt_timeout="auto", unit_deadline=300.0, give_up_after=120.0, drain=10.0,
    patience=Patience(base_s=20.0, per_token_s=0.1, times=3.0), backoff=Backoff(first_s=0.5, longest_s=8.0),
)  # fmt: skip

CLASSES: Mapping[str, Manners] = {"batch": BATCH, "online": ONLINE}
KEYS = ("max_attempts", "attempt_timeout", "unit_deadline", "give_up_after", "drain")


MANY = 1000  # requests: nobody waits at a screen for so many
SHORT_S = 60.0  # a unit's deadline, and
SHORT_ATTEMPT_S = 10.0  # an attempt's time limit, that only somebody who waits has a reason for


def misfit(limits: Mapping[str, Any], requests: int) -> str | None:
    """Why a job with these `[limits]` and so many requests, as far as is known, looks as if it were of the other class.

    Durations are seconds. What the job itself has written as the other class has it is no misfit.
    """
    attempts, deadline_s, attempt_s = limits["max_attempts"], limits["unit_deadline"], limits["attempt_timeout"]
    if limits["class"] == "online":
        is_short = attempts < BATCH.max_attempts and deadline_s < BATCH.unit_deadline
        if requests < MANY or not is_short:
            return None
        return (
            f'limits.class = "online" gives a record up after {attempts} sends or {deadline_s:,.0f} s, as for somebody who '
            f"waits; with {requests:,} requests or more this looks like a batch, which holds out for {BATCH.max_attempts} sends "
            f'and {BATCH.unit_deadline:,.0f} s: limits.class = "batch"'
        )
    if deadline_s < SHORT_S:
        found = f"limits.unit_deadline = {deadline_s:g} s"
    elif isinstance(attempt_s, float | int) and attempt_s < SHORT_ATTEMPT_S:
        found = f"limits.attempt_timeout = {attempt_s:g} s"
    else:
        return None
    return (
        f"{found} gives up what may have been paid for, as only somebody who waits has a reason to, and the rest of limits.class "
        '= "batch" holds out; where somebody does wait: limits.class = "online"'
    )


def defaults_of(name: str) -> dict[str, Any]:
    """The keys of `[limits]` that follow from a class, with their values."""
    values = asdict(CLASSES[name])
    return {key: values[key] for key in KEYS}


class Course(Struct, frozen=True):
    """What becomes of a unit whose every send ends with one kind of failure.

    `sends` is how many there are, None where only time bounds them; `last` is what the last of them leads to.
    """

    first: Action
    counts: bool
    sends: int | None
    last: Action


def course(kind: Kind, manners: Manners, retry_invalid: int = 1) -> Course:
    """Asked of `policy.verdict.decide`, send by send."""
    failure = Failure(kind, "")
    spent = reasks = 0
    sends, first = 1, None
    while True:
        verdict = decide(failure, Standing(spent, reasks, manners.max_attempts, retry_invalid, retry_ambiguous=True))
        first = first or verdict
        if verdict.action is Action.RETRY and not verdict.counts:
            return Course(first.action, counts=False, sends=None, last=Action.FAIL)
        if verdict.action not in {Action.RETRY, Action.REASK}:
            return Course(first.action, first.counts, sends, verdict.action)
        sends += 1
        spent += verdict.counts
        reasks += verdict.action is Action.REASK
