"""The rules by which a job's records become requests, compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from headrace.answers.judge import AnswerJudge
from headrace.answers.score import ScoreJudge, scorer_of
from headrace.canon import UnitHasher
from headrace.prompts.body import BodyTemplate
from headrace.prompts.content_free import content_free_payloads
from headrace.prompts.longest import Longest
from headrace.prompts.reduce import ReducePrompt
from headrace.prompts.render import LimitedRenderer, PromptRenderer
from headrace.prompts.where import compile_where
from headrace.protocols import Judge
from headrace.runs.pieces import Dividing, Reducing, Slicer, salt_of
from headrace.slicing.divide import Divider
from headrace.slicing.measure import Measure
from headrace.slicing.truncate import Truncator
from headrace.spec import AnswerSpec, JobSpec, ReduceSpec
from headrace.values import Piece, Slice


def whole(item_seq: int, fields: dict[str, Any]) -> Piece:
    """The slicer of a job that slices nothing."""
    return Piece(item_seq, 0, fields)


class Making(Struct, frozen=True):
    """The rules by which records become units."""

    renderer: PromptRenderer
    hasher: UnitHasher
    judge: AnswerJudge | ScoreJudge
    slicer: Slicer = whole
    where: Callable[[dict[str, Any]], bool] | None = None
    id_field: str | None = None
    limit: int | None = None
    dedupe: bool = True
    dividing: Dividing | None = None
    keeps_order: bool = False

    def asked(self, whole: Piece) -> tuple[list[bytes], list[Slice]]:
        """The hash of each piece of an item, and what the pieces hold of divided fields. Raises RecordError."""
        if self.dividing is not None:
            asked = self.dividing.asked(whole, dedupe=self.dedupe)
            return asked.hashes, asked.slices
        return [self.hasher(self.renderer.render(whole), salt_of(whole.item, 0, dedupe=self.dedupe))], []

    @property
    def plain_judge(self) -> Judge | None:
        """Who judges answers that a reducing prompt joins; None where there are none."""
        return self.dividing.reducing.judge if self.dividing is not None and self.dividing.reducing is not None else None


def making_of(spec: JobSpec) -> Making:
    """Compile a job's templates, schema and filter. Raises SpecError."""
    renderer = PromptRenderer(spec)
    if spec.answer.calibrate:
        content_free_payloads(renderer)  # refused here, before anything is sent or written
    slicer = whole
    if spec.slice.truncate is not None:
        slicer = Truncator(spec.slice.truncate, renderer.fields)
    longest = _longest(spec)
    judge = AnswerJudge(spec) if spec.answer.method == "generate" else ScoreJudge(scorer_of(spec))
    # After the judge: it refuses a schema that is no JSON, which cannot be hashed either.
    hasher = UnitHasher(BodyTemplate(spec).hash_constants())
    dividing = _dividing(spec, renderer, hasher, longest)
    return Making(
        renderer=renderer if longest is None or dividing is not None else LimitedRenderer(spec, longest.check),
        hasher=hasher,
        judge=judge,
        slicer=slicer,
        where=compile_where(spec.input.where) if spec.input.where is not None else None,
        id_field=spec.input.id,
        limit=spec.input.limit,
        dedupe=spec.input.dedupe,
        dividing=dividing,
        keeps_order=spec.limits.order in {"input", "longest"},
    )


def _longest(spec: JobSpec) -> Longest | None:
    if spec.slice.max_input is None:
        return None
    measure = Measure(spec.slice.max_input)
    return Longest(measure.limit, measure.unit, measure.of)


def _dividing(spec: JobSpec, renderer: PromptRenderer, hasher: UnitHasher, longest: Longest | None) -> Dividing | None:
    split = spec.slice.split
    if split is None:
        return None
    join, reducing = split.join, None
    if isinstance(join, ReduceSpec):
        plain = as_text(spec)
        reducing = Reducing(
            ReducePrompt(spec, join), AnswerJudge(plain), UnitHasher(BodyTemplate(plain).hash_constants()), Measure(split.size)
        )
    how = "reduce" if isinstance(join, ReduceSpec) else join
    return Dividing(Divider(split, renderer.fields), renderer, hasher, how, longest, reducing)


def as_text(spec: JobSpec) -> JobSpec:
    """The job with a text for an answer, of which nothing is asked but that it is there."""
    answer = spec.answer
    text = AnswerSpec(strip_think=answer.strip_think, on_truncated=answer.on_truncated, retry_invalid=answer.retry_invalid)
    return spec.model_copy(update={"answer": text})
