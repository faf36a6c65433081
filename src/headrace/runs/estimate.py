"""`headrace estimate`: what a job would send, take and cost. Reads the input as a run does, asks nobody, writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from headrace.errors import OutputError, SpecError
from headrace.ledger.connection import without_trace
from headrace.ledger.reader import LedgerReader
from headrace.policy.amounts import counted
from headrace.policy.classes import misfit
from headrace.policy.tokens import Span
from headrace.prompts.content_free import content_free_payloads
from headrace.runs import outputs
from headrace.runs.costs import refuse_unpriced
from headrace.runs.evaluating import read_evalset
from headrace.runs.expectation import Between, Load, completions_of, prompts_uncalibrated, seconds_of
from headrace.runs.expense import Cost, Sent, cost_of
from headrace.runs.identities import identities_of
from headrace.runs.job import Job
from headrace.runs.joining import Joins, joins_of
from headrace.runs.lessons import Lessons, learn
from headrace.runs.lifecycle import Choice, Way, choose, job_candidates, resumed
from headrace.runs.limits import limits_met
from headrace.runs.making import making_of
from headrace.runs.pipeline import RunOptions
from headrace.runs.prices import longest_answer
from headrace.runs.registry import RunFolder, runs_folder
from headrace.runs.rehearsal import Group, Rehearsal, TokenCounter, rest_of
from headrace.runs.savings import Savings, trailing_tokens
from headrace.runs.stores import named_run, open_reuse
from headrace.sources.open import OpenedSource, open_source
from headrace.values import State, UnitKind


class Estimate(Struct, frozen=True):
    """What was found. All but `items`, `units`, `duplicates`, `rejected`, `excluded` and `pieces` is of what is still to be sent.

    `continues`: the run that would go on, of whose units `settled` are settled; `reused`: answers that another run would lend.
    `longest` is the prompt with the most bytes, in tokens. `notes` are lines for people.
    """

    items: int
    units: int
    duplicates: int
    rejected: int
    excluded: int
    pieces: int
    requests: int
    prompt: Span
    prompt_known_by: str
    answers: Between
    answers_known_by: str
    cost: Cost
    seconds: Between
    seconds_known_by: str
    longest: float
    savings: Savings
    rejects: list[Group]
    settled: int = 0
    reused: int = 0
    continues: str | None = None
    notes: tuple[str, ...] = ()


def estimate(job: Job, options: RunOptions | None = None, counter: TokenCounter | None = None) -> Estimate:
    """Look at a job and its input. Raises SpecError and InputError as a run would before it sends; what would only refuse the run
    itself (an unfinished other run, a foreign output) is a note.
    """
    with without_trace():
        return _estimate(job, options or RunOptions(), counter)


def _estimate(job: Job, options: RunOptions, counter: TokenCounter | None) -> Estimate:
    root = runs_folder(job.base, options.run_dir)
    source = open_source(job.spec.input.path, job.base, max_record=job.spec.input.max_record, query=job.spec.input.query)
    try:
        making = making_of(job.spec)
        if options.reuse not in {None, "last"}:
            named_run(str(options.reuse), job)
        choice, notes = _choice(job, root, source, options)
        if choice.way is Way.CONTINUE and choice.folder is not None:
            job = resumed(job, choice.folder)
            making = making_of(job.spec)
        identities = identities_of(job, os.environ)
        answerers = {identity: number for number, identity in enumerate(identities) if identity is not None}
        reuse = open_reuse(options.reuse, job, choice.folder or RunFolder(root / "none"), 1, answerers)
        try:
            seen = Rehearsal(making, rest_of(choice), counter)
            seen.read(source, reuse)
        finally:
            if reuse is not None:
                reuse.close()
        if choice.way is Way.NEW and job.spec.answer.calibrate and seen.requests:
            seen.add(content_free_payloads(making.renderer))
    finally:
        source.close()
    lessons = learn(job, job_candidates(job, root), identities, None if seen.is_exact else seen.counted)
    return _concluded(job, choice, seen, lessons, notes)


def document(found: Estimate) -> dict[str, Any]:
    """The document of `estimate --json`."""
    return {
        "items": found.items,
        "units": found.units,
        "duplicates": found.duplicates,
        "rejected": found.rejected,
        "pieces": found.pieces,
        "requests": found.requests,
        "prompt_tokens": {
            "low": round(found.prompt.low), "expected": round(found.prompt.expected), "high": round(found.prompt.high),
            "known_by": found.prompt_known_by,
        },
        "completion_tokens": {**_whole(found.answers), "known_by": found.answers_known_by},
        "cost": {
            "low": _cents(found.cost.low), "high": _cents(found.cost.high), "known": found.cost.known, "currency": "USD",
            "why": found.cost.why,
        },
        "seconds": {"low": _tenths(found.seconds.low), "high": _tenths(found.seconds.high), "known_by": found.seconds_known_by},
        "rejects": [
            {"kind": group.kind, "count": group.count, "example": group.example, "message": group.message}
            for group in found.rejects
        ],
        "excluded": found.excluded,
        "run": found.continues,
        "settled": found.settled,
        "reused": found.reused,
        "longest_prompt_tokens": round(found.longest),
        "cacheable_tokens": {
            "common": found.savings.common, "input_order": found.savings.input_order,
            "prefix_order": found.savings.prefix_order, "if_template_first": found.savings.moved,
        },
        "notes": list(found.notes),
    }  # fmt: skip


def _whole(figures: Between) -> dict[str, int | None]:
    return {name: None if (value := getattr(figures, name)) is None else round(value) for name in ("low", "expected", "high")}


def _cents(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 6)


def _tenths(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 1)


def _choice(job: Job, root: Path, source: OpenedSource, options: RunOptions) -> tuple[Choice, list[str]]:
    """Which run the command would mean, and why it would be refused."""
    notes = []
    checks: tuple[Callable[[], None], ...] = (
        partial(refuse_unpriced, job), partial(outputs.refuse_foreign_output, job, root, source.files),
    )  # fmt: skip
    for check in checks:
        try:
            check()
        except (SpecError, OutputError) as error:
            notes.append(f"headrace run would be refused: {error}")
    try:
        return choose(job, root, list(source.files), new=options.new, reuse=options.reuse is not None), notes
    except SpecError as error:
        return Choice(Way.NEW), [*notes, f"headrace run would be refused: {error}"]


def _answered(choice: Choice) -> set[bytes]:
    """What of the eval set the run that goes on has asked already, by hash."""
    if choice.folder is None:
        return set()
    reader = LedgerReader(choice.folder.ledger)
    try:
        return {
            row[0]
            for row in reader.all("answers_of_kind", (int(UnitKind.EVAL),))
            if State(row[1]) in {State.DONE, State.QUARANTINED, State.FAILED}
        }
    finally:
        reader.close()


def _asked_beside(job: Job, choice: Choice, seen: Rehearsal) -> list[str]:
    """What is asked beside the records of the batch: counted in no figure here. Raises SpecError, InputError."""
    quality, found = job.spec.quality, []
    evalset = read_evalset(job, seen.making)
    if evalset is not None:
        count = len(evalset.payloads.keys() - _answered(choice))
        judged = ", and the judge as many" if evalset.judging is not None else ""
        if count:
            found.append(f"the eval set takes {counted(count, 'request')} more{judged}, asked first and not counted above.")
    if quality.repeat:
        found.append(f"quality.repeat asks {counted(min(quality.repeat, seen.units), 'unit')} a second time.")
    return found


def _concluded(job: Job, choice: Choice, seen: Rehearsal, lessons: Lessons, notes: list[str]) -> Estimate:
    load = Load(seen.requests, seen.messages)
    prompt, known_by = _prompts(seen, load, lessons)
    answers = completions_of(job.spec, lessons.answers, load)
    per_byte = prompt.expected / seen.bytes if seen.bytes else 0.0
    longest = _longest(seen, lessons)
    savings = seen.beginnings.savings(per_byte, trailing_tokens(job.spec.prompt))
    joins = joins_of(job.spec, seen.making, choice, seen.divided, lessons.answers)
    least, most = (Load(seen.requests + more, seen.messages) for more in (joins.fewest, joins.most))
    if joins.requests:
        load = Load(seen.requests + joins.requests, seen.messages)
        prompt = Span(*(one + more for one, more in zip(astuple(prompt), astuple(joins.prompt), strict=True)))
        low, likely, high = (completions_of(job.spec, lessons.answers, one) for one in (least, load, most))
        answers = Between(low.low, likely.expected, high.high)
        notes.append(_said_of(joins))
    sent = Sent(load, prompt, answers, longest, savings.common + savings.prefix_order, least.requests, most.requests)
    cost = cost_of(job.spec, job.base, sent)
    notes += _asked_beside(job, choice, seen)
    looks = misfit(job.spec.limits.model_dump(by_alias=True), load.requests)
    notes += [looks] if looks is not None else []
    notes += limits_met(job.spec.limits, choice, sent, cost)
    if seen.others:
        notes.append(
            f"{seen.others:,} parts of the prompts are no text (pictures, files): their tokens are not known, and not in here."
        )
    return Estimate(
        items=seen.items, units=seen.units, duplicates=seen.pieces - seen.units, rejected=seen.rejected, excluded=seen.excluded,
        pieces=seen.pieces, requests=load.requests, prompt=prompt, prompt_known_by=known_by, answers=answers,
        answers_known_by=_answers_known_by(job, lessons), cost=cost,
        seconds=Between(
            seconds_of(job.spec.endpoint, prompt, answers, least, lessons.per_second).low, None,
            seconds_of(job.spec.endpoint, prompt, answers, most, lessons.per_second).high,
        ),
        seconds_known_by=_seconds_known_by(job, lessons),
        longest=longest, savings=savings, rejects=seen.rejects.groups(), settled=seen.settled, reused=seen.reused,
        continues=choice.folder.id if choice.folder is not None else None, notes=tuple(notes),
    )  # fmt: skip


def _said_of(joins: Joins) -> str:
    between = "" if joins.fewest == joins.most else f" ({joins.fewest:,} to {joins.most:,}, by how long answers are)"
    return f"{joins.requests:,} of the requests{between} join answers, counted as if each answer took {joins.answer:,.0f} tokens."


def _prompts(seen: Rehearsal, load: Load, lessons: Lessons) -> tuple[Span, str]:
    total = seen.total()
    by = "characters" if seen.counter is None else seen.counter.name
    if seen.is_exact:
        return total, by
    if lessons.prompt is not None:
        scale = lessons.prompt.scale
        return scale.total(total.expected, load.requests), f"{by}, and {scale.count:,} answers of run {lessons.prompt.run}"
    return prompts_uncalibrated(total, load), by


def _longest(seen: Rehearsal, lessons: Lessons) -> float:
    """The tokens of the prompt with the most bytes."""
    size = sum(seen.counted(seen.longest()))
    if seen.is_exact:
        return size
    if lessons.prompt is not None and size:
        return lessons.prompt.scale.total(size, 1).expected
    return prompts_uncalibrated(Span(size, size, size), Load(int(size > 0), seen.messages)).expected


def _answers_known_by(job: Job, lessons: Lessons) -> str:
    if job.spec.answer.method == "score":
        return "one token each"
    if lessons.answers:
        return f"{len(lessons.answers):,} answers of run {lessons.answers_run}"
    known = ["the labels"] if job.spec.answer.labels is not None else []
    return " and ".join([*known, *(["max_tokens"] if longest_answer(job.spec) is not None else [])]) or "nothing"


def _seconds_known_by(job: Job, lessons: Lessons) -> str:
    limits = [
        name for name in ("requests_per_minute", "tokens_per_minute")
        if all(getattr(endpoint, name) is not None for endpoint in job.spec.endpoint)
    ]  # fmt: skip
    if lessons.per_second:
        limits.append(f"{lessons.per_second:.3g} requests a second in run {lessons.pace_run}")
    return " and ".join(limits) or "nothing"
