"""Do two runs answer differently as a whole? Shifts of labels, lengths and rates, each with an effect, under one alarm rate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["same", "drifted", "not enough to tell"]
ALARM = 0.05  # of all tests together, where nothing has changed
LEAST_EXPECTED = 5.0  # of a class in either run: rarer ones are taken together
MODERATE_PSI = 0.1  # where chance alone reaches it, a shift that matters would not be seen
LEAST_V = 0.05  # Cramér's V
LEAST_RATE = 0.01  # difference of shares
LEAST_LENGTH = 0.05  # relative difference of mean lengths
LEAST_FLIPS = 0.02  # beyond what the configuration flips by itself
_FLAT = 1e-9  # a spread that is none but by rounding
FEWEST = 30  # answers, below which nothing is said


class LabelShift(NamedTuple):
    """`p`: of equal shares. `cramers_v` and `js` (bits) are 0 for equal shares, at most 1. `psi_noise`: what chance alone stays
    below in 95 of 100.
    """

    cramers_v: float
    p: float
    js: float
    psi: float
    psi_noise: float


class Finding(NamedTuple):
    """One of the tests: its p, and whether its effect is one that matters."""

    name: str
    p: float
    matters: bool


def label_shift(a: Sequence[int], b: Sequence[int], pairs: np.ndarray | None = None) -> LabelShift | None:
    """How the shares of classes differ; counts of the same classes in both. None where there is nothing to compare.

    `pairs[i, j]`: of records that both have answered, how many were i in A and j in B: then the two are no independent samples,
    and p is that of marginal homogeneity. Classes that are rare are taken together first.

    p: chi-square of homogeneity, with pairs A. Stuart, "A test for homogeneity of the marginal distributions in a two-way
    classification", Biometrika 42 (1955). PSI: symmetric Kullback-Leibler divergence, half a case added to each class; its noise
    line (1/n + 1/m) times the chi-square quantile: B. Yurdakul, "Statistical properties of population stability index" (2018).
    """
    from scipy.stats import chi2, chi2_contingency  # noqa: PLC0415 (an extra of its own, loaded where it is used)

    table = np.array([a, b], np.float64)
    keep = table.sum(axis=0) > 0
    table = table[:, keep]
    n, m = table.sum(axis=1)
    if not n or not m:
        return None
    merged, groups = _merged(table)
    classes = merged.shape[1]
    if classes < 2:
        return LabelShift(0.0, 1.0, 0.0, 0.0, 0.0)
    found = chi2_contingency(merged, correction=False)
    p = float(found.pvalue)
    if pairs is not None:
        p = marginal_homogeneity(_regrouped(pairs[np.ix_(keep, keep)], groups, classes))
    smooth = (merged + 0.5) / (merged + 0.5).sum(axis=1, keepdims=True)
    psi = float(((smooth[1] - smooth[0]) * np.log(smooth[1] / smooth[0])).sum())
    noise = (1 / n + 1 / m) * float(chi2.ppf(1 - ALARM, classes - 1))
    return LabelShift(
        math.sqrt(float(found.statistic) / (n + m)), p, divergence(merged[0] / n, merged[1] / m), psi, noise
    )  # fmt: skip


def divergence(p: Sequence[float] | np.ndarray, q: Sequence[float] | np.ndarray) -> float:
    """Jensen-Shannon divergence in bits: 0 of equal shares, 1 of disjoint ones. J. Lin, IEEE Trans. Inf. Theory 37 (1991)."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    middle = (p + q) / 2
    total = 0.0
    for one in (p, q):
        some = one > 0
        total += float((one[some] * np.log2(one[some] / middle[some])).sum()) / 2
    return max(0.0, total)


def marginal_homogeneity(pairs: np.ndarray) -> float:
    """Stuart's p that rows and columns of a square table of pairs have equal sums. 1.0 where nothing differs."""
    from scipy.stats import chi2  # noqa: PLC0415 (as above)

    rows, columns = pairs.sum(axis=1), pairs.sum(axis=0)
    moved = (rows + columns - 2 * np.diag(pairs)) > 0
    if not moved.any():
        return 1.0
    difference = (rows - columns)[moved]
    between = pairs[np.ix_(moved, moved)]
    variance = np.diag((rows + columns - 2 * np.diag(pairs))[moved]) - (between + between.T - 2 * np.diag(np.diag(between)))
    if moved.all():  # one of them follows from the others
        difference, variance = difference[:-1], variance[:-1, :-1]
    statistic = float(difference @ np.linalg.pinv(variance) @ difference)
    return float(chi2.sf(statistic, max(1, int(np.linalg.matrix_rank(variance)))))


def rate_difference(a: int, n: int, b: int, m: int) -> float:
    """P of two shares being equal: Fisher's exact test; 1.0 where either is a share of nothing."""
    from scipy.stats import fisher_exact  # noqa: PLC0415 (as above)

    if not n or not m:
        return 1.0
    return float(fisher_exact(np.array([[a, n - a], [b, m - b]])).pvalue)


def length_difference(a: np.ndarray, b: np.ndarray, *, paired: bool) -> float:
    """P of equally long answers: the t-test of their logarithms, of pairs where they are; 1.0 where all are equally long."""
    from scipy.stats import ttest_ind, ttest_rel  # noqa: PLC0415 (as above)

    one, other = np.log1p(a.astype(np.float64)), np.log1p(b.astype(np.float64))
    if not len(one) or not len(other):
        return 1.0
    varies = (one - other).std() if paired else one.std() + other.std()
    if min(len(one), len(other)) < 2 or varies < _FLAT:
        return 1.0 if abs(one.mean() - other.mean()) < _FLAT else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of lengths that are nearly all the same: then p is 0 or 1
        found = ttest_rel(one, other) if paired else ttest_ind(one, other, equal_var=False)
    return float(found.pvalue) if math.isfinite(found.pvalue) else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted for one alarm rate over all of them. S. Holm, Scandinavian Journal of Statistics 6 (1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def verdict(tests: Sequence[Finding], labels: LabelShift | None, fewest: int) -> tuple[Verdict, Mapping[str, float]]:
    """What all tests say together, and each one's adjusted p. `fewest`: answers of the smaller run."""
    adjusted = dict(zip([test.name for test in tests], holm([test.p for test in tests]), strict=True))
    if any(test.matters and adjusted[test.name] <= ALARM for test in tests):
        return "drifted", adjusted
    if fewest < FEWEST or (labels is not None and labels.psi_noise > MODERATE_PSI):
        return "not enough to tell", adjusted
    return "same", adjusted


def _merged(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The table with rare classes taken together, and the group of each class. All that are rare are one group, the last."""
    expected = table.sum(axis=0) * (table.sum(axis=1).min() / table.sum())
    rare = expected < LEAST_EXPECTED
    if rare.sum() < 2:
        return table, np.arange(table.shape[1])
    groups = np.empty(table.shape[1], np.int64)
    groups[~rare] = np.arange((~rare).sum())
    groups[rare] = (~rare).sum()
    return np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1), groups


def _regrouped(pairs: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros((count, count))
    np.add.at(found, (groups[:, None], groups[None, :]), pairs)
    return found
