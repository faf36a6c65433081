"""Units of the run's own kinds, which belong to no record of the batch: asked before it is read, and kept beside it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.ledger.reader import LedgerReader, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch, Judge
from headrace.runs.reuse import Reuse
from headrace.values import Intaken, Unit, UnitKind


class AsideIntake:
    """Satisfies `headrace.protocols.Intake`: units of one kind by hash and payload, those that the ledger lacks as new ones.

    So few that all are held in memory at once.
    """

    def __init__(
        self, kind: UnitKind, payloads: Mapping[bytes, bytes], reader: LedgerReader, next_unit: int, *,
        reuse: Reuse | None = None, judge: Judge,
    ) -> None:  # fmt: skip
        self._kind = kind
        self._payloads = payloads
        self._reader = reader
        self._reuse = reuse
        self._judge = judge
        known = {stored.hash for stored in reader.of_kind(kind)}
        lacking = [value for value in payloads if value not in known]
        self._next_unit = next_unit
        self._new = [
            Unit(seq=next_unit + place, hash=value, item=-1, n=place, kind=kind, payload=payloads[value])
            for place, value in enumerate(lacking)
        ]

    @property
    def waiting(self) -> int:
        """Units of an earlier process that are not settled."""
        return len(self.recall(-1, 0))

    @property
    def is_done(self) -> bool:
        return not self._new and not self.waiting

    @property
    def has_new(self) -> bool:
        return bool(self._new)

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def take(self, limit: int) -> Intaken:  # noqa: ARG002 - a handful, whatever is asked
        outcomes = self._reuse.outcomes(self._new, self._judge) if self._reuse is not None else []
        return Intaken([], [], self._new, self._next_unit, {}, done=True, outcomes=outcomes)

    def recall(self, after: int, limit: int) -> list[Unit]:  # noqa: ARG002 - a handful, whatever is asked
        return [
            Unit(
                seq=unit.seq, hash=unit.hash, item=-1, n=unit.n, kind=self._kind, config=unit.config,
                payload=self._payloads[unit.hash], ask=unit.ask, spent=unit.spent, age_s=unit.age_s,
            )
            for unit in self._reader.pending_of(self._kind, after)
            if unit.hash in self._payloads
        ]  # fmt: skip

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        return [unit for unit in self.recall(-1, 0) if unit.seq in seqs]


def reopen(ledger: SqliteLedger, reader: LedgerReader, kind: UnitKind) -> str:
    """Units of a kind that came to nothing are asked again by the next command; returns why the first of them did."""
    failed = reader.all("failed_of_kind", (int(kind),))
    batch = Batch()
    batch.reopened = [seq for seq, _ in failed]
    ledger.commit(batch)
    return as_text(failed[0][1]) or "" if failed else ""
