"""Which items are looked at: drawn by a seed, the same with each command, and a larger sample holds the smaller one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from headrace.policy.sampling import allocate

OTHER = "(others)"
MOST_STRATA = 50


class Candidate(NamedTuple):
    """An item that may be drawn: its number, and what it is one of."""

    item: int
    stratum: str = ""


class Sample(Struct, frozen=True):
    """`items` in the order in which they are to be looked at; `strata` of each, and how many items each stratum has."""

    items: list[int]
    strata: dict[int, str]
    sizes: dict[str, int]

    @property
    def population(self) -> int:
        return sum(self.sizes.values())


def draw(candidates: Iterable[Candidate], wanted: float, seed: int) -> Sample:
    """`wanted`: a share of all, or so many. With strata each kind is drawn from by itself, rare ones more often.

    An item's place is decided by seed and number alone, so that items that are done later change nothing among the others.
    """
    by_stratum: dict[str, list[tuple[bytes, int]]] = {}
    for item, stratum in candidates:
        by_stratum.setdefault(stratum, []).append((_key(seed, item), item))
    by_stratum = _few(by_stratum)
    sizes = {name: len(found) for name, found in by_stratum.items()}
    total = sum(sizes.values())
    count = wanted if isinstance(wanted, int) else round(wanted * total + 0.499999)
    drawn: list[tuple[bytes, int]] = []
    strata = {}
    for name, share in allocate(sizes, count).items():
        for key, item in sorted(by_stratum[name])[:share]:
            drawn.append((key, item))
            strata[item] = name
    return Sample([item for _, item in sorted(drawn)], strata, sizes)


def _key(seed: int, item: int) -> bytes:
    return hashlib.sha256(f"{seed}:{item}".encode()).digest()[:8]


def _few(by_stratum: dict[str, list[tuple[bytes, int]]]) -> dict[str, list[tuple[bytes, int]]]:
    """At most `MOST_STRATA`: the rarest are one."""
    if len(by_stratum) <= MOST_STRATA:
        return by_stratum
    names = sorted(by_stratum, key=lambda name: -len(by_stratum[name]))
    kept = {name: by_stratum[name] for name in names[: MOST_STRATA - 1]}
    kept[OTHER] = [one for name in names[MOST_STRATA - 1 :] for one in by_stratum[name]]
    return kept


def banded(value: float, bounds: Sequence[float], names: Sequence[str]) -> str:
    """The name of the band that a value lies in; `bounds` are their upper ends, the last band has none."""
    return next((name for bound, name in zip(bounds, names, strict=False) if value <= bound), names[-1])
