"""Rows of a ledger as columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headrace.ledger.reader import LedgerReader

Numbers = np.ndarray[Any, Any]

CAME, TOOK, PROMPT, COMPLETION, CACHED = range(5)
_AT_ONCE = 10_000  # rows that are Python's objects


def columns(rows: Iterable[Sequence[Any]], count: int, kind: type[np.generic]) -> Numbers:
    """`count` arrays of this kind, a row of the result each. What is missing is NaN, where the kind has one."""
    source = iter(rows)
    parts = [np.empty((0, count), kind)]
    while some := list(islice(source, _AT_ONCE)):
        parts.append(np.array(some, kind))
    return np.concatenate(parts).T


def read_uses(reader: LedgerReader) -> Numbers:
    """Of each accepted answer, in the order in which they came: when (Unix seconds), how long it took (s), and its tokens; NaN
    where the server told none. Rows `CAME` to `CACHED`, 40 bytes an answer.
    """
    return columns(reader.stream("accepted_uses"), 5, np.float64)


def known(uses: Numbers, *rows: int) -> Numbers:
    """The sum of these rows for each answer of which all of them are known."""
    total: Numbers = uses[list(rows)].sum(axis=0)
    return total[~np.isnan(total)]
