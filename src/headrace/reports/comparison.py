"""`headrace compare`: what differs between two runs, in configuration, in operation and in answers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from headrace.ledger.reader import LedgerReader
from headrace.quality.spotcheck import review_of
from headrace.reports.changes import changes, settings_of
from headrace.reports.explanations import explain
from headrace.reports.operation import differences, figures_of
from headrace.runs.agreement import Labels, compare, read_answers
from headrace.runs.evaluating import EVALUATION
from headrace.runs.registry import RunFolder
from headrace.runs.status import status


def compare_runs(a: RunFolder, b: RunFolder) -> dict[str, Any]:
    """The document of `compare A B --json`. Reads only, also while the runs go on. Raises LedgerError.

    `configuration`: the keys that differ. `operation`: each figure of both; its `verdicts`: `differs`, `noise` (within what
    each run varies by itself), `unknown` (too little to tell) or `equal`. `explanations`: for each figure that differs the
    changed keys that could be why.
    """
    with ExitStack() as stack:
        readers = (LedgerReader(a.ledger), LedgerReader(b.ledger))
        for reader in readers:
            stack.callback(reader.close)
            reader.snapshot()
        changed = changes(settings_of(a, readers[0]), settings_of(b, readers[1]))
        found = differences(figures_of(readers[0], status(a.path)), figures_of(readers[1], status(b.path)))
        labels = Labels()
        answers = compare(read_answers(readers[0], labels), read_answers(readers[1], labels), readers, labels)
        evaluations = [reader.meta(EVALUATION) for reader in readers]
        models = [sorted({model for (model,) in reader.all("models") if model}) for reader in readers]
    return {
        "runs": [a.id, b.id],
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
        "models": models,
        "quality": {
            "eval_score": [of["score"] if of is not None else None for of in evaluations],
            "accepted_share": [of["share"] if of is not None else None for of in map(review_of, (a.path, b.path))],
        },
        "explanations": [
            {"figure": one.figure, "keys": one.keys} for one in explain(changed, found, answers_differ=answers.changed > 0)
        ],
    }  # fmt: skip
