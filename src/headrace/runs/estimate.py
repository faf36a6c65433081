"""`headrace estimate`: what a job would send, take and cost. Reads the input as a run does, asks nobody, writes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from headrace.errors import OutputError, SpecError
from headrace.ledger.connection import without_trace
from headrace.policy import tokens
from headrace.policy.tokens import Span
from headrace.prompts.content_free import content_free_payloads
from headrace.runs import outputs
from headrace.runs.expectation import Between, Load, completions_of, prompts_uncalibrated, seconds_of
from headrace.runs.identities import identities_of
from headrace.runs.intake import InputIntake, Making, Reading
from headrace.runs.job import Job
from headrace.runs.lessons import Lessons, learn
from headrace.runs.lifecycle import Choice, Way, choose, job_candidates, resumed
from headrace.runs.making import making_of
from headrace.runs.pipeline import RunOptions
from headrace.runs.prompttexts import PromptTexts, prompt_texts
from headrace.runs.registry import RunFolder, runs_folder
from headrace.runs.rehearsal import Group, Hashes, Rejects, Rest, rehearsal_stores, rest_of
from headrace.runs.reuse import Reuse
from headrace.runs.savings import Beginnings, Savings, trailing_tokens
from headrace.runs.stores import named_run, open_reuse
from headrace.sources.open import OpenedSource, open_source
from headrace.values import Unit

_AT_ONCE = 1000  # records


class TokenCounter(Protocol):
    """Counts a request's tokens exactly. `name` says by what; `has_template`: the chat template's are among them."""

    @property
    def name(self) -> str: ...

    @property
    def has_template(self) -> bool: ...

    def count(self, requests: Sequence[PromptTexts]) -> list[float]: ...


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
            seen = _Seen(making, rest_of(choice), counter)
            seen.read(source, reuse)
        finally:
            if reuse is not None:
                reuse.close()
        if choice.way is Way.NEW and job.spec.answer.calibrate and seen.requests:
            seen.add(content_free_payloads(making.renderer))
    finally:
        source.close()
    lessons = learn(job, job_candidates(job, root), identities, seen.counted)
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
        "cost": {"low": None, "high": None, "known": False, "currency": "USD"},
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


def _tenths(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 1)


def _choice(job: Job, root: Path, source: OpenedSource, options: RunOptions) -> tuple[Choice, list[str]]:
    """Which run the command would mean, and why it would be refused."""
    notes = []
    try:
        outputs.refuse_foreign_output(job, root, source.files)
    except (SpecError, OutputError) as error:
        notes.append(f"headrace run would be refused: {error}")
    try:
        return choose(job, root, list(source.files), new=options.new, reuse=options.reuse is not None), notes
    except SpecError as error:
        return Choice(Way.NEW), [*notes, f"headrace run would be refused: {error}"]


class _Seen:
    """What reading the input has shown so far."""

    def __init__(self, making: Making, rest: Rest, counter: TokenCounter | None) -> None:
        self.making = making
        self.counter = counter
        self.items = self.pieces = self.units = self.rejected = self.excluded = 0
        self.requests = self.settled = self.reused = self.messages = self.others = self.bytes = 0
        self.rejects = Rejects()
        self.beginnings = Beginnings(making.renderer.shared_bytes)
        self._rest = rest
        self._profile = tokens.profile(b"")
        self._exact = 0.0
        self._longest = b""

    def read(self, source: OpenedSource, reuse: Reuse | None) -> None:
        """Read the whole input. Raises InputError, as a run would."""
        hashes = Hashes()
        stores = rehearsal_stores(source, hashes)
        intake = InputIntake(self.making, stores, reading=Reading(), next_unit=0, reuse=reuse)
        try:
            done = False
            while not done:
                taken = intake.take(_AT_ONCE)
                done = taken.done
                hashes.add(taken.units)
                self.items += len(taken.items)
                self.pieces += len(taken.pieces)
                self.units += len(taken.units)
                self.rejected += taken.rejected
                self.excluded = taken.meta["reading"]["excluded"]
                if taken.rejected:
                    self.rejects.add(taken.items)
                self._pass_on(taken.units, {outcome.unit for outcome in taken.outcomes})
        finally:
            stores.index.close()

    def _pass_on(self, units: list[Unit], lent: set[int]) -> None:
        """Count those that are to be sent."""
        rest = self._rest.of(units)
        self.settled += len(units) - len(rest)
        payloads = [unit.payload for unit in rest if unit.payload is not None and unit.seq not in lent]
        self.reused += len(rest) - len(payloads)
        self.add(payloads)

    def add(self, payloads: Sequence[bytes]) -> None:
        if not payloads:
            return
        self.requests += len(payloads)
        self.bytes += sum(map(len, payloads))
        self.beginnings.add(payloads)
        self._longest = max(self._longest, max(payloads, key=len), key=len)
        found = list(prompt_texts(payloads))
        self.messages = found[0].messages
        self.others += sum([one.others for one in found])
        if self.counter is not None:
            self._exact += sum(self.counter.count(found))
        else:
            self._profile += tokens.profile(tokens.joined(text for one in found for text in one.texts))

    def counted(self, requests: Sequence[PromptTexts]) -> list[float]:
        """The figure of each request that `total` adds up."""
        if self.counter is not None:
            return self.counter.count(requests)
        return [sum(map(tokens.estimate, one.texts)) for one in requests]

    def total(self) -> Span:
        """The prompts' tokens as far as their texts say."""
        return Span(self._exact, self._exact, self._exact) if self.counter is not None else tokens.weigh(self._profile)

    def longest(self) -> list[PromptTexts]:
        return list(prompt_texts([self._longest])) if self._longest else []


def _concluded(job: Job, choice: Choice, seen: _Seen, lessons: Lessons, notes: list[str]) -> Estimate:
    load = Load(seen.requests, seen.messages)
    prompt, known_by = _prompts(seen, load, lessons)
    answers = completions_of(job.spec, lessons.answers, load)
    per_byte = prompt.expected / seen.bytes if seen.bytes else 0.0
    longest = seen.longest()
    scaled = lessons.prompt.scale if lessons.prompt is not None else None
    size = sum(seen.counted(longest))
    if seen.others:
        notes.append(
            f"{seen.others:,} parts of the prompts are no text (pictures, files): their tokens are not known, and not in here."
        )
    return Estimate(
        items=seen.items, units=seen.units, duplicates=seen.pieces - seen.units, rejected=seen.rejected, excluded=seen.excluded,
        pieces=seen.pieces, requests=seen.requests, prompt=prompt, prompt_known_by=known_by, answers=answers,
        answers_known_by=_answers_known_by(job, lessons),
        seconds=seconds_of(job.spec.endpoint, prompt, answers, load, lessons.per_second),
        seconds_known_by=_seconds_known_by(job, lessons),
        longest=scaled.slope * size + scaled.constant if scaled is not None else size,
        savings=seen.beginnings.savings(per_byte, trailing_tokens(job.spec.prompt)),
        rejects=seen.rejects.groups(), settled=seen.settled, reused=seen.reused,
        continues=choice.folder.id if choice.folder is not None else None, notes=tuple(notes),
    )  # fmt: skip


def _prompts(seen: _Seen, load: Load, lessons: Lessons) -> tuple[Span, str]:
    total = seen.total()
    by = "characters" if seen.counter is None else seen.counter.name
    if seen.counter is not None and seen.counter.has_template:
        return total, by
    if lessons.prompt is not None:
        scale = lessons.prompt.scale
        return scale.total(total.expected, load.requests), f"{by}, and {scale.count:,} answers of run {lessons.prompt.run}"
    return prompts_uncalibrated(total, load), by


def _answers_known_by(job: Job, lessons: Lessons) -> str:
    if job.spec.answer.method == "score":
        return "one token each"
    if lessons.answers:
        return f"{len(lessons.answers):,} answers of run {lessons.answers_run}"
    known = ["the labels"] if job.spec.answer.labels is not None else []
    return " and ".join([*known, *(["max_tokens"] if job.spec.model.max_tokens is not None else [])]) or "nothing"


def _seconds_known_by(job: Job, lessons: Lessons) -> str:
    limits = [
        name for name in ("requests_per_minute", "tokens_per_minute")
        if all(getattr(endpoint, name) is not None for endpoint in job.spec.endpoint)
    ]  # fmt: skip
    if lessons.per_second:
        limits.append(f"{lessons.per_second:.3g} requests a second in run {lessons.pace_run}")
    return " and ".join(limits) or "nothing"
