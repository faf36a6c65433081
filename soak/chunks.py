"""Some lives in a row, in a worker process."""

from __future__ import annotations

from soak.divided import live_divided
from soak.lives import Sites, live

DIVIDED = 4  # one life in so many has beside it that of a job which divides its documents


def chunk(first: int, count: int) -> tuple[list[tuple[int, str]], Sites]:
    """What was broken, by seed, and where crashes fell."""
    sites = Sites()
    failures: list[tuple[int, str]] = []
    for seed in range(first, first + count):
        try:
            whole_life(seed, sites)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this life's failure
            failures.append((seed, f"{type(error).__name__}: {error}"))
    return failures, sites


def whole_life(seed: int, sites: Sites | None = None) -> None:
    """The life of a seed, and where it is one in `DIVIDED` also that of a job which divides its documents."""
    live(seed, sites)
    if seed % DIVIDED == 0:
        live_divided(seed)
