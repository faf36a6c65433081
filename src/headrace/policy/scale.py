"""From estimated tokens to a server's own count: a line through answers, drawn past the odd ones, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headrace.policy.tokens import Span

SURE = 1.96  # standard errors: 95 of 100
DRIFT = 0.015  # what is still to come is never quite like what came first
_OTHER_SIZES = 0.12  # the less so the more its size differs: long texts hold more lists and names, a share for each e-fold
_FAR = 8.0  # times the usual distance: so far off a count says something else (a cut prompt, another template)
_ROUNDS = 8
_FEW = 3  # answers through which no line is drawn
_SLOPES = (0.25, 4.0)  # beyond these it is no tokenizer but chance
_LEAST = 1e-3  # tokens: what is below is no text
_USUALLY = 10.0  # tokens by which templates differ from the usual one
_ALIKE = 4.0  # answers are so much less sure of it than they were if texts of one size did not resemble one another


class Scale(Struct, frozen=True):
    """Tokens are `slope` times the estimate and `constant` for each request (the chat template).

    `spread` is how far a single request lies off (one standard deviation); `count` requests taught it, whose estimates have
    this `mean` and `width` (sum of squared distances from the mean).
    """

    slope: float
    constant: float
    spread: float
    count: int
    mean: float
    width: float

    def total(self, estimated: float, requests: int) -> Span:
        """The tokens of so many requests whose estimates add up to `estimated`, in 95 of 100 cases between low and high."""
        if not requests:
            return Span(0.0, 0.0, 0.0)
        expected = max(0.0, self.slope * estimated + self.constant * requests)
        away = (estimated / requests - self.mean) ** 2 / self.width if self.width else 0.0
        of_line = self.spread * math.sqrt(1 / self.count + away) * requests
        apart = abs(math.log(estimated / requests / self.mean)) if estimated > 0 else 0.0
        drift = math.hypot(DRIFT, _OTHER_SIZES * min(apart, 1 / _OTHER_SIZES))
        return around(expected, math.hypot(of_line, self.spread * math.sqrt(requests)) * _widened(self.count), drift)


def fit(estimates: Sequence[float], counts: Sequence[int], added: float = 0.0) -> Scale | None:
    """The scale that requests teach, by their estimates and the server's counts. None without any of both above 0.

    `added` is what a chat template usually adds to a request: what the answers are unsure of is near it. Of the longest prompts
    alone, which may well be those that were sent first, a line says nothing of where it begins.
    """
    x, y = np.asarray(estimates, np.float64), np.asarray(counts, np.float64)
    usable = (x >= _LEAST) & (y > 0)
    x, y = x[usable], y[usable]
    if not len(x):
        return None
    kept = np.ones(len(x), bool)
    slope, constant = _line(x, y, added)
    for _ in range(_ROUNDS):
        off = y - slope * x - constant
        usual = 1.4826 * float(np.median(np.abs(off - np.median(off[kept]))))
        near = np.abs(off - np.median(off[kept])) <= max(_FAR * usual, 1.0)
        if (near == kept).all() or near.sum() * 2 < len(x):
            break
        kept = near
        slope, constant = _line(x[kept], y[kept], added)
    x, y = x[kept], y[kept]
    spread = float(np.sqrt(np.sum((y - slope * x - constant) ** 2) / max(1, len(x) - 2)))
    mean = float(x.mean())
    return Scale(slope, constant, spread, len(x), mean, float(np.sum((x - mean) ** 2)))


def around(expected: float, reach: float, drift: float) -> Span:
    """A figure with what it may be off by chance, and by so large a share because things change; never below 0."""
    whole = math.hypot(reach, drift * expected)
    return Span(max(0.0, expected - whole), expected, expected + whole)


def of_mean(values: Sequence[float], requests: int, drift: float) -> Span:
    """What so many requests add up to when they are like `values`, of which there is at least one."""
    seen = np.asarray(values, np.float64)
    count = len(seen)
    spread = float(seen.std(ddof=1)) if count > 1 else float(seen.mean())
    reach = SURE * spread * math.hypot(requests / math.sqrt(count), math.sqrt(requests))
    return around(float(seen.mean()) * requests, reach, drift)


def _widened(count: int) -> float:
    """Few answers know less than their spread says."""
    return SURE * (1 + 2.5 / max(1, count - 2))


def _line(x: NDArray[np.float64], y: NDArray[np.float64], added: float) -> tuple[float, float]:
    """Slope and constant by least squares, the constant drawn to what is usual (ridge regression, with the noise's variance over
    the usual one's as the penalty); of few or equal estimates the usual constant, and the ratio of the rest.
    """
    usual = added if added < float(y.mean()) else 0.0
    slope, constant = float((y - usual).sum() / x.sum()), usual
    width = float(np.sum((x - x.mean()) ** 2))
    if len(x) <= _FEW or width <= 1e-4 * float(np.sum(x**2)):
        return slope, constant
    drawn = constant
    for _ in range(_ROUNDS // 2):
        penalty = _ALIKE * float(np.mean((y - slope * x - drawn) ** 2)) / _USUALLY**2
        normal = [[float(np.sum(x**2)), float(x.sum())], [float(x.sum()), len(x) + penalty]]
        slope, drawn = np.linalg.solve(normal, [float(np.sum(x * y)), float(y.sum()) + penalty * usual]).tolist()
        if not _SLOPES[0] <= slope <= _SLOPES[1]:
            return float((y - usual).sum() / x.sum()), usual
    return slope, drawn
