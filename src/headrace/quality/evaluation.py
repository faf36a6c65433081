"""What an eval set came to: the score beside what could not be scored, by class, and against an earlier run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.policy.regression import Paired, needed, paired_binary, paired_graded, verdict
from headrace.policy.stats import class_figures, wilson
from headrace.quality.scorers import normal
from headrace.spec import GateSpec

MOST_ERRORS = 0.02  # of all records: with more the gate cannot tell
POLICY = "a quarantined answer is wrong; a failed one is an error, and not scored; score is the mean over n_scored"
_MOST_CLASSES = 100
_EXAMPLES = 200
_CAUSES = 5


class Grade(Struct, frozen=True):
    """One record of the eval set. `score` is None where there is none: `error` then says why, `kind: cause`.

    `key` is by what the same record is known in another run; `group` whose it is, where records are not independent.
    """

    key: str
    expected: Any
    answer: Any = None
    score: float | None = None
    error: str | None = None
    group: Any = None

    @property
    def kind(self) -> str:
        return (self.error or "").partition(":")[0]

    @property
    def id(self) -> str:
        """The key for people: a text without the quotes of JSON."""
        key = self.key
        return str(canon.decode(key)) if key[:1] == '"' == key[-1:] and len(key) > 1 else key


class Decision(Struct, frozen=True):
    """What follows for the batch. `gate`: none, passed, refused. `reasons` say why, `warnings` what should be known."""

    gate: str
    reasons: list[str]
    warnings: list[str]


def document(grades: Sequence[Grade], baseline: dict[str, Any] | None, decision: Decision) -> dict[str, Any]:
    """The document of `eval --json`."""
    scored = [grade.score for grade in grades if grade.score is not None]
    errors = Counter(grade.kind for grade in grades if grade.score is None)
    figures = by_class(grades)
    return {
        "n_total": len(grades), "n_scored": len(scored), "n_error": dict(sorted(errors.items())),
        "score": sum(scored) / len(scored) if scored else None, "interval": list(interval(scored)),
        "causes": causes(grades), "policy": POLICY, "per_class": figures, "confusion": confusion(grades) if figures else [],
        "baseline": baseline, "gate": decision.gate, "reasons": decision.reasons, "warnings": decision.warnings,
    }  # fmt: skip


def causes(grades: Sequence[Grade]) -> list[dict[str, Any]]:
    """Why records could not be scored, the commonest causes first, each with a record of its own."""
    found: dict[str, list[Grade]] = {}
    for grade in grades:
        if grade.score is None:
            found.setdefault(grade.error or "", []).append(grade)
    commonest = sorted(found.items(), key=lambda of: -len(of[1]))[:_CAUSES]
    return [{"error": error, "count": len(of), "id": of[0].id} for error, of in commonest]


def interval(scores: Sequence[float]) -> tuple[float, float]:
    """95 %: Wilson's where each score is right or wrong, else the bootstrap's of the mean; (0, 1) of nothing."""
    if not scores:
        return 0.0, 1.0
    if all(score in {0.0, 1.0} for score in scores):
        return wilson(int(sum(scores)), len(scores))
    low, high = paired_graded([0.0] * len(scores), scores).interval
    return max(0.0, low), min(1.0, high)


def by_class(grades: Sequence[Grade]) -> dict[str, dict[str, Any]]:
    """Precision, recall and F1 of each expected text, where there are few enough to be classes."""
    pairs = _pairs(grades)
    if not pairs:
        return {}
    names = {normal(expected): expected for expected, _ in pairs}
    found = class_figures(((normal(expected), answer) for expected, answer in pairs), list(names))
    return {
        names.get(name, name): {"precision": of.precision, "recall": of.recall, "f1": of.f1, "n": of.n}
        for name, of in found.items()
    }


def confusion(grades: Sequence[Grade]) -> list[dict[str, Any]]:
    """How often each expected class was answered as which, the most first; an answer that is none is null."""
    counts = Counter(_pairs(grades))
    return [{"expected": expected, "answer": answer, "count": count} for (expected, answer), count in counts.most_common()]


def _pairs(grades: Sequence[Grade]) -> list[tuple[str, str | None]]:
    """Of scored records the class and what was answered, normalised; nothing where what is expected are no classes."""
    scored = [grade for grade in grades if grade.score is not None]
    if not scored or not all(isinstance(grade.expected, str) for grade in scored):
        return []
    classes = {grade.expected for grade in scored}
    if len(classes) > _MOST_CLASSES or (len(classes) > 2 and 2 * len(classes) > len(scored)):
        return []
    names = {normal(name): name for name in classes}
    answers = [normal(grade.answer) if isinstance(grade.answer, str) else None for grade in scored]
    return [
        (grade.expected, None if answer is None else names.get(answer, answer))
        for grade, answer in zip(scored, answers, strict=True)
    ]


class Comparison(Struct, frozen=True):
    """Against an earlier run, on the records that both have scored. `worse` are those that got worse, 200 at most."""

    run: str
    paired: Paired | None
    verdict: str
    needed: int | None
    worse: list[dict[str, Any]]
    n_worse: int
    common: int
    coverage: float  # of this eval set

    def as_json(self) -> dict[str, Any]:
        found = self.paired
        return {
            "run": self.run, "n_common": self.common, "coverage": round(self.coverage, 4),
            "difference": found.difference if found is not None else None,
            "interval": list(found.interval) if found is not None else None, "p": found.p if found is not None else None,
            "needed": self.needed, "verdict": self.verdict, "n_worse": self.n_worse,
            "worse": self.worse,
        }  # fmt: skip


def compare(run: str, old: Mapping[str, Grade], new: Sequence[Grade], margin: float) -> Comparison:
    """Hold the scores of common records against each other. What either has not scored is in neither mean."""
    pairs = [
        (old[grade.key], grade) for grade in new
        if grade.score is not None and grade.key in old and old[grade.key].score is not None
    ]  # fmt: skip
    coverage = len(pairs) / len(new) if new else 0.0
    if not pairs:
        return Comparison(run, None, "not enough to tell", None, [], 0, 0, coverage)
    before = [a.score or 0.0 for a, _ in pairs]
    after = [b.score or 0.0 for _, b in pairs]
    groups = [b.group for _, b in pairs]
    has_groups = any(group is not None for group in groups)
    if not has_groups and all(score in {0.0, 1.0} for score in before + after):
        paired = paired_binary(before, after)
    else:
        # A record without a group is one of its own.
        paired = paired_graded(
            before, after, [b.key if b.group is None else (b.group,) for _, b in pairs] if has_groups else None
        )
    worse = [
        {"id": b.id, "expected": b.expected, "old": a.answer, "new": b.answer}
        for a, b in pairs
        if (b.score or 0) < (a.score or 0)
    ]
    told = verdict(paired, margin)
    if told == "ok" and sum(grade.score is None for grade in new) > MOST_ERRORS * len(new):
        told = "not enough to tell"  # what failed may be what is hard
    return Comparison(run, paired, told, needed(paired, margin) if told == "not enough to tell" else None, worse[:_EXAMPLES],
                      len(worse), len(pairs), coverage)  # fmt: skip


def decide(gate: GateSpec | None, grades: Sequence[Grade], comparison: Comparison | None) -> Decision:
    """Only a score that is not `min_score`, a baseline that is clearly better, or (by `unclear`) not knowing refuses."""
    if gate is None:
        return Decision("none", [], [])
    refusals: list[str] = []
    unclear: list[str] = []
    scored = [grade.score for grade in grades if grade.score is not None]
    errors = len(grades) - len(scored)
    score = sum(scored) / len(scored) if scored else None
    if gate.min_score is not None:
        if score is None:
            refusals.append(f"nothing could be scored, and quality.gate.min_score = {gate.min_score:g} is wanted")
        elif score < gate.min_score:
            refusals.append(f"the score {score:.4g} of {len(scored):,} is below quality.gate.min_score = {gate.min_score:g}")
    if errors > MOST_ERRORS * len(grades):
        unclear.append(f"{errors:,} of {len(grades):,} records of the eval set could not be scored")
    if comparison is not None:
        if comparison.verdict == "worse" and comparison.paired is not None:
            refusals.append(
                f"worse than run {comparison.run} by {-comparison.paired.difference:.4g} on {comparison.common:,} common records"
            )
        elif comparison.verdict != "ok":
            wanted = f"; about {comparison.needed:,} records would tell" if comparison.needed else ""
            unclear.append(f"whether it is worse than run {comparison.run} is not enough to tell{wanted}")
        if comparison.coverage < 1 - MOST_ERRORS:
            unclear.append(f"run {comparison.run} shares {comparison.coverage:.0%} of the eval set")
    if gate.unclear == "refuse":
        refusals += unclear
        unclear = []
    return Decision("refused" if refusals else "passed", refusals, unclear)
