"""How long a unit waits before its next try."""

from __future__ import annotations

import random

BASE_S = 0.5
CAP_S = 60.0


def backoff_s(failures: int, rng: random.Random, base_s: float = BASE_S, cap_s: float = CAP_S) -> float:
    """Seconds before try number `failures` + 1: doubles with each failure, the upper half of it random.

    Half of it is fixed, so that gaps grow and no try follows at once; half is random, so that units that failed
    together do not return together.
    """
    full = min(cap_s, base_s * 2.0 ** min(failures - 1, 30))
    return full / 2 + rng.random() * full / 2


def on_return_s(wait_s: float, rng: random.Random) -> float:
    """A wait that the server named, with up to a tenth on top: a floor, and clients do not return as one."""
    return wait_s * (1.0 + 0.1 * rng.random())
