"""What a page about a run draws, from the ledger's records alone. Small, whatever the run's size."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct

from headrace import canon
from headrace.ledger.columns import COMPLETION, PROMPT, TOOK, Numbers, columns, known, read_uses
from headrace.ledger.reader import LedgerReader, as_text
from headrace.runs.agreement import Labels, answers_of
from headrace.runs.failures import item_name
from headrace.values import UnitKind

BUCKETS = 120  # over time, at most
BINS = 24
SLOWEST = 10
_ASIDE = {
    UnitKind.EVAL: "a record of the eval set", UnitKind.JUDGE: "the judge", UnitKind.REPEAT: "an item asked twice",
    UnitKind.CALIBRATE: "the prompt without content",
}  # fmt: skip
MOST_LABELS = 20


class Moment(Struct, frozen=True):
    """A stretch of the time in which the run was sending; minutes without those in which no process ran."""

    minute: float
    settled_per_minute: float
    in_flight: float
    window: float
    retries: int
    paused_share: float
    bound_by: str | None


class Bin(Struct, frozen=True):
    """Values from `low` up to `high`, and how many."""

    low: float
    high: float
    count: int


class Slow(Struct, frozen=True):
    item: Any
    seconds: float
    prompt_tokens: int | None
    completion_tokens: int | None


class PageFigures(Struct, frozen=True):
    """`bad` counts sends without an accepted answer by (minute, kind); `answers` an answer's text and how many records got it,
    where the answers are labels, else nothing; then `lengths` has their characters.
    """

    timeline: list[Moment]
    bad: list[tuple[float, str, int]]
    latency: list[Bin]
    slowest: list[Slow]
    contexts: list[Bin]
    answers: list[tuple[str, int]]
    lengths: list[Bin]


def read_figures(reader: LedgerReader) -> PageFigures:
    seconds = np.array(reader.all("timeline"), dtype=object).reshape(-1, 7)
    at = seconds[:, 0].astype(np.float64)
    uses = read_uses(reader)
    answers, lengths = _answers(reader)
    return PageFigures(
        timeline=_timeline(seconds),
        bad=_bad(reader, at),
        latency=_bins(uses[TOOK], is_log=True),
        slowest=[
            Slow(_name(reader, unit), round(s, 3), prompt, completion)
            for unit, s, prompt, completion in reader.all("slowest", (SLOWEST,))
        ],
        contexts=_bins(known(uses, PROMPT, COMPLETION), is_log=False),
        answers=answers,
        lengths=lengths,
    )


def _timeline(seconds: Numbers) -> list[Moment]:
    """The sampled seconds in at most `BUCKETS` stretches of equal length."""
    count = len(seconds)
    moments = []
    for part in np.array_split(np.arange(count), min(BUCKETS, count)) if count else []:
        rows = seconds[part]
        mean = rows[:, 1:6].astype(np.float64).mean(axis=0)
        bounds = Counter(row[6] for row in rows if row[6] is not None)
        moments.append(
            Moment(
                minute=round(float(part[0]) / 60, 3), settled_per_minute=round(60 * float(mean[2]), 1),
                in_flight=round(float(mean[1]), 2), window=round(float(mean[0]), 2), retries=int(rows[:, 4].sum()),
                paused_share=round(float(mean[4]), 3), bound_by=as_text(bounds.most_common(1)[0][0]) if bounds else None,
            )
        )  # fmt: skip
    return moments


def _bad(reader: LedgerReader, at: Numbers) -> list[tuple[float, str, int]]:
    """By the stretch of the timeline in which they were sent."""
    width = max(1, -(-len(at) // BUCKETS))
    found: Counter[tuple[int, str]] = Counter()
    for started, kind in reader.stream("bad_sends"):
        second = max(0, int(np.searchsorted(at, started, "right")) - 1)
        found[second // width, as_text(kind) or ""] += 1
    return [(round(place * width / 60, 3), kind, count) for (place, kind), count in sorted(found.items())]


def _bins(values: Numbers, *, is_log: bool) -> list[Bin]:
    if not len(values):
        return []
    low, high = float(values.min()), float(values.max())
    if is_log:
        low = max(low, 1e-4)
        edges = np.geomspace(low, max(high, low * 1.001), BINS + 1)
    else:
        step = max(1, -(-(high - low + 1) // BINS))  # whole numbers: no bin holds more of them than another
        edges = np.arange(low, high + step + 1, step)
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return [
        Bin(float(f"{a:.4g}") if is_log else a, float(f"{b:.4g}") if is_log else b, int(n))
        for a, b, n in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    ]


def _answers(reader: LedgerReader) -> tuple[list[tuple[str, int]], list[Bin]]:
    labels = Labels()
    lengths, numbers = columns(((len(text), labels[text]) for text in answers_of(reader)), 2, np.int32)
    if len(lengths) and not labels.is_full and (numbers >= 0).all() and len(labels) <= max(2, len(lengths) // 5):
        counts = np.bincount(numbers).tolist()
        names = [_in_words(canon.decode(text)) for text in labels]
        return sorted(zip(names, counts, strict=True), key=lambda pair: -pair[1])[:MOST_LABELS], []
    return [], _bins(lengths, is_log=False)


def _in_words(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _name(reader: LedgerReader, unit: int) -> Any:
    place = reader.one("item_of_unit", (unit,))
    return item_name(reader, place[0]) if place else _ASIDE.get(reader.one("kind_of_unit", (unit,))[0], f"unit {unit}")
