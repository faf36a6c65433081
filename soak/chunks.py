"""Some lives in a row, in a worker process."""

from __future__ import annotations

from soak.lives import Sites, live


def chunk(first: int, count: int) -> tuple[list[tuple[int, str]], Sites]:
    """What was broken, by seed, and where crashes fell."""
    sites = Sites()
    failures: list[tuple[int, str]] = []
    for seed in range(first, first + count):
        try:
            live(seed, sites)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this life's failure
            failures.append((seed, f"{type(error).__name__}: {error}"))
    return failures, sites
