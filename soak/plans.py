"""What one life meets, drawn from its seed: texts, limits, laws and faults of the endpoint, and how its processes end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from headrace.engine.knobs import Knobs, Pace
from headrace.policy.budget import Caps, Most
from headrace.policy.price import Prices
from headrace.testing import NEVER, Laws
from headrace.values import Failure, Kind, Sent
from soak.sites import Site, awaits

OUTAGES = (
    Failure(Kind.SERVER_ERROR, "boom", status=500),
    Failure(Kind.OVERLOADED, "busy", status=503),
    Failure(Kind.RATE_LIMITED, "slow down", status=429, wait_s=2.0),
    Failure(Kind.CONNECTION, "lost", Sent.MAYBE),
    Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True),
    Failure(Kind.TIMEOUT, "nothing came", Sent.MAYBE),
    Failure(Kind.PROTOCOL, "no HTTP", Sent.YES),
    Failure(Kind.AUTH, "wrong key", status=401),
    Failure(Kind.QUOTA, "no credit", status=402),
    Failure(Kind.BAD_REQUEST, "unknown field", status=400),
    Failure(Kind.CONTEXT_TOO_LONG, "too long", status=400),
)


PRICES = Prices(1e-6, 4e-6, 5e-7)  # of every endpoint
BESIDE = 8  # tokens that no fake puts around a prompt
LONG = 120  # a life with more texts than this fills every buffer
# Statements of either ledger that few commits run.
RARE_STATEMENTS = ("released", "release", "reopened", "reopen", "settle_unsent", "samples", "insert_sample")


@dataclass(frozen=True)
class End:
    """How a process ends, unless it comes to its own end before: at the nth statement of the ledger, at the nth callback of
    the loop (each is what follows an await), at a time, or by Ctrl-C at times. All None: it is left alone. Where `named` or
    `site` is given, only statements of that name and callbacks that go on from that await are counted. From the commit
    `disk_full_from` on, so many of them fail.
    """

    statement: int | None = None
    named: str | None = None
    callback: int | None = None
    site: Site | None = None
    kill_at_s: float | None = None
    interrupts_at_s: tuple[float, ...] = ()
    disk_full_from: int | None = None
    failing_commits: int = 0


@dataclass(frozen=True)
class Plan:
    """One life, with an endpoint for each pace. `outages` come back in every process but the last ones, whose endpoints are
    well; the first endpoint has them, and all where `is_shared`.
    """

    seed: int
    texts: tuple[str, ...]
    knobs: Knobs
    paces: tuple[Pace, ...]
    laws: Laws
    outages: tuple[tuple[float, float, Failure], ...]
    odd: dict[int, tuple[str, ...]]  # unit → what its first sends bring: "empty", "refused", "error"
    ends: tuple[End, ...]
    on_disk: bool
    is_shared: bool
    caps: Caps  # of every process but the last ones; what has ended a process is raised for the next


def draw(seed: int) -> Plan:
    """The plan of a seed: an equal seed gives an equal plan."""
    rng = random.Random(f"life {seed}")
    count = rng.choice([1, 2, 3, 12, 40, 120]) if rng.random() < 0.99 else 1500
    distinct = max(1, count * rng.choice([2, 3, 4]) // 4)
    texts = _texts(rng, count, distinct)
    rng.shuffle(texts)
    longest = max(len(text) for text in texts)
    return Plan(
        seed=seed,
        texts=tuple(texts),
        knobs=replace(_knobs(rng, is_long=count > LONG), most=Most(BESIDE, longest // 4 + 1)),
        paces=tuple(_pace(rng, len(texts[0])) for _ in range(rng.choice([1, 1, 2, 3]))),
        laws=_laws(rng, seed),
        outages=_outages(rng),
        odd={
            unit: tuple(rng.choice(["empty", "error", "refused", "lost"]) for _ in range(rng.choice([1, 2, 3, 20])))
            for unit in range(distinct)
            if rng.random() < 0.1
        },
        ends=tuple(_end(rng, is_long=count > LONG) for _ in range(rng.randint(1, 4))),
        on_disk=rng.random() < 0.3,
        is_shared=rng.random() < 0.3,
        caps=_caps(rng, distinct, longest),
    )


def _texts(rng: random.Random, count: int, distinct: int) -> list[str]:
    """So many texts, not all of them distinct; in some lives they share beginnings, within which some share longer ones."""
    if rng.random() < 0.5:
        return [f"text {n % distinct}" for n in range(count)]
    groups, length = rng.choice([1, 3, 10]), rng.choice([40, 300, 1000])
    beginnings = [f"document {group} ".ljust(length, "d") for group in range(groups)]
    parts = [f"part {part} ".ljust(length // 2, "p") for part in range(3)]
    return [beginnings[n % groups] + parts[n % 3] * (n % 2) + f"text {n}" for n in (n % distinct for n in range(count))]


def _knobs(rng: random.Random, *, is_long: bool) -> Knobs:
    return Knobs(
        run="life", config=1,
        max_attempts=rng.choice([1, 3, 6]), retry_invalid=rng.choice([0, 1, 2]), retry_ambiguous=rng.random() < 0.8,
        attempt_timeout=rng.choice(["auto", 2.0]), unit_deadline_s=rng.choice([3600.0, 3600.0, 30.0]),
        run_deadline_s=None if is_long else rng.choice([None, None, None, 3.0]), give_up_after_s=rng.choice([1800.0, 20.0]),
        drain_s=rng.choice([30.0, 0.2]), order=rng.choice(["input", "auto", "prefix", "longest"]),
    )  # fmt: skip


def _pace(rng: random.Random, length: int) -> Pace:
    """The limits leave a few seconds enough to do for texts of about this length."""
    return Pace(
        rng.choice([1, 2, 8, 32]), rng.choice([None, (1, 64)]), rng.choice([None, None, None, 600.0]),
        rng.choice([None, None, None, 6000.0 * max(1, length // 10)]), background=rng.random() < 0.1,
    )  # fmt: skip


def _laws(rng: random.Random, seed: int) -> Laws:
    chance: dict[str, Any] = {
        "error_rate": rng.choice([0.0, 0.0, 0.1]), "overload_rate": rng.choice([0.0, 0.05, 0.3]),
        "reset_rate": rng.choice([0.0, 0.05]), "hang_rate": rng.choice([0.0, 0.0, 0.02]),
        "fail_once_rate": rng.choice([0.0, 0.1]), "max_in_flight": rng.choice([0, 0, 4]),
        "requests_per_minute": rng.choice([0.0, 0.0, 600.0]), "retry_after_s": rng.choice([None, 0.5, 2.0]),
    }  # fmt: skip
    if rng.random() < 0.3:  # it tells of itself
        chance |= {
            "style": rng.choice(["vllm", "sglang", "llama.cpp"]), "kv_tokens": rng.choice([0, 2_000]),
            "background": rng.choice([(), ((0.0, 2), (8.0, 0)), ((0.0, 1), (1.0, 6), (3.0, 0))]),
        }  # fmt: skip
    return Laws(latency_ms=rng.choice([1, 20, 300]), jitter=0.5, slots=rng.choice([0, 0, 4]), seed=seed, **chance)


def _outages(rng: random.Random) -> tuple[tuple[float, float, Failure], ...]:
    if rng.random() < 0.6:
        return ()
    start = rng.choice([0.0, rng.random()])
    return ((start, rng.choice([start + rng.random() * 5, start + 30.0, NEVER]), rng.choice(OUTAGES)),)


def _caps(rng: random.Random, distinct: int, longest: int) -> Caps:
    """In every second life one limit or several, of a part of what the job takes or a little more than that."""
    if rng.random() < 0.5:
        return Caps()
    share = rng.choice([0.2, 0.6, 1.1, 3.0]) * distinct
    tokens = share * (longest // 2 + 2)  # the prompt, and the answer that says it again
    return Caps(
        cost=tokens * PRICES.output if PRICES.output and rng.random() < 0.5 else None,
        tokens=1 + int(tokens) if rng.random() < 0.5 else None,
        requests=1 + int(share) if rng.random() < 0.5 else None,
    )


def _perhaps(rng: random.Random) -> tuple[float, ...]:
    return (rng.random(),) if rng.random() < 0.3 else ()


def _end(rng: random.Random, *, is_long: bool) -> End:
    doublings = 14 if is_long else 11
    match rng.randrange(9):
        case 0:
            sites = [site for site in awaits() if "supply" in site.path] if is_long else awaits()
            return End(callback=rng.choice([1, 1, 3, 30]), site=rng.choice(sites), interrupts_at_s=_perhaps(rng))
        case 1 | 2:
            return End(callback=int(2 ** (rng.random() * doublings)))
        case 3:
            return End(statement=rng.randrange(1, 60))
        case 4:
            return End(statement=rng.choice([1, 1, 2]), named=rng.choice(RARE_STATEMENTS))
        case 5:
            return End(kill_at_s=rng.random() * 3)
        case 6:
            later = rng.choice([None, int(2 ** (rng.random() * doublings))])
            return End(disk_full_from=rng.randrange(1, 20), failing_commits=rng.choice([1, 2, 1000]), callback=later)
        case 7:
            later = rng.choice([None, int(2 ** (rng.random() * doublings))])
            return End(interrupts_at_s=(rng.random() * 2,), callback=later)
        case _:
            first = rng.random() * 2
            return End(interrupts_at_s=(first, first + rng.random() * 0.3))
