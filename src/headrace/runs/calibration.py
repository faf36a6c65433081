"""Calibration: the job's own prompt without content is asked first, and what it prefers is told apart from the records."""

from __future__ import annotations

from typing import NamedTuple

from headrace.answers.score import ContentFreeJudge, LabelScorer, content_free
from headrace.ledger.reader import LedgerReader
from headrace.prompts.content_free import content_free_payloads
from headrace.runs.asides import AsideIntake
from headrace.runs.making import Making
from headrace.runs.reuse import Reuse
from headrace.values import State, UnitKind

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


class CalibrationIntake(AsideIntake):
    """The calibration's units."""

    def __init__(
        self, making: Making, reader: LedgerReader, next_unit: int, *, reuse: Reuse | None = None, judge: ContentFreeJudge
    ) -> None:
        payloads = {making.hasher(payload, _SALT): payload for payload in content_free_payloads(making.renderer)}
        super().__init__(KIND, payloads, reader, next_unit, reuse=reuse, judge=judge)

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
