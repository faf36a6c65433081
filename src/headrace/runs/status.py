"""Where a run stands: every figure computed from the ledger's records, also while it runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.clock import WallClock
from headrace.ledger.columns import columns
from headrace.ledger.lock import is_held
from headrace.ledger.notes import to_bits
from headrace.ledger.reader import LedgerReader
from headrace.policy.advice import advise
from headrace.policy.budget import may_be_billed
from headrace.quality.spotcheck import review_of
from headrace.runs import archive
from headrace.runs.attempts import Attempts, Numbers, count_asks, read_attempts
from headrace.runs.capacities import capacities_of
from headrace.runs.divided import join_of
from headrace.runs.failures import item_name
from headrace.runs.registry import RunFolder
from headrace.runs.spending import tariffs_of
from headrace.runs.symptoms import symptoms_of
from headrace.values import Note, Origin, Sent, State

_STATUS = {State.DONE: "done", State.FAILED: "failed", State.QUARANTINED: "quarantined"}
ALARM = "alarm"  # the ledger's name for what all answers look like together, where that is not right
_SUSPECTED = to_bits([Note.INPUT_TRUNCATION_SUSPECTED])
_INTERRUPTED = frozenset({130, 143})


def status(path: Path, *, ended: dict[str, Any] | None = None) -> dict[str, Any]:
    """The document of `status --json`. `ended`: how the run has just ended, for the process that still holds its lock.

    Raises LedgerError.
    """
    folder = RunFolder(path)
    running = ended is None and is_held(folder.lock)
    reader = LedgerReader(folder.ledger)
    try:
        reader.snapshot()
        ending = ended if ended is not None else {} if running else reader.meta("ending", {})
        return _document(folder, reader, ending, running=running)
    finally:
        reader.close()


def show(path: Path) -> dict[str, Any]:
    """The archive of a run: its configurations and its figures now."""
    folder = RunFolder(path)
    reader = LedgerReader(folder.ledger)
    try:
        configurations = [
            {"config": c.number, "made_at": c.made_at, "hash": c.content_hash, "content": c.content, "operating": c.operating}
            for c in reader.configs()
        ]
        capacity = capacities_of(reader)
        evaluation = reader.meta("evaluation")
    finally:
        reader.close()
    document = archive.read(folder)
    document.pop("figures", None)
    return {**document, "capacity": capacity, "evaluation": evaluation, "configurations": configurations, "figures": status(path)}


class _Units(NamedTuple):
    """The columns of the query `unit_figures`."""

    total: int
    done: int
    leased: int
    tried: int  # those with an attempt
    asked: int  # of the job itself
    answered: int
    read: int  # of these those that no further request has made


def _document(folder: RunFolder, reader: LedgerReader, ending: dict[str, Any], *, running: bool) -> dict[str, Any]:
    units = _Units(*reader.one("unit_figures"))
    (pieces,) = reader.one("count_pieces")
    items = _items(reader, units)
    tariffs = tariffs_of(reader)
    attempts = read_attempts(reader, tariffs)
    requests, tokens = _requests(reader, attempts, units)
    if not running:
        _add_open_leases(units.leased, requests, tokens)
    suspected = {"input_truncation": reader.one("count_noted", (_SUSPECTED,))[0] if reader.one("suspects")[0] else 0}
    span_s = _active_seconds(reader, attempts)
    settled = items["done"] + items["failed"] + items["quarantined"]
    document = {
        "run": folder.id,
        "name": archive.read(folder).get("name"),
        "state": _state(ending, running=running),
        "reason": ending.get("reason"),
        "message": ending.get("message"),
        "exit_code": ending.get("exit_code"),
        "input_complete": bool(reader.meta("reading", {}).get("done", False)),
        "items": items,
        "units": {"total": units.asked, "done": units.answered, "duplicates_saved": pieces - units.read},
        "slices": _slices(reader, pieces, items["total"] - items["rejected"]),
        "requests": requests,
        "tokens": tokens,
        "cost": _cost(attempts, tokens, is_priced=bool(tariffs.prices)),
        "rate": {
            "items_per_minute": round(60 * max(settled - requests["reused"], 0) / span_s, 3) if span_s > 0 else 0.0,
            "retry_rate": _share(requests["retries"], requests["sent"]),
            "failure_rate": _share(items["failed"] + items["quarantined"], settled),
        },
        "latency_s": _percentiles(attempts.seconds),
        "latency_split_s": _split(reader),
        "context_tokens": _context(attempts.contexts),
        "concurrency": _concurrency(reader, attempts, running=running),
        "in_flight": _in_flight(reader, running=running),
        "quality": _quality(reader, folder),
        "suspected": suspected,
        "advice": [],
        "excluded": int(reader.meta("reading", {}).get("excluded", 0)),
        "configurations": _configurations(reader, units),
        "output": reader.meta("output"),
    }
    alarm = reader.meta(ALARM)
    document["advice"] = [alarm] * (alarm is not None) + [str(one) for one in advise(symptoms_of(reader, document))]
    return document


def _quality(reader: LedgerReader, folder: RunFolder) -> dict[str, Any]:
    """Whether the answers are right, as far as anybody has measured."""
    evaluation = reader.meta("evaluation")
    kept = ("n_total", "n_scored", "n_error", "score", "interval", "gate", "baseline")
    reviewed = review_of(folder.path) or {"reviewed": 0, "accepted": 0, "interval": None}
    return {
        "eval_score": evaluation["score"] if evaluation is not None else None,
        "reviewed": reviewed["reviewed"], "accepted": reviewed["accepted"], "interval": reviewed["interval"],
        "repeat": reader.meta("repeated"), "drift": reader.meta("drift"),
        "eval": {key: evaluation[key] for key in kept} if evaluation is not None else None,
    }  # fmt: skip


def _state(ending: dict[str, Any], *, running: bool) -> str:
    """Derived from the lock: a run that a dead process left says so without anybody having written it."""
    if running:
        return "running"
    code = ending.get("exit_code")
    if ending.get("reason") == "evaluated":
        return "stopped"
    if code is None or code in _INTERRUPTED:
        return "interrupted"
    return "finished" if code in {0, 3} else "stopped"


def _items(reader: LedgerReader, units: _Units) -> dict[str, int]:
    total, rejected = reader.one("count_items")
    if join_of(reader) is not None:
        counts = dict(zip(_STATUS.values(), reader.one("divided_states"), strict=True))
    elif units.done == units.total:  # then no unit has to be looked at for its item
        counts = {"done": reader.one("count_first_pieces")[0], "failed": 0, "quarantined": 0}
    else:
        counts = dict(zip(_STATUS.values(), reader.one("count_item_states"), strict=True))
    pending = total - rejected - sum(counts.values())
    return {"total": total, **counts, "rejected": rejected, "pending": pending}


def _slices(reader: LedgerReader, pieces: int, items: int) -> dict[str, int]:
    """Items of which something was cut off, pieces, divided items, and requests that join answers."""
    slices = [stored.content.get("slice", {}) for stored in reader.configs()]
    cut = reader.one("count_cut")[0] if any(part.get("truncate") is not None for part in slices) else 0
    divided, joins = reader.one("count_divided") if pieces > items else (0, 0)
    return {"cut": cut, "pieces": pieces, "divided": divided, "joins": joins}


def _configurations(reader: LedgerReader, units: _Units) -> list[dict[str, int]]:
    """How many answers came from which configuration."""
    configs = reader.all("config_numbers")
    found = [(configs[0][0], units.answered)] if len(configs) == 1 and units.answered else reader.all("answers_by_config")
    return [{"config": config, "done": count} for config, count in found]


def _requests(reader: LedgerReader, attempts: Attempts, units: _Units) -> tuple[dict[str, Any], dict[str, int]]:
    """Requests and tokens. A lease left open counts as sent and as unknown; a reused answer was not sent."""
    sent = unsent = lost = reused = prompt = completion = cached = wasted = unknown = 0
    by_kind: dict[str, int] = {}
    for (kind, origin, how), sums in attempts.sums.items():
        if origin == Origin.REUSED:
            reused += sums.count
            continue
        sent += sums.count
        unsent += sums.count if how == Sent.NO else 0  # the connection itself failed: no request left
        lost += sums.count if origin == Origin.LOST else 0
        if kind is not None and origin == Origin.SENT:
            by_kind[kind] = by_kind.get(kind, 0) + sums.count
        prompt += sums.prompt
        completion += sums.completion
        cached += sums.cached
        if kind is not None:
            wasted += sums.prompt + sums.completion
        if may_be_billed(kind, how):
            unknown += sums.without_usage
    # As many sends as units that were sent, each by this run: then each was sent once, and no ask has to be looked at.
    each_once = sent == units.tried and not lost and not reused
    retries = 0 if each_once else sent - lost - count_asks(reader)
    requests = {"sent": sent - unsent, "retries": retries, "by_kind": by_kind, "possibly_sent": lost, "reused": reused}
    tokens = {"prompt": prompt, "completion": completion, "cached": cached, "wasted": wasted, "unknown_requests": unknown}
    return requests, tokens


def _add_open_leases(left: int, requests: dict[str, Any], tokens: dict[str, int]) -> None:
    """What a dead process had leased may have been sent, and billed; the next command writes it down."""
    requests["sent"] += left
    requests["possibly_sent"] += left
    tokens["unknown_requests"] += left


def _cost(attempts: Attempts, tokens: dict[str, int], *, is_priced: bool) -> dict[str, Any]:
    """USD. `spent` is what is known of it, and all where `known`; `useful` of it made answers, `wasted` did not. `at_most` counts
    what is not known at all that it may have been; null where nothing tells.
    """
    spending = attempts.spending
    billed = tokens["prompt"] + tokens["completion"] + tokens["unknown_requests"]
    is_bounded = not spending.unpriced and spending.unknown == tokens["unknown_requests"] and math.isfinite(spending.at_most)
    return {
        "spent": round(spending.known, 12), "currency": "USD",
        "known": billed == 0 or (is_priced and not spending.unpriced and not tokens["unknown_requests"]),
        "useful": round(spending.useful, 12), "wasted": round(spending.wasted, 12),
        "at_most": round(spending.at_most, 12) if billed == 0 or (is_priced and is_bounded) else None,
    }  # fmt: skip


def _active_seconds(reader: LedgerReader, attempts: Attempts) -> float:
    """Seconds in which the run was sending. Where an older release left no note of its processes, by the sampled seconds."""
    if attempts.is_whole:
        return attempts.span_s
    _, samples, _, _ = reader.one("samples")
    return min(attempts.span_s, samples + 1.0) if samples > 1 and len(attempts.seconds) else attempts.span_s


def _percentiles(seconds: Numbers) -> dict[str, float]:
    if not len(seconds):
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}
    p50, p95, p99, most = np.percentile(seconds, [50, 95, 99, 100], overwrite_input=True).astype(np.float64).round(4).tolist()
    return {"p50": p50, "p95": p95, "p99": p99, "max": most}


def _split(reader: LedgerReader) -> dict[str, dict[str, float]] | None:
    """The latency's parts where the servers tell of their own work: computing the prompt, generating the answer, and what is
    left, which is waiting for that and the network. None where they do not: nothing is streamed, so that no first byte tells.
    """
    if not reader.one("any_timing")[0]:
        return None
    took, prompt, generation = columns(reader.stream("timings"), 3, np.float32)
    parts = {"queue": np.maximum(took - prompt - generation, 0), "prompt": prompt, "generation": generation}
    return {name: _percentiles(seconds) for name, seconds in parts.items()}


def _context(totals: Numbers) -> dict[str, float]:
    """Prompt and answer together, of accepted answers whose usage is known."""
    if not len(totals):
        return {"mean": 0.0, "p95": 0.0, "max": 0}
    return {
        "mean": round(float(totals.mean(dtype=np.float64)), 1), "max": int(totals.max()),
        "p95": round(float(np.percentile(totals, 95, overwrite_input=True)), 1),
    }  # fmt: skip


def _concurrency(reader: LedgerReader, attempts: Attempts, *, running: bool) -> dict[str, Any]:
    total, samples, most, lag = reader.one("samples")
    last = reader.one("last_sample")
    bounds = [row for row in reader.all("bounds") if row[0] is not None]
    if not total and attempts.span_s > 0:  # no sample met a request: what its sends themselves say
        total, samples = float(attempts.seconds.sum(dtype=np.float64)) / attempts.span_s, 1
        most = math.ceil(total)
    bound_by = (last[3] if running and last is not None else None) or (bounds[0][0] if bounds else None)
    return {
        "now": int(last[2]) if running and last is not None else 0,
        "mean": round(total / samples, 2) if samples else 0.0,
        "max": int(most or 0),
        "bound_by": bound_by,
        "loop_lag_max_s": round(lag or 0.0, 4),
    }


def _in_flight(reader: LedgerReader, *, running: bool) -> dict[str, Any]:
    """What a running process had in flight a second ago at most, and which of it is the oldest."""
    found = reader.meta("in_flight") if running else None
    if found is None or found["unit"] is None:
        return {"now": 0, "oldest_s": None, "oldest_item": None}
    place = reader.one("item_of_unit", (found["unit"],))
    age_s = max(0.0, WallClock().now() - found["since"])
    return {"now": found["now"], "oldest_s": round(age_s, 1), "oldest_item": item_name(reader, place[0]) if place else None}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
