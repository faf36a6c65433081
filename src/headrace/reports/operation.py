"""How two runs went: rates, times, tokens and money, each with how far it varies within its own run."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from headrace.ledger.reader import LedgerReader
from headrace.reports.noise import BATCHES, LEAST, Measured, Numbers, batched, share, verdict

_SECONDS = 60  # sampled seconds from which on they tell the rate's noise; of less the answers' own times do
_CAME, _TOOK, _PROMPT, _COMPLETION, _CACHED = range(5)

Figures = dict[str, Measured]


class Difference(Struct, frozen=True):
    """A figure of both runs. `verdict` as `noise.verdict` has it."""

    name: str
    a: float | None
    b: float | None
    verdict: str


def figures_of(reader: LedgerReader, status: dict[str, Any]) -> Figures:
    """The figures of a run by name: those of its `status`, with their errors from the ledger's records."""
    uses = _uses(reader)
    prompts, cached = _known(uses, _PROMPT), _known(uses, _CACHED)
    items, requests = status["items"], status["requests"]
    settled = items["done"] + items["failed"] + items["quarantined"]
    context = batched(_known(uses, _PROMPT, _COMPLETION), _mean)
    return {
        "items_per_minute": _scaled(_rate(reader, uses), status["rate"]["items_per_minute"]),
        "latency_s.p50": batched(uses[_TOOK], partial(_percentile, 50)),
        "latency_s.p95": batched(uses[_TOOK], partial(_percentile, 95)),
        "retry_rate": share(requests["retries"], requests["sent"]),
        "failure_rate": share(items["failed"] + items["quarantined"], settled),
        "prompt_tokens.mean": batched(prompts, _mean),
        "completion_tokens.mean": batched(_known(uses, _COMPLETION), _mean),
        "cached_share": _ratio(cached, prompts) if len(cached) == len(prompts) else Measured(None),
        # Money goes with tokens, so it varies as they do.
        "cost_per_item": _scaled(context, status["cost"]["spent"] / items["done"])
        if status["cost"]["known"] and items["done"]
        else Measured(None),
    }


def differences(a: Figures, b: Figures) -> list[Difference]:
    return [Difference(name, a[name].value, b[name].value, verdict(a[name], b[name])) for name in a]


def _uses(reader: LedgerReader) -> Numbers:
    """Five rows: when each accepted answer came, what it took, and its tokens; NaN where the server told none."""
    parts: list[Numbers] = []
    rows: list[Any] = []
    for row in reader.stream("accepted_uses"):
        rows.append(row)
        if len(rows) == 10_000:
            parts.append(np.array(rows, np.float64))
            rows = []
    parts.append(np.array(rows, np.float64).reshape(-1, 5))
    return np.concatenate(parts).T


def _known(uses: Numbers, *rows: int) -> Numbers:
    """These rows' sum, where all of them are known."""
    total: Numbers = uses[list(rows)].sum(axis=0)
    return total[~np.isnan(total)]


def _rate(reader: LedgerReader, uses: Numbers) -> Measured:
    """Settled a second. Of a short run each batch of answers is as fast as it came."""
    seconds = np.array([settled for (settled,) in reader.stream("settled_seconds")], np.float64)
    if len(seconds) >= _SECONDS:
        parts = np.array([part.mean() for part in np.array_split(seconds, BATCHES)])
        return Measured(float(seconds.mean()), float(parts.std(ddof=1)) / BATCHES**0.5)
    came = np.sort(uses[_CAME])
    if len(came) < LEAST or came[-1] <= came[0]:
        return Measured(None)
    ends = came[np.linspace(0, len(came) - 1, BATCHES + 1).astype(int)]
    each = (len(came) - 1) / BATCHES / np.maximum(np.diff(ends), 1e-3)
    return Measured((len(came) - 1) / float(came[-1] - came[0]), float(each.std(ddof=1)) / BATCHES**0.5)


def _scaled(measured: Measured, value: float) -> Measured:
    """A figure that varies in proportion to another."""
    if not measured.value or measured.error is None:
        return Measured(value)
    return Measured(value, measured.error * value / measured.value)


def _ratio(parts: Numbers, wholes: Numbers) -> Measured:
    both = np.stack([parts, wholes])
    if not both.size:
        return Measured(None)
    whole = float(both[0].sum() / max(both[1].sum(), 1.0))
    if both.shape[1] < LEAST:
        return Measured(whole)
    each = np.array([part[0].sum() / max(part[1].sum(), 1.0) for part in np.array_split(both, BATCHES, axis=1)])
    return Measured(whole, float(each.std(ddof=1)) / BATCHES**0.5)


def _percentile(percent: float, values: Numbers) -> float:
    return float(np.percentile(values, percent))


def _mean(values: Numbers) -> float:
    return float(values.mean())
