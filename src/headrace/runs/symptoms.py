"""The figures that advice is made of, from a run's ledger and its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.ledger.reader import LedgerReader, as_text
from headrace.policy.advice import ROOMY, Symptoms
from headrace.runs.savings import ALIKE
from headrace.values import Kind

_OVERLOAD = (Kind.RATE_LIMITED, Kind.OVERLOADED)
_INVALID = (Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH, Kind.EMPTY)
_MIDDLE = (0.1, 0.5)  # of the time: what was in flight there is what the run ran at


def symptoms_of(reader: LedgerReader, status: dict[str, Any], before: tuple[float, dict[str, Any]] | None = None) -> Symptoms:
    """What a run shows. `status`: its document so far. `before`: mean context and content of the job's run before it."""
    configs = reader.configs()
    content: dict[str, Any] = configs[0].content if configs else {}
    operating: dict[str, Any] = configs[-1].operating if configs else {}
    endpoints = operating.get("endpoint") or [{}]
    only = endpoints[0] if len(endpoints) == 1 else {}
    fixed = only.get("concurrency")
    items, by_kind = status["items"], status["requests"]["by_kind"]
    seconds, tail, paused = _over_time(reader)
    model, sliced = content.get("model", {}), content.get("slice", {})
    settled = items["done"] + items["failed"] + items["quarantined"]
    reused = status["requests"]["reused"]
    return Symptoms(
        settled=settled,
        sent=status["requests"]["sent"],
        truncated=_truncated(reader) if items["failed"] + items["quarantined"] else 0,
        read_in_part=status["suspected"]["input_truncation"],
        overloaded=sum(by_kind.get(kind, 0) for kind in _OVERLOAD),
        invalid=sum(by_kind.get(kind, 0) for kind in _INVALID),
        seconds=seconds, paused_share=paused, tail_share=tail,
        queued_share=_queued(reader), **_alike(reader, status["tokens"]),
        per_minute=status["rate"]["items_per_minute"] * (status["units"]["done"] - reused) / max(settled - reused, 1),
        context=status["context_tokens"]["mean"], context_before=before[0] if before else None,
        is_finished=status["state"] == "finished", is_schema_refused=status["reason"] == Kind.SCHEMA_REFUSED,
        fixed=fixed if isinstance(fixed, int) else None, endpoints=len(endpoints),
        requests_per_minute=next((one["requests_per_minute"] for one in endpoints if one.get("requests_per_minute")), None),
        max_tokens=model.get("max_tokens"), temperature=model.get("temperature"),
        order=operating.get("limits", {}).get("order", "auto"),
        is_sliced=any(value is not None for value in sliced.values()),
        slice_changed=before is not None and before[1].get("slice", {}) != sliced,
    )  # fmt: skip


def _queued(reader: LedgerReader) -> float:
    seconds, queued = reader.one("queues", (ROOMY,))
    return queued / seconds if seconds else 0.0


def _alike(reader: LedgerReader, tokens: dict[str, Any]) -> dict[str, Any]:
    """How the prompts that were read begin alike, and how much of that a server's cache has served."""
    found = reader.meta(ALIKE)
    (says,) = reader.one("says_cached")
    if not found or not found["bytes"]:
        return {}
    return {
        "groupable": max(0, found["prefix"] - found["input"]) / found["bytes"], "common": found["common"] / found["bytes"],
        "cached_share": tokens["cached"] / max(1, tokens["prompt"]) if says else None,
    }  # fmt: skip


def _truncated(reader: LedgerReader) -> int:
    errors = reader.all("failed_units")
    return sum(count for _, error, count, _, _ in errors if (as_text(error) or "").startswith(Kind.TRUNCATED))


def _over_time(reader: LedgerReader) -> tuple[int, float, float]:
    """Sampled seconds, the share of them at the end with few in flight, and the share in which an endpoint paused."""
    rows: Sequence[Any] = [(in_flight, paused) for _, _, in_flight, _, _, paused, _ in reader.stream("timeline")]
    count = len(rows)
    if not count:
        return 0, 0.0, 0.0
    flying, paused = np.array(rows, np.float64).T
    middle = flying[int(_MIDDLE[0] * count) : max(1, int(_MIDDLE[1] * count))]
    busy = np.flatnonzero(flying >= 0.5 * np.median(middle)) if len(middle) else np.empty(0)
    last = int(busy[-1]) + 1 if len(busy) else count
    return count, (count - last) / count, float(paused.mean())
