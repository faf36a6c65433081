"""Calibration: the job's own prompt without content is asked first, and what it prefers is told apart from the records."""

from __future__ import annotations

from typing import NamedTuple

from headrace.answers.score import ContentFreeJudge, LabelScorer, content_free
from headrace.ledger.reader import LedgerReader, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.prompts.content_free import content_free_payloads
from headrace.protocols import Batch
from headrace.runs.making import Making
from headrace.runs.reuse import Reuse
from headrace.values import Intaken, State, Unit, UnitKind

KIND = UnitKind.CALIBRATE
_SALT = b"calibrate"  # a record that says just "N/A" is a unit of its own


class Prior(NamedTuple):
    """The labels' logarithms of probability without content, None where none is known; from how many prompts of how many;
    and whether any label was seen there at all.
    """

    values: list[float] | None
    answered: int
    asked: int
    is_seen: bool

    @property
    def warning(self) -> str | None:
        """What people should know of it."""
        if self.answered < self.asked:
            return (
                f"answer.calibrate rests on {self.answered} of {self.asked} prompts without content; the others came to nothing."
            )
        if not self.is_seen:
            return "answer.calibrate changes nothing: without content no label is among the likeliest tokens."
        return None


class CalibrationIntake:
    """Satisfies `headrace.protocols.Intake`: the calibration's units, those that the ledger lacks as new ones."""

    def __init__(
        self, making: Making, reader: LedgerReader, next_unit: int, *, reuse: Reuse | None = None, judge: ContentFreeJudge
    ) -> None:
        payloads = content_free_payloads(making.renderer)
        self._payloads = {making.hasher(payload, _SALT): payload for payload in payloads}
        self._reader = reader
        self._reuse = reuse
        self._judge = judge
        known = {stored.hash for stored in reader.of_kind(KIND)}
        lacking = [value for value in self._payloads if value not in known]
        self._next_unit = next_unit
        self._new = [
            Unit(seq=next_unit + place, hash=value, item=-1, n=place, kind=KIND, payload=self._payloads[value])
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
                seq=unit.seq, hash=unit.hash, item=-1, n=unit.n, kind=KIND, config=unit.config, payload=self._payloads[unit.hash],
                ask=unit.ask, spent=unit.spent, age_s=unit.age_s,
            )
            for unit in self._reader.pending_of(KIND, after)
            if unit.hash in self._payloads
        ]  # fmt: skip

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        return [unit for unit in self.recall(-1, 0) if unit.seq in seqs]

    def prior(self, scorer: LabelScorer) -> Prior:
        """What the ledger holds of the prompt without content."""
        found = [
            stored.likeliest for stored in self._reader.of_kind(KIND)
            if stored.hash in self._payloads and stored.state is State.DONE and stored.likeliest
        ]  # fmt: skip
        scores = [scorer(likeliest) for likeliest in found]
        return Prior(
            content_free(scores) if scores else None, len(found), len(self._payloads), any(any(one.seen) for one in scores)
        )


def reopen(ledger: SqliteLedger, reader: LedgerReader) -> str:
    """Calibration units that came to nothing are asked again by the next command; returns why the first of them did."""
    failed = reader.all("failed_of_kind", (int(KIND),))
    batch = Batch()
    batch.reopened = [seq for seq, _ in failed]
    ledger.commit(batch)
    return as_text(failed[0][1]) or "" if failed else ""
