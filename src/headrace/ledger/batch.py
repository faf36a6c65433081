"""One group commit's worth of facts."""

from __future__ import annotations

from typing import Any

from headrace.values import Item, Outcome, Sample, Unit


class Batch:
    """Filled by the engine, written by `SqliteLedger.commit` in one transaction: all of it is durable, or nothing."""

    __slots__ = ("items", "leases", "meta", "outcomes", "pieces", "released", "reopened", "samples", "units")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.pieces: list[tuple[int, int, int]] = []
        self.units: list[Unit] = []
        self.leases: list[int] = []
        self.released: list[int] = []
        self.reopened: list[int] = []
        self.outcomes: list[Outcome] = []
        self.samples: list[Sample] = []
        self.meta: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(
            self.outcomes
            or self.leases
            or self.items
            or self.released
            or self.reopened
            or self.samples
            or self.meta
            or self.units
        )
