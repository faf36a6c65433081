"""The names of top-level fields that an input was seen to have, in the order in which they were met."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Hostile input may give each record names of its own. Ours all begin with "answer"; they decide about name clashes
# and have a bound of their own.
_MOST = 1_000
_MOST_OURS = 100_000
_LONGEST = 200


class Names:
    """Field names in first-seen order. Bounded: beyond 1,000 names only those that begin with `answer` are still kept."""

    def __init__(self) -> None:
        self._order: dict[str, None] = {}
        self._last: object = None

    def see(self, fields: dict[str, Any]) -> None:
        """Note a record's names; costs next to nothing while records have the shape of the one before."""
        if fields.keys() != self._last:
            self._last = fields.keys()
            self.add(fields)

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._order or len(name) > _LONGEST:
                continue
            if len(self._order) < _MOST or (name.startswith("answer") and len(self._order) < _MOST_OURS):
                self._order[name] = None

    def as_list(self) -> list[str]:
        return list(self._order)
