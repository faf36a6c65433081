"""How much each endpoint of a run takes at once: as planned, as the server says, and as was observed, side by side."""

from __future__ import annotations

import math
from typing import Any

from headrace.engine.preflight import TOLD
from headrace.ledger.reader import LedgerReader, as_text
from headrace.policy.capacity import Load, plan_of_pool
from headrace.policy.knee import knee, points_of

_BLOCK = 16  # tokens, where the server does not say


def capacities_of(reader: LedgerReader) -> list[dict[str, Any]]:
    """A document for each endpoint of a ledger. None is what is not known.

    `planned`: requests of the mean length of this run that fit into the KV cache that the server tells of. `server`: its own
    figures and where they are from. `observed`: the knee, from the seconds that were sampled; the most in flight; the window.
    """
    return [
        {
            "endpoint": as_text(identity),
            "planned": _planned(told := reader.meta(f"{TOLD}{number}", {}), *reader.one("mean_lengths", (number,))),
            "server": {
                "kind": told.get("server"),
                "requests": told.get("requests"),
                "tokens": told.get("tokens"),
                "context": told.get("context"),
                "from": told.get("told_by") or None,
            },
            "observed": _observed(reader, number),
        }
        for number, identity in reader.all("endpoints")
    ]


def _planned(told: dict[str, Any], prompt: float | None, answer: float | None) -> dict[str, Any]:
    tokens, length = told.get("tokens"), None
    if tokens is None or not prompt:
        return {"requests": None, "tokens_per_request": None}
    length = Load(math.ceil(prompt), math.ceil(answer or 0) or 1)
    found = plan_of_pool(tokens, length, told.get("block") or _BLOCK, told.get("requests"), told.get("context"))
    return {"requests": found.max_concurrency, "tokens_per_request": length.tokens}


def _observed(reader: LedgerReader, number: int) -> dict[str, Any]:
    most, window = reader.one("most_in_flight", (number, number))
    return {"knee": knee(points_of(reader.all("loads", (number,)))), "most_in_flight": most, "window": window}
