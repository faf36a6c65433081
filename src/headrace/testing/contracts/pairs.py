"""A reducer for tests of ledgers: it asks with the answers themselves, two at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from headrace.slicing.join import groups
from headrace.values import Item, Outcome, Reduction, Unit


class Pairs:
    """Satisfies `headrace.protocols.Reducer`. A request's payload is its level and the answers that it joins."""

    config = 1

    def reduce(self, item: Item, level: int, answers: Sequence[str]) -> list[Reduction]:  # noqa: ARG002 - the protocol's
        found = groups([1.0] * len(answers), 2.0)
        payloads = [f"{level}: {', '.join(answers[first:stop])}".encode() for first, stop in found]
        return [
            Reduction(n, first, stop, len(found) == 1, hashlib.sha256(payload).digest()[:16], payload)
            for n, ((first, stop), payload) in enumerate(zip(found, payloads, strict=True))
        ]

    def answered(self, units: Sequence[Unit]) -> list[Outcome]:  # noqa: ARG002 - the protocol's
        return []
