"""Is a new configuration worse than an old one on the same items? Paired differences, verdicts, and how many it would take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["ok", "worse", "not enough to tell"]
WORSE_AT = 0.025  # one-sided
OK_AT = 0.05  # one-sided
POWER = 0.8
FEWEST = 6  # changed answers: of fewer the exact two-sided test can never say anything
RESAMPLES = 10_000
_AT_ONCE = 2000
_SEED = 20_260_101  # the same scores give the same interval


class Paired(NamedTuple):
    """New minus old. `interval` is two-sided, 95 %; `p` two-sided. `upper` is the one-sided 97.5 % bound, `lower` the one-sided
    95 % one. `is_worse`: the exact test says so too, where there is one. `spread`: the standard deviation of one difference.
    """

    n: int
    difference: float
    interval: tuple[float, float]
    p: float
    upper: float
    lower: float
    spread: float
    is_worse: bool


def mcnemar(lost: int, gained: int) -> float:
    """The exact two-sided p of so many discordant pairs. McNemar, Psychometrika 12 (1947); exact: binomial with 1/2."""
    from scipy.stats import binom  # noqa: PLC0415 (an extra of its own, loaded where it is used)

    if lost + gained == 0:
        return 1.0
    return min(1.0, 2 * float(binom.cdf(min(lost, gained), lost + gained, 0.5)))


def mid_p_worse(lost: int, gained: int) -> float:
    """One-sided mid-p that the new one is worse: half of the probability of just what was seen counts.

    H. O. Lancaster, "Significance Tests in Discrete Distributions", JASA 56 (1961).
    """
    from scipy.stats import binom  # noqa: PLC0415

    pairs = lost + gained
    if pairs == 0:
        return 1.0
    return float(binom.cdf(gained, pairs, 0.5) - 0.5 * binom.pmf(gained, pairs, 0.5))


def paired_binary(old: Sequence[float], new: Sequence[float]) -> Paired:
    """For scores that are 0 or 1, item by item. Raises ValueError where there is none.

    Bounds: A. Agresti and Y. Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
    Medicine 24 (2005): half a pair is added to each of the four cells. Few discordant pairs make them too narrow all the same:
    then the exact test decides as well.
    """
    n = _count(old, new)
    lost = sum(a > b for a, b in zip(old, new, strict=True))
    gained = sum(b > a for a, b in zip(old, new, strict=True))
    total, b, c = n + 2, lost + 0.5, gained + 0.5
    centre = (c - b) / total
    error = math.sqrt(b + c - (c - b) ** 2 / total) / total
    z, z_ok = _z(WORSE_AT), _z(OK_AT)
    difference = (gained - lost) / n
    is_worse = lost + gained >= FEWEST and mid_p_worse(lost, gained) <= WORSE_AT
    return Paired(
        n, difference, (centre - z * error, centre + z * error), mcnemar(lost, gained), centre + z * error,
        centre - z_ok * error, math.sqrt(max((lost + gained) / n - difference**2, 0.0)), is_worse,
    )  # fmt: skip


def paired_graded(old: Sequence[float], new: Sequence[float], groups: Sequence[object] | None = None) -> Paired:
    """For scores from 0 to 1: the percentile bootstrap of the mean difference; items that share a group are drawn together.

    B. Efron and R. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13; groups as in E. Miller, "Adding Error Bars
    to Evals" (2024). Raises ValueError where there is no item.
    """
    n = _count(old, new)
    differences = np.asarray(new, np.float64) - np.asarray(old, np.float64)
    sums, counts = _by_group(differences, groups)
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(0, len(sums), (RESAMPLES, len(sums)), dtype=np.int32) if len(sums) <= _AT_ONCE else None
    if drawn is None:
        # Of many groups the mean is normal, and a table of all draws would not fit.
        means = differences.mean() + rng.standard_normal(RESAMPLES) * _clustered_error(sums, counts)
    else:
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high, low_ok = np.quantile(means, [WORSE_AT, 1 - WORSE_AT, OK_AT]).tolist()
    below, above = float((means <= 0).mean()), float((means >= 0).mean())
    return Paired(
        n, float(differences.mean()), (low, high), min(1.0, 2 * min(below, above)), high, low_ok,
        float(differences.std(ddof=1)) if n > 1 else 0.0, bool(high < 0),
    )  # fmt: skip


def verdict(found: Paired, margin: float) -> Verdict:
    """`worse`: the one-sided 97.5 % upper bound of (new - old) is below 0; `ok`: the one-sided 95 % lower one above -margin."""
    if found.upper < 0 and found.is_worse:
        return "worse"
    return "ok" if found.lower > -margin else "not enough to tell"


def needed(found: Paired, margin: float) -> int | None:
    """How many items it would take to tell, at a power of 80 %, were the difference what it seems to be; None where none would
    do, because nothing has changed or the difference is the margin itself.
    """
    if not found.spread:
        return None
    z_power = _z(1 - POWER)
    room = found.difference + margin
    wanted = []
    if room > 0:
        wanted.append((_z(OK_AT) + z_power) * found.spread / room)
    if found.difference < 0:
        wanted.append((_z(WORSE_AT) + z_power) * found.spread / -found.difference)
    return math.ceil(min(wanted) ** 2) if wanted else None


def _count(old: Sequence[float], new: Sequence[float]) -> int:
    if not old or len(old) != len(new):
        raise ValueError("scores of the same items are compared, and of one at least")
    return len(old)


def _by_group(differences: np.ndarray, groups: Sequence[object] | None) -> tuple[np.ndarray, np.ndarray]:
    """Sum and count of each group."""
    if groups is None:
        return differences, np.ones(len(differences))
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    of = np.array([places[group] for group in groups])
    return np.bincount(of, differences), np.bincount(of).astype(np.float64)


def _clustered_error(sums: np.ndarray, counts: np.ndarray) -> float:
    """The standard error of the mean, each group's deviation taken as one."""
    mean = sums.sum() / counts.sum()
    return float(np.sqrt(((sums - mean * counts) ** 2).sum()) / counts.sum())


def _z(tail: float) -> float:
    return NormalDist().inv_cdf(1 - tail)
