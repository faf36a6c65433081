"""Throughput against what is in flight: which numbers to try, and from where on more brings nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ENOUGH = 0.9  # of the best throughput: what is beyond pays in waiting
_GAIN = 1.05  # of the best so far: less is no gain
_FLAT = 2  # numbers without a gain, after which higher ones are not tried
_SECONDS = 5  # of samples at about one number, for its throughput to be told

Point = tuple[int, float]  # how many were in flight, and how many were answered in a second


def levels(most: int) -> list[int]:
    """What is tried: 1, 2, 4, … and `most` itself."""
    found = []
    level = 1
    while level < most:
        found.append(level)
        level *= 2
    return [*found, most]


def is_flat(points: Sequence[Point]) -> bool:
    """Whether the last ones brought no gain over the best before them."""
    if len(points) <= _FLAT:
        return False
    best = max(rate for _, rate in points[:-_FLAT])
    return all(rate < _GAIN * best for _, rate in points[-_FLAT:])


def knee(points: Iterable[Point]) -> int | None:
    """The fewest in flight that bring ENOUGH of the best throughput; None where nothing came, or where it is the most that were
    tried: what more would bring is not known.
    """
    tried = sorted(points)
    best = max((rate for _, rate in tried), default=0.0)
    if best <= 0:
        return None
    found = next(level for level, rate in tried if rate >= ENOUGH * best)
    return found if found < tried[-1][0] else None


def points_of(samples: Iterable[tuple[int, int, int]]) -> list[Point]:
    """The throughput at each number in flight, from (in flight, seconds, answered in them). Near numbers are taken together."""
    taken: dict[int, list[int]] = {}
    for in_flight, seconds, answered in samples:
        if in_flight > 0:
            entry = taken.setdefault((in_flight**4).bit_length(), [0, 0, 0])  # a step is a fourth root of two
            entry[0] += in_flight * seconds
            entry[1] += seconds
            entry[2] += answered
    return [(round(held / seconds), answered / seconds) for held, seconds, answered in taken.values() if seconds >= _SECONDS]
