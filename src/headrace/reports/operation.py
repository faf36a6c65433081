"""How two runs went: rates, times, tokens and money, each with how far it varies within its own run."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from headrace.ledger.columns import CACHED, CAME, COMPLETION, PROMPT, TOOK, Numbers, columns, known, read_uses
from headrace.ledger.reader import LedgerReader
from headrace.reports.noise import BATCHES, LEAST, Measured, batched, share, spread, verdict

_SECONDS = 60  # sampled seconds from which on they tell the rate's noise; of less the answers' own times do

Figures = dict[str, Measured]


class Difference(Struct, frozen=True):
    """A figure of both runs. `verdict` as `noise.verdict` has it."""

    name: str
    a: float | None
    b: float | None
    verdict: str


def figures_of(reader: LedgerReader, status: dict[str, Any]) -> Figures:
    """The figures of a run by name: those of its `status`, with their errors from the ledger's records."""
    uses = read_uses(reader)
    prompts, cached = known(uses, PROMPT), known(uses, CACHED)
    items, requests = status["items"], status["requests"]
    settled = items["done"] + items["failed"] + items["quarantined"]
    context = batched(known(uses, PROMPT, COMPLETION), _mean)
    return {
        "items_per_minute": _scaled(_rate(reader, uses), status["rate"]["items_per_minute"]),
        "latency_s.p50": batched(uses[TOOK], partial(_percentile, 50)),
        "latency_s.p95": batched(uses[TOOK], partial(_percentile, 95)),
        "in_flight.mean": _in_flight(uses, status["concurrency"]["mean"]),
        "retry_rate": share(requests["retries"], requests["sent"]),
        "failure_rate": share(items["failed"] + items["quarantined"], settled),
        "prompt_tokens.mean": batched(prompts, _mean),
        "completion_tokens.mean": batched(known(uses, COMPLETION), _mean),
        "cached_share": batched(np.stack([cached, prompts]), _ratio) if len(cached) == len(prompts) else Measured(None),
        # Money goes with tokens, so it varies as they do.
        "cost_per_item": _scaled(context, status["cost"]["spent"] / items["done"])
        if status["cost"]["known"] and items["done"]
        else Measured(None),
    }


def differences(a: Figures, b: Figures) -> list[Difference]:
    return [Difference(name, a[name].value, b[name].value, verdict(a[name], b[name])) for name in a]


def _rate(reader: LedgerReader, uses: Numbers) -> Measured:
    """Settled a second. Of a short run each batch of answers is as fast as it came."""
    seconds = columns(((settled,) for _, _, _, settled, *_ in reader.stream("timeline")), 1, np.float64)[0]
    if len(seconds) >= _SECONDS:
        return batched(seconds, _mean, least=_SECONDS)
    came = np.sort(uses[CAME])
    if len(came) < LEAST or came[-1] <= came[0]:
        return Measured(None)
    ends = came[np.linspace(0, len(came) - 1, BATCHES + 1).astype(int)]
    each = (len(came) - 1) / BATCHES / np.maximum(np.diff(ends), 1e-3)
    return Measured((len(came) - 1) / float(came[-1] - came[0]), spread(each.tolist()))


def _in_flight(uses: Numbers, mean: float) -> Measured:
    """How many were at work at once. It varies as the seconds of the answers of a batch do, over those that the batch took."""
    order = np.argsort(uses[CAME])
    if len(order) < LEAST:
        return Measured(mean or None)
    ends, each = np.array_split(uses[CAME][order], BATCHES), np.array_split(uses[TOOK][order], BATCHES)
    lengths = np.maximum(np.diff([ends[0][0], *(end[-1] for end in ends)]), 1e-3)
    batches = np.array([took.sum() for took in each]) / lengths
    return _scaled(Measured(float(batches.mean()), spread(batches.tolist())), mean)


def _scaled(measured: Measured, value: float) -> Measured:
    """A figure that varies in proportion to another."""
    if not measured.value or measured.error is None:
        return Measured(value)
    return Measured(value, measured.error * value / measured.value)


def _ratio(both: Numbers) -> float:
    """The first row's sum over the second's."""
    return float(both[0].sum() / max(both[1].sum(), 1.0))


def _percentile(percent: float, values: Numbers) -> float:
    return float(np.percentile(values, percent))


def _mean(values: Numbers) -> float:
    return float(values.mean())
