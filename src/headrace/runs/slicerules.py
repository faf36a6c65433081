"""Rules of `[slice]` that no single key can tell."""

from __future__ import annotations

from typing import Any

from headrace.errors import SpecError
from headrace.spec import AnswerSpec, JobSpec, ReduceSpec, SplitSpec, amount

_JOINABLE = frozenset({"string", "array"})


def check_slices(spec: JobSpec) -> None:
    """Raise SpecError for the first rule that the job breaks."""
    split = spec.slice.split
    if split is None:
        return
    _check_overlap(split)
    if isinstance(split.join, ReduceSpec):
        _check_reduce(split.join, spec.answer)
    elif split.join == "concat":
        _check_concat(spec.answer)


def _check_overlap(split: SplitSpec) -> None:
    if split.overlap is None:
        return
    (unit, size), (other, overlap) = amount(split.size), amount(split.overlap)
    if overlap and unit != other:
        raise SpecError(
            f"slice.split.overlap: found {other}, and slice.split.size is in {unit}; write both in one unit",
            key="slice.split.overlap", found=other, allowed=unit,
        )  # fmt: skip
    if 2 * overlap > size:
        raise SpecError(
            f"slice.split.overlap: found {overlap} {unit}; allowed: at most half of slice.split.size, {size // 2} {unit}",
            key="slice.split.overlap", found=f"{overlap} {unit}", allowed=f"at most {size // 2} {unit}",
        )  # fmt: skip


def _check_reduce(join: ReduceSpec, answer: AnswerSpec) -> None:
    if not join.prompt.strip():
        raise SpecError("slice.split.join.prompt: found an empty text", key="slice.split.join.prompt", found="an empty text")
    if answer.method == "score":
        raise SpecError(
            'slice.split.join: a reducing prompt cannot stand beside answer.method = "score", which asks for one token; '
            'use join = "vote"',
            key="slice.split.join", found="a prompt", allowed='"vote" or "list"',
        )  # fmt: skip


def _check_concat(answer: AnswerSpec) -> None:
    """Only texts and lists can be put together."""
    kind = _kind_of(answer)
    if kind is not None and kind not in _JOINABLE:
        raise SpecError(
            f'slice.split.join: "concat" puts texts or lists together, and answers here are {kind}; use "vote", "list" or '
            "{ prompt = … }",
            key="slice.split.join", found='"concat"', allowed='"vote", "list" or { prompt = … }',
        )  # fmt: skip


def _kind_of(answer: AnswerSpec) -> str | None:
    """The JSON type of all answers, where the job says it."""
    if answer.labels is not None:
        return "labels"
    schema: Any = answer.schema_
    if answer.field is not None and isinstance(schema, dict):
        properties = schema.get("properties")
        schema = properties.get(answer.field) if isinstance(properties, dict) else None
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else None
