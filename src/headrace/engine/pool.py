"""What waits to be leased, in the order in which it is to go: a buffer with payloads, and the numbers of the rest.

Units that do not fit into the buffer wait in the ledger. Once all of them are known, and another order than the input's is
better, the buffer is given back too, and everything comes again by number (`next_planned`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.policy.arrangement import MOST_KEYS, Keys
from headrace.policy.input_order import InputOrder
from headrace.policy.order import Order
from headrace.values import Failure, Reply, Unit

CHARS_A_TOKEN = 4
GROUPS_FROM = {"prefix": 1, "auto": 3, "longest": 0}  # depths at which prompts must agree: 64 and 256 bytes
_NOTHING: NDArray[np.uint32] = np.zeros(0, np.uint32)


class Pool:
    """`rule` is the job's `limits.order`, `shared` the bytes that all payloads have in common at their beginning.

    Noting units means to remember how they begin and how long they are: 16 bytes each, at most `MOST_KEYS` of them.
    """

    def __init__(self, rule: str, shared: int) -> None:
        self.is_input = rule == "input"
        self.order: Order | InputOrder = InputOrder() if self.is_input else Order(rule, shared)
        self._rule = rule
        self._shared = shared
        self._keys = Keys(shared)
        self._plan = _NOTHING
        self._is_final = False
        self._added = 0
        self._added_bytes = 0

    def __len__(self) -> int:
        return len(self.order)

    @property
    def planned(self) -> int:
        """Units that are to be recalled by number."""
        return len(self._plan)

    @property
    def takes_notes(self) -> bool:
        """Whether more units are to be noted."""
        return not self.is_input and len(self._keys) < MOST_KEYS

    def add(self, units: Sequence[Unit]) -> None:
        """Units with payload that may be taken from now on."""
        self._added += len(units)
        before = self.order.bytes
        self.order.add(units)
        self._added_bytes += self.order.bytes - before

    def on_back(self, seq: int, result: Reply | Failure | None) -> None:
        """A unit that was taken came back. None: unsent."""
        if not isinstance(result, Reply):
            self.order.on_failure(seq)
            return
        usage = result.usage
        if usage is not None and usage.completion is not None:
            answer = float(usage.completion)
        else:
            answer = len(result.content or "") / CHARS_A_TOKEN
        self.order.on_answer(seq, usage, answer)

    def finish(self) -> None:
        """The input is read: no unit is unknown."""
        self._is_final = True
        self.order.finish()

    def tell_left(self, beyond: int) -> None:
        """So many units are neither here nor planned."""
        units = beyond + len(self._plan)
        self.order.later = (units, units * self._added_bytes // max(1, self._added))

    # -- all that wait

    def note(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self._keys.add(unit.seq, unit.payload or b"")

    def arrange(self, first: int) -> bool:
        """Order the noted units from `first` on together with those that are here; False: they stay in the order they have.

        Afterwards nothing is noted any more.
        """
        self._keys.forget_before(first)
        here = self.order.drain()
        self.note(here)
        keys, self._keys = self._keys, Keys(self._shared)
        by_size = self._rule == "longest" or (self._rule == "auto" and self._is_final)
        out = self.order.payloads_out()
        plan = keys.arranged(out, groups_from=GROUPS_FROM[self._rule], by_size=by_size)
        if plan is None:
            self.order.add(here)
            return False
        self._plan = plan
        return True

    def next_planned(self, most: int) -> list[int]:
        """Numbers of the units that are to be recalled next, in their order."""
        numbers, self._plan = self._plan[:most], self._plan[most:]
        return [int(number) for number in numbers]

    def clear(self) -> None:
        self.order.drain()
        self._keys, self._plan = Keys(self._shared), _NOTHING
