"""The eval set of a run: asked under the job's own configuration before the batch is, scored, held against an earlier run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.errors import HeadraceError, InputError, RecordError, SpecError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.quality.evaluation import Comparison, Decision, Grade, compare, decide, document
from headrace.quality.scorers import Scorer, ScoringError, check_expected, scorer_of
from headrace.runs.answertext import answer_json
from headrace.runs.asides import AsideIntake
from headrace.runs.job import Job
from headrace.runs.judging import KIND as JUDGE
from headrace.runs.judging import Judging, judging_of, score_in
from headrace.runs.lifecycle import job_candidates
from headrace.runs.making import Making
from headrace.runs.registry import RunFolder
from headrace.runs.reuse import Reuse
from headrace.runs.stores import named_run
from headrace.sources.open import open_source
from headrace.values import Kind, State, UnitKind

KIND = UnitKind.EVAL
EXPECTED = "expected"
EVALUATION = "evaluation"  # the ledger's name for what the eval set came to
_SALT = b"eval"  # a record of the eval set that the batch has too is a unit of its own
_AT_ONCE = 1000


class EvalRecord(Struct, frozen=True):
    """One record of the eval set. `payload` and `hash` are what is asked; `error` why it cannot be."""

    key: str
    fields: dict[str, Any]
    expected: Any
    group: Any = None
    payload: bytes | None = None
    hash: bytes | None = None
    error: str | None = None


class EvalSet(Struct, frozen=True):
    """All of it, in memory: people have written what is expected."""

    records: list[EvalRecord]
    scorer: Scorer | None  # None: the judge scores
    judging: Judging | None = None

    @property
    def payloads(self) -> dict[bytes, bytes]:
        """What is asked, equal questions once."""
        return {one.hash: one.payload for one in self.records if one.hash is not None and one.payload is not None}


def read_evalset(job: Job, making: Making) -> EvalSet | None:
    """The job's eval set, None where it has none. Raises SpecError and InputError before anything is sent."""
    quality = job.spec.quality
    if quality.evalset is None:
        return None
    judging = judging_of(job)
    scorer = scorer_of(quality, job.base) if judging is None else None
    if quality.gate is not None and quality.gate.baseline is not None and importlib.util.find_spec("scipy") is None:
        raise SpecError("quality.gate.baseline needs scipy: pip install '.[quality]'", key="quality.gate.baseline")
    records: list[EvalRecord] = []
    keys: dict[str, int] = {}
    gate = quality.gate
    if gate is not None and gate.baseline not in {None, "last"}:
        named_run(str(gate.baseline), job)  # a name that nobody has is told before anything is sent
    try:
        source = open_source(quality.evalset, job.base, max_record=job.spec.input.max_record)
    except InputError as error:
        raise SpecError(f"quality.evalset: {error}", key="quality.evalset", allowed="records with `expected`") from None
    has_groups = False
    try:
        done = False
        while not done:
            chunk = source.read(_AT_ONCE)
            done = chunk.done
            for record in chunk.records:
                if record.fields is None:
                    raise _unusable(record.number, record.reason or "it is no JSON object")
                if EXPECTED not in record.fields:
                    raise _unusable(record.number, f"it has no field {EXPECTED!r}")
                records.append(_record(job, making, record.fields, len(records), keys))
                if (why := check_expected(quality, record.fields[EXPECTED])) is not None:
                    raise _unusable(record.number, why)
                has_groups |= quality.group is not None and quality.group in record.fields
    finally:
        source.close()
    if not records:
        raise SpecError("quality.evalset has no record", key="quality.evalset", allowed="records with `expected`")
    if quality.group is not None and not has_groups:
        raise SpecError(
            f"quality.group: no record of quality.evalset has a field {quality.group[:60]!a}",
            key="quality.group",
            allowed="a field of the eval set's records",
        )
    return EvalSet(records, scorer, judging)


def _unusable(number: int, why: str) -> SpecError:
    return SpecError(f"quality.evalset: record {number:,}: {why}", key="quality.evalset", allowed="records with `expected`")


def _record(job: Job, making: Making, whole: dict[str, Any], place: int, keys: dict[str, int]) -> EvalRecord:
    fields = {name: value for name, value in whole.items() if name != EXPECTED}  # a prompt cannot tell what it asks for
    name = fields.get(job.spec.input.id) if job.spec.input.id is not None else None
    key = canon.encode(name).decode() if name is not None else canon.digest(fields)
    keys[key] = keys.get(key, 0) + 1
    if keys[key] > 1:
        key = f"{key} ({keys[key]})"
    group = fields.get(job.spec.quality.group) if job.spec.quality.group is not None else None
    try:
        payload = making.renderer.render(making.slicer(place, fields))
    except RecordError as error:
        return EvalRecord(key, fields, whole[EXPECTED], group, error=f"{Kind.BAD_INPUT}: {error}")
    return EvalRecord(key, fields, whole[EXPECTED], group, payload, making.hasher(payload, _SALT))


def evaluation_intake(evalset: EvalSet, making: Making, reader: LedgerReader, next_unit: int, reuse: Reuse | None) -> AsideIntake:
    return AsideIntake(KIND, evalset.payloads, reader, next_unit, reuse=reuse, judge=making.judge)


def judge_payloads(evalset: EvalSet, reader: LedgerReader) -> dict[bytes, bytes]:
    """What the judge is asked, by hash: of each record that has an answer."""
    judging, found = evalset.judging, _answers(reader, KIND)
    assert judging is not None
    wanted = {}
    for record in evalset.records:
        row = found.get(record.hash or b"")
        if row is not None and State(row[0]) is State.DONE:
            try:
                value, payload = judging.asked(record.fields, record.expected, _value(row))
            except RecordError:
                continue  # its grade says so
            wanted[value] = payload
    return wanted


def graded(evalset: EvalSet, reader: LedgerReader) -> list[Grade]:
    """Each record's score by what the ledger holds, in the order of the eval set."""
    found = _answers(reader, KIND)
    scorer = evalset.scorer
    if scorer is None:
        assert evalset.judging is not None
        scorer = _judged(evalset.judging, _answers(reader, JUDGE))
    return [_grade(record, scorer, found.get(record.hash or b"")) for record in evalset.records]


def _answers(reader: LedgerReader, kind: UnitKind) -> dict[bytes, Sequence[Any]]:
    """State, error, answer and content of each unit of a kind, by its hash."""
    return {row[0]: row[1:] for row in reader.all("answers_of_kind", (int(kind),))}


def _value(row: Sequence[Any]) -> Any:
    return canon.decode(answer_json(row[2], row[3]))


def _judged(judging: Judging, rows: Mapping[bytes, Sequence[Any]]) -> Scorer:
    """What the judge has said; where it failed, that is no score."""

    def score(answer: Any, expected: Any, record: dict[str, Any]) -> float:
        try:
            value, _ = judging.asked(record, expected, answer)
        except RecordError as error:
            raise ScoringError(f"{Kind.BAD_INPUT}: {error}") from error
        row = rows.get(value)
        if row is None or State(row[0]) is not State.DONE:
            raise ScoringError(as_text(row[1]) or "it was not asked" if row is not None else "it was not asked")
        return score_in(answer_json(row[2], row[3]))

    return score


def _grade(record: EvalRecord, scorer: Scorer, row: Sequence[Any] | None) -> Grade:
    def grade(answer: Any = None, score: float | None = None, error: str | None = None) -> Grade:
        return Grade(record.key, record.expected, answer, score, error, record.group)

    if row is None:
        return grade(error=record.error or "pending: it was not asked")
    state, error = State(row[0]), as_text(row[1])
    if state is State.QUARANTINED:
        return grade(score=0.0, error=error)
    if state is not State.DONE:
        return grade(error=error or "pending: it was not asked")
    value = _value(row)
    try:
        return grade(value, scorer(value, record.expected, record.fields))
    except ScoringError as failed:
        return grade(value, error=f"scorer: {failed}")


def stored(grades: Sequence[Grade]) -> list[tuple[Any, ...]]:
    """Rows of the table `grade`."""
    return [
        (
            one.key, _text(one.expected), None if one.answer is None else _text(one.answer), one.score, one.error,
            None if one.group is None else _text(one.group),
        )
        for one in grades
    ]  # fmt: skip


def read_grades(reader: LedgerReader) -> dict[str, Grade]:
    """What an eval set came to in a run, by key; empty where it had none."""
    return {
        as_text(key) or "": Grade(
            as_text(key) or "", canon.decode(expected), None if answer is None else canon.decode(answer), score, as_text(error),
            None if group is None else canon.decode(group),
        )
        for key, expected, answer, score, error, group in reader.all("grades")
    }  # fmt: skip


def _text(value: Any) -> str:
    return canon.encode(value).decode()


def concluded(job: Job, folder: RunFolder, grades: Sequence[Grade]) -> tuple[dict[str, Any], Decision]:
    """The document of an evaluation, and what follows from it for the batch. Raises RunNotFoundError, LedgerError."""
    gate = job.spec.quality.gate
    comparison, lacking = None, None
    if gate is not None and gate.baseline is not None:
        baseline = _baseline(job, folder, gate.baseline)
        if baseline is None:
            lacking = "quality.gate.baseline: no earlier run of this job has an eval set that passed; nothing is compared."
        else:
            comparison = _held_against(baseline, grades, gate.margin)
    decision = decide(gate, grades, comparison)
    if lacking is not None:
        decision = Decision(decision.gate, decision.reasons, [*decision.warnings, lacking])
    return document(grades, comparison.as_json() if comparison is not None else None, decision), decision


def _held_against(baseline: RunFolder, grades: Sequence[Grade], margin: float) -> Comparison:
    reader = LedgerReader(baseline.ledger)
    try:
        return compare(baseline.id, read_grades(reader), grades, margin)
    finally:
        reader.close()


def _baseline(job: Job, folder: RunFolder, name: str) -> RunFolder | None:
    """`last`: the job's newest other run whose eval set was not refused."""
    if name != "last":
        found = named_run(name, job)
        if found.path.resolve() == folder.path.resolve():
            raise SpecError(f"quality.gate.baseline: {name[:60]!a} is this run itself", key="quality.gate.baseline")
        return found
    for candidate in job_candidates(job, folder.path.parent):
        if candidate.folder.path.resolve() == folder.path.resolve():
            continue
        try:
            reader = LedgerReader(candidate.folder.ledger)
        except HeadraceError:
            continue
        try:
            evaluation = reader.meta(EVALUATION)
            if evaluation is not None and evaluation["gate"] != "refused" and reader.one("grades") is not None:
                return candidate.folder
        finally:
            reader.close()
    return None


def evaluation_of(path: Path) -> dict[str, Any] | None:
    """What the eval set of a run came to; None where it has none. Raises LedgerError."""
    reader = LedgerReader(RunFolder(path).ledger)
    try:
        found: dict[str, Any] | None = reader.meta(EVALUATION)
        return found
    finally:
        reader.close()
