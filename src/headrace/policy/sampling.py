"""How many to look at, which share of each kind, and what a sample that was looked at says of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

FEWEST_OF_STRATUM = 10  # are drawn of each stratum that has so many: a rare kind is seen too
_Z = NormalDist().inv_cdf(0.975)


class Stratum(NamedTuple):
    """`size` items, of which `seen` were looked at and `good` were right."""

    size: int
    seen: int
    good: int


class Estimate(NamedTuple):
    """A share, and its 95 % interval; no share of nothing."""

    share: float | None
    interval: tuple[float, float]


def size_for(margin: float, population: int | None = None, share: float = 0.5) -> int:
    """How many to draw, so that a share is known to ± `margin` at 95 %; Cochran, "Sampling Techniques" (1977), 4.4."""
    wanted = _Z * _Z * share * (1 - share) / (margin * margin)
    if population is not None:
        wanted /= 1 + (wanted - 1) / population
    return math.ceil(wanted - 1e-9)


def size_for_none(rate: float) -> int:
    """How many without a failure it takes to say at 95 % that fewer than `rate` fail."""
    return math.ceil(math.log(0.05) / math.log(1 - rate) - 1e-9)


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of `count` to draw of each stratum: in proportion, and of each kind `FEWEST_OF_STRATUM`, or all there are."""
    total = sum(sizes.values())
    count = min(count, total)
    least = {name: min(size, FEWEST_OF_STRATUM, max(1, count // max(1, len(sizes)))) for name, size in sizes.items()}
    found = {name: max(least[name], min(size, count * size // total)) for name, size in sizes.items()} if total else {}
    # What rounding and the least have changed is given to, or taken from, the largest.
    for name in sorted(found, key=lambda name: -sizes[name]):
        change = count - sum(found.values())
        found[name] = min(max(found[name] + change, least[name]), sizes[name])
    return found


def simple(size: int, seen: int, good: int) -> Estimate:
    """Of a simple sample: Wilson's interval, narrower where a good part of all was seen (by the effective number)."""
    if not seen:
        return Estimate(None, (0.0, 1.0))
    return Estimate(good / seen, _effective(good / seen, seen, _left(size, seen)))


def stratified(strata: Sequence[Stratum]) -> Estimate:
    """Of a stratified one: each stratum weighs as it is large. One of which fewer than two were seen joins the smallest other.

    Share and variance: Cochran, "Sampling Techniques" (1977), 5.4. The interval is Wilson's on the number of a simple sample that
    would have that variance: the normal one is too narrow where a stratum's share is near 0 or 1.
    """
    merged = _merged([one for one in strata if one.size])
    seen = sum(one.seen for one in merged)
    if not seen:
        return Estimate(None, (0.0, 1.0))
    size = sum(one.size for one in merged if one.seen)
    share = sum(one.size / size * one.good / one.seen for one in merged if one.seen)
    variance = standard_error(merged) ** 2
    # A stratum that looks perfect is not known to be: its share is taken half a case from the end.
    variance = max(variance, sum((one.size / size) ** 2 * _least_variance(one) for one in merged if one.seen))
    effective = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else seen
    return Estimate(share, _effective(share, max(1.0, effective), 1.0))


def standard_error(strata: Sequence[Stratum]) -> float:
    """Of the stratified share, with the finite population's correction."""
    size = sum(one.size for one in strata if one.seen)
    total = 0.0
    for one in strata:
        if one.seen > 1:
            share = one.good / one.seen
            total += (one.size / size) ** 2 * _left(one.size, one.seen) * share * (1 - share) / (one.seen - 1)
    return math.sqrt(total)


def _least_variance(one: Stratum) -> float:
    share = (one.good + 0.5) / (one.seen + 1)
    return _left(one.size, one.seen) * share * (1 - share) / (one.seen + 1) if one.good in {0, one.seen} else 0.0


def _left(size: int, seen: int) -> float:
    return max(0.0, 1 - seen / size) if size else 1.0


def _effective(share: float, seen: float, left: float) -> tuple[float, float]:
    """Wilson's interval of a share, with a number that need not be whole; all of a population leave no doubt."""
    if left <= 0:
        return share, share
    n = seen / left
    shrink = 1 + _Z * _Z / n
    centre = (share + _Z * _Z / (2 * n)) / shrink
    half = _Z / shrink * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def _merged(strata: list[Stratum]) -> list[Stratum]:
    found = sorted(strata, key=lambda one: one.size)
    while len(found) > 1 and (few := next((one for one in found if one.seen < 2), None)) is not None:
        found.remove(few)
        other = found.pop(0)
        found = sorted([*found, Stratum(*(a + b for a, b in zip(few, other, strict=True)))], key=lambda one: one.size)
    return found


Acceptance = Literal["accepted", "rejected", "not enough to tell"]


def accepts(size: int, seen: int, bad: int, level: float) -> Acceptance:
    """Whether a lot of which a share `level` may be bad is accepted, at 95 % either way, by how many bad ones were seen."""
    most = math.floor(level * size + 1e-9)
    if not seen:
        return "not enough to tell"
    # Were there one more than allowed, would so few be seen? Were there just as many as allowed, would so many?
    if probability_of_acceptance(seen, bad, size=size, bad=most + 1) <= 0.05:
        return "accepted"
    if bad and probability_of_acceptance(seen, bad - 1, size=size, bad=most) >= 0.95:
        return "rejected"
    return "not enough to tell"


def probability_of_acceptance(n: int, c: int, *, share: float | None = None, size: int = 0, bad: int = 0) -> float:
    """That at most `c` of `n` are bad: where the share of bad ones is this (binomial), or where `bad` of `size` are
    (hypergeometric). Dodge and Romig, Bell System Technical Journal 8 (1929).
    """
    from scipy.stats import binom, hypergeom  # noqa: PLC0415 (an extra of its own, loaded where it is used)

    return float(binom.cdf(c, n, share)) if share is not None else float(hypergeom.cdf(c, size, min(bad, size), n))


def plan(good: float, bad: float, alpha: float = 0.05, beta: float = 0.10) -> tuple[int, int]:
    """The smallest (n, c) that accepts a share `good` of bad items with 1 - alpha, and a share `bad` with beta at most."""
    c = 0
    while True:
        n = c + 1
        while probability_of_acceptance(n, c, share=bad) > beta:
            n += 1
        if probability_of_acceptance(n, c, share=good) >= 1 - alpha:
            return n, c
        c += 1


class Agreement(NamedTuple):
    """Of two reviewers: the share on which they agree, Cohen's kappa (None where chance alone would agree always) and its
    95 % interval, and how many both have seen.
    """

    n: int
    share: float | None
    kappa: float | None
    interval: tuple[float, float] | None


def cohen(table: Sequence[Sequence[int]]) -> Agreement:
    """`table[i][j]`: how many the one called i and the other j. J. Cohen, Educational and Psychological Measurement 20 (1960);
    the error is that of J. Fleiss, J. Cohen and B. Everitt, Psychological Bulletin 72 (1969).
    """
    n = sum(map(sum, table))
    if not n:
        return Agreement(0, None, None, None)
    rows = [sum(row) / n for row in table]
    columns = [sum(row[j] for row in table) / n for j in range(len(table))]
    observed = sum(table[i][i] for i in range(len(table))) / n
    chance = sum(a * b for a, b in zip(rows, columns, strict=True))
    if chance >= 1:
        return Agreement(n, observed, None, None)
    kappa = (observed - chance) / (1 - chance)
    same = sum(table[i][i] / n * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(len(table)))
    other = (1 - kappa) ** 2 * sum(
        table[i][j] / n * (columns[i] + rows[j]) ** 2 for i in range(len(table)) for j in range(len(table)) if i != j
    )
    error = math.sqrt(max(0.0, same + other - (kappa - chance * (1 - kappa)) ** 2) / n) / (1 - chance)
    return Agreement(n, observed, kappa, (kappa - _Z * error, kappa + _Z * error))
