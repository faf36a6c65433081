"""The judge of an eval set: another model that says, from 0 to 1, how good each answer is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.errors import SpecError
from headrace.runs.job import Job
from headrace.runs.making import Making, making_of
from headrace.spec import AnswerSpec, QualitySpec, SliceSpec
from headrace.values import Piece, UnitKind

KIND = UnitKind.JUDGE
SCORE = "score"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {SCORE: {"type": "number", "minimum": 0, "maximum": 1}, "reason": {"type": "string"}},
    "required": [SCORE],
}
_SALT = b"judge"


class Judging(Struct, frozen=True):
    """The job that the judge does: its own endpoint, model and prompt, under the limits of the job that it judges."""

    job: Job
    making: Making

    def asked(self, record: Mapping[str, Any], expected: Any, answer: Any) -> tuple[bytes, bytes]:
        """Hash and payload of what the judge is asked of one answer. Raises RecordError."""
        payload = self.making.renderer.render(Piece(0, 0, {**record, "expected": expected, "answer": answer}))
        return self.making.hasher(payload, _SALT), payload


def judging_of(job: Job) -> Judging | None:
    """None where no judge scores. Raises SpecError."""
    quality = job.spec.quality
    if quality.scorer != "judge":
        return None
    if quality.judge is None:
        raise SpecError('quality.scorer = "judge" needs [quality.judge]: a model and a prompt', key="quality.judge")
    judge = quality.judge
    spec = job.spec.model_copy(
        update={
            "prompt": judge.prompt, "model": judge.model, "endpoint": [judge.endpoint or job.spec.endpoint[0]],
            "answer": AnswerSpec(schema=SCHEMA, retry_invalid=job.spec.answer.retry_invalid), "slice": SliceSpec(),
            "quality": QualitySpec(),
        }
    )  # fmt: skip
    judged = Job(spec=spec, path=job.path, base=job.base)
    try:
        return Judging(judged, making_of(spec))
    except SpecError as error:
        raise SpecError(f"quality.judge: {error}", key=f"quality.judge.{error.key}" if error.key else "quality.judge") from None


def score_in(answer_text: bytes) -> float:
    """The number in a judge's accepted answer."""
    return float(canon.decode(answer_text)[SCORE])
