"""Statistics of counted answers: how sure a share is."""

from __future__ import annotations

import math
from statistics import NormalDist


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
