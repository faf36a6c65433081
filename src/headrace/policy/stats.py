"""Statistics of counted answers: how sure a share is, and how each class fares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import NamedTuple


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a share: (low, high), both within [0, 1]. No trial says nothing: (0, 1).

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927): the shares that a
    two-sided score test at `confidence` does not reject, without continuity correction. Unlike ±z·√(p(1-p)/n) it keeps its
    promise for small numbers and at 0 and 1. Raises ValueError where there are not that many trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is no share")
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At the ends the two parts cancel to a rounding error; there the bound is exact.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return low, high


class ClassFigures(NamedTuple):
    """How one class fares. What cannot be said, because nothing is of the class or nothing was answered so, is None."""

    n: int  # truly of the class
    answered: int  # answered as it
    right: int
    precision: float | None
    recall: float | None
    f1: float | None


def class_figures(pairs: Iterable[tuple[str, str | None]], classes: Sequence[str] = ()) -> dict[str, ClassFigures]:
    """Figures by class out of (true class, answered class or None), for `classes` and whatever else occurs.

    In the order of `classes`, others as they come. F1 is None where neither side knows the class, else 0 where nothing is right.
    """
    counts = {name: [0, 0, 0] for name in classes}
    for true, answered in pairs:
        counts.setdefault(true, [0, 0, 0])[0] += 1
        if answered is not None:
            counts.setdefault(answered, [0, 0, 0])[1] += 1
            counts[true][2] += answered == true
    return {
        name: ClassFigures(
            n=n, answered=answered, right=right, precision=right / answered if answered else None,
            recall=right / n if n else None, f1=2 * right / (n + answered) if n + answered else None,
        )
        for name, (n, answered, right) in counts.items()
    }  # fmt: skip
