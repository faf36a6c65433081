"""How far a run's figures vary within the run itself, and whether two runs differ by more than that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from headrace.ledger.columns import Numbers

BATCHES = 20
LEAST = 100  # observations: of fewer nothing is said
BEYOND = 2.576  # standard errors: of a hundred figures that do not differ one is said to


class Measured(Struct, frozen=True):
    """A figure and its standard error; the error is None where the run says too little about it."""

    value: float | None
    error: float | None = None


def batched(values: Numbers, of: Callable[[Numbers], float], least: int = LEAST) -> Measured:
    """`of` all values in the order in which they came, and its error by the method of batch means. Of fewer than `least` none.

    The figure of each of 20 consecutive batches is one observation: what follows each other is alike (a slow minute is slow
    for all its requests), and the plain standard error would take that for evidence. Source: Law, Simulation Modeling and
    Analysis, 9.5.3. Of several rows the columns are batched.
    """
    count = values.shape[-1]
    if not count:
        return Measured(None)
    error = spread([of(part) for part in np.array_split(values, BATCHES, axis=-1)]) if count >= least else None
    return Measured(of(values), error)


def spread(batches: Sequence[float]) -> float:
    """The error of the mean of 20 batches' figures."""
    return float(np.std(batches, ddof=1)) / math.sqrt(len(batches))


def share(part: int, whole: int) -> Measured:
    """A share of independent observations; its error with one more of each kind (Agresti and Coull), so that 0 has one too."""
    if not whole:
        return Measured(None)
    if whole < LEAST:
        return Measured(part / whole)
    middle = (part + 2) / (whole + 4)
    return Measured(part / whole, math.sqrt(middle * (1 - middle) / (whole + 4)))


def verdict(a: Measured, b: Measured) -> str:
    """`differs`, `noise` (within what each run shows by itself) or `unknown`; `equal` where they are."""
    if a.value is None or b.value is None:
        return "equal" if a.value == b.value else "unknown"
    if a.value == b.value:
        return "equal"
    if a.error is None or b.error is None:
        return "unknown"
    return "differs" if abs(a.value - b.value) > BEYOND * math.hypot(a.error, b.error) else "noise"
