"""What a run's attempts add up to, from one pass over them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from headrace.ledger.reader import LedgerReader
from headrace.runs.spending import USES, Spending, Tariffs
from headrace.values import Origin, Sent

Numbers = np.ndarray[Any, Any]
_ACCEPTED = (None, Origin.SENT, Sent.YES)
_MICRO = 1e-6


class Sums(Struct):
    """Attempts that are alike, and their tokens."""

    count: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    without_usage: int = 0

    def add(self, count: int, prompt: float, completion: float, cached: float, with_usage: int) -> None:
        self.count += count
        self.prompt += int(prompt)
        self.completion += int(completion)
        self.cached += int(cached)
        self.without_usage += count - with_usage


class Attempts(Struct, frozen=True):
    """All attempts of a ledger.

    `sums` by kind (None: accepted), origin and `sent`; `span_s` from the first send to the last end of one, summed over the
    processes of the run (`is_whole`: all of which are known); of the accepted ones `seconds`, and `contexts`: prompt and
    answer together, in tokens, where the usage is known. `spending` is their money.
    """

    sums: dict[tuple[str | None, int, str], Sums]
    span_s: float
    is_whole: bool
    seconds: Numbers
    contexts: Numbers
    spending: Spending


def read_attempts(reader: LedgerReader, tariffs: Tariffs) -> Attempts:
    """Read them. Sums are exact up to 2^53 a thousand attempts. Money is looked at where there are prices."""
    spending = Spending()
    uses = USES if tariffs.prices else ()
    sums: dict[tuple[str | None, int, str], Sums] = {}
    span_s = 0.0
    seconds: list[Numbers] = []  # seven digits are enough for figures, and a million take half the room
    contexts: list[Numbers] = []
    statements = ("accepted_attempts", "other_attempts", *uses)
    processes, is_whole = reader.processes()
    for process in processes:
        begun, ended = math.inf, -math.inf
        for ((*figures, took, held),), others, *used in reader.parts(*statements, thresholds=tariffs.thresholds, among=process):
            for kind, origin, sent, *row in ([[*_ACCEPTED, *figures]] if figures[0] else []) + others:
                *added, first, last = row
                sums.setdefault((kind, origin, sent), Sums()).add(*added)
                if origin == Origin.SENT:
                    begun, ended = min(begun, first), max(ended, last)
            seconds += [(numbers * _MICRO).astype(np.float32) for numbers in _numbers(took)]
            contexts += _numbers(held)
            if used:
                spending.add_known(tariffs, used[0])
                spending.add_unknown(tariffs, used[1])
        span_s += max(0.0, ended - begun)
    return Attempts(sums, span_s, is_whole, _joined(seconds), _joined(contexts), spending)


def count_asks(reader: LedgerReader) -> int:
    """How many asks were sent at least once; a unit and a number make an ask."""
    units: list[Numbers] = []
    asks: list[Numbers] = []
    for (((some_units, some_asks),),) in reader.parts("asks"):
        units += _numbers(some_units)
        asks += _numbers(some_asks)
    number = _joined(asks)
    return len(np.unique(_joined(units) * (number.max(initial=0) + 1) + number))


def _numbers(listed: str | None) -> Iterable[Numbers]:
    return () if listed is None else (np.fromstring(listed, dtype=np.int64, sep=","),)


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else np.empty(0)
