"""`headrace compare`: what differs between two runs, in configuration, in operation and in answers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

from headrace.ledger.reader import LedgerReader
from headrace.quality.spotcheck import review_of
from headrace.reports.changes import changes, settings_of
from headrace.reports.explanations import explain
from headrace.reports.operation import Figures, differences, figures_of
from headrace.runs.agreement import Answers, Labels, compare, read_answers
from headrace.runs.evaluating import EVALUATION
from headrace.runs.registry import RunFolder
from headrace.runs.status import status


class _Read(NamedTuple):
    """What is compared of one run."""

    run: RunFolder
    reader: LedgerReader
    settings: dict[str, Any]
    figures: Figures
    answers: Answers
    models: list[str]
    evaluation: dict[str, Any] | None
    review: dict[str, Any] | None


def compare_runs(a: RunFolder, *others: RunFolder) -> list[dict[str, Any]]:
    """The document of `compare A B --json` for each B; A is read once. Reads only, also while the runs go on. Raises LedgerError.

    `configuration`: the keys that differ. `operation`: each figure of both; its `verdicts`: `differs`, `noise` (within what
    each run varies by itself), `unknown` (too little to tell) or `equal`. `explanations`: for each figure that differs the
    changed keys that could be why.
    """
    labels = Labels()
    with ExitStack() as stack:
        first = _read(a, labels, stack)
        documents = []
        for other in others:
            with ExitStack() as its:
                documents.append(_compared(first, _read(other, labels, its), labels))
        return documents


def _read(run: RunFolder, labels: Labels, stack: ExitStack) -> _Read:
    reader = LedgerReader(run.ledger)
    stack.callback(reader.close)
    reader.snapshot()
    return _Read(
        run, reader, settings_of(run, reader), figures_of(reader, status(run.path)), read_answers(reader, labels),
        sorted({model for (model,) in reader.all("models") if model}), reader.meta(EVALUATION), review_of(run.path),
    )  # fmt: skip


def _compared(a: _Read, b: _Read, labels: Labels) -> dict[str, Any]:
    changed = changes(a.settings, b.settings)
    found = differences(a.figures, b.figures)
    answers = compare(a.answers, b.answers, (a.reader, b.reader), labels)
    return {
        "runs": [a.run.id, b.run.id],
        "configuration": [
            {"key": one.key, "a": one.a, "b": one.b, **({"diff": one.diff} if one.diff else {})} for one in changed
        ],
        "operation": {one.name: [one.a, one.b] for one in found},
        "verdicts": {one.name: one.verdict for one in found},
        "answers": {
            "common": answers.common, "both_done": answers.both, "equal": answers.equal, "changed": answers.changed,
            "only_a": answers.only_a, "only_b": answers.only_b, "repeated": answers.repeated,
            "same_request": answers.same_request,
            "statuses": [{"a": one, "b": other, "count": count} for one, other, count in answers.statuses],
            "pairs": [{"a": one, "b": other, "count": count} for one, other, count in answers.pairs],
            "labels": [{"label": label, "a": one, "b": other} for label, one, other in answers.shift],
            "examples": answers.examples,
        },
        "models": [a.models, b.models],
        "quality": {
            "eval_score": [of["score"] if of is not None else None for of in (a.evaluation, b.evaluation)],
            "accepted_share": [of["share"] if of is not None else None for of in (a.review, b.review)],
        },
        "explanations": [
            {"figure": one.figure, "keys": one.keys, "beside": one.beside}
            for one in explain(changed, found, answers_differ=answers.changed > 0)
        ],
    }  # fmt: skip
