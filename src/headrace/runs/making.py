"""The rules by which a job's records become requests, compiled once."""

from __future__ import annotations

from headrace.answers.judge import AnswerJudge
from headrace.answers.score import ScoreJudge, scorer_of
from headrace.canon import UnitHasher
from headrace.prompts.body import BodyTemplate
from headrace.prompts.content_free import content_free_payloads
from headrace.prompts.render import PromptRenderer
from headrace.prompts.where import compile_where
from headrace.runs.intake import Making, whole
from headrace.slicing.truncate import Truncator
from headrace.spec import JobSpec, amount


def making_of(spec: JobSpec) -> Making:
    """Compile a job's templates, schema and filter. Raises SpecError."""
    renderer = PromptRenderer(spec)
    if spec.answer.calibrate:
        content_free_payloads(renderer)  # refused here, before anything is sent or written
    slicer = whole
    if spec.slice.truncate is not None:
        slicer = Truncator(amount(spec.slice.truncate)[1], renderer.fields)
    return Making(
        renderer=renderer,
        hasher=UnitHasher(BodyTemplate(spec).hash_constants()),
        judge=AnswerJudge(spec) if spec.answer.method == "generate" else ScoreJudge(scorer_of(spec)),
        slicer=slicer,
        where=compile_where(spec.input.where) if spec.input.where is not None else None,
        id_field=spec.input.id,
        limit=spec.input.limit,
        dedupe=spec.input.dedupe,
    )
