"""What a run asks beside its batch: how the labels begin and the eval set before it, what is asked twice after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headrace.answers.score import ContentFreeJudge, ScoreJudge, scorer_of
from headrace.engine.knobs import Asked, Ending, Knobs, Start
from headrace.events import Event, Progress, Stopping
from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Intake, Judge, Observer
from headrace.runs.answerers import Answerers
from headrace.runs.asides import AsideIntake, reopen
from headrace.runs.calibration import KIND as CALIBRATE
from headrace.runs.calibration import CalibrationIntake
from headrace.runs.costs import JUDGE_PRICES, find_costs, recorded
from headrace.runs.evaluating import EVALUATION, EvalSet, concluded, evaluation_intake, graded, judge_payloads, stored
from headrace.runs.intake import Stores
from headrace.runs.job import Job
from headrace.runs.judging import KIND as JUDGE
from headrace.runs.judging import Judging
from headrace.runs.making import Making
from headrace.runs.pacing import knobs_of
from headrace.runs.registry import RunFolder
from headrace.runs.repeating import REPEATED, chosen, flipped, repeat_intake
from headrace.runs.reuse import Reuse
from headrace.runs.signals import unless_signalled


class Means(NamedTuple):
    """Whom a run asks, by which limits, and where it keeps what comes."""

    ledger: SqliteLedger
    answerers: Answerers
    asked: list[Asked]
    knobs: Knobs


Drive = Callable[[Means, Intake, Judge, Start, Sequence[Observer]], Awaitable[Ending]]


class Phases:
    """Each asks its own units by the engine, keeps them in the run's ledger, and says whether the run may go on."""

    def __init__(
        self, job: Job, folder: RunFolder, observers: Sequence[Observer], drive: Drive, warn: Callable[[str | None], None]
    ) -> None:
        self._job = job
        self._folder = folder
        self._observers = observers
        self._drive = drive
        self._warn = warn

    async def scores(self, means: Means, making: Making, reuse: Reuse | None) -> tuple[Ending, Making]:
        """Learn which tokens begin the labels and, with `calibrate`, what the prompt without content prefers.

        Returns the rules with both.
        """
        answer = self._job.spec.answer
        beginnings, signalled = await unless_signalled(means.answerers.ask_beginnings(answer.labels or ()))
        if signalled is not None:
            return Ending("interrupted", "interrupted", signalled), making
        scorer = scorer_of(self._job.spec, beginnings)
        making = replace(making, judge=ScoreJudge(scorer))
        if not answer.calibrate:
            return Ending(), making
        reader = LedgerReader(self._folder.ledger)
        try:
            judge = ContentFreeJudge()
            _, next_unit = means.ledger.next_numbers()
            intake = CalibrationIntake(making, reader, next_unit, reuse=reuse, judge=judge)
            if not intake.is_done:
                start = Start(next_unit, intake.waiting, read_done=not intake.has_new)
                ending = await self._drive(means, intake, judge, start, list(map(_without_progress, self._observers)))
                if ending.reason is not None:
                    return ending, making
            prior = intake.prior(scorer)
            if prior.values is None:
                why = "the prompt without content, which answer.calibrate needs, came to nothing: "
                why += reopen(means.ledger, reader, CALIBRATE)
                return Ending("misconfigured", f"{means.asked[0].endpoint.name}: {why}", 4), making
            self._warn(prior.warning)
            making = replace(making, judge=ScoreJudge(scorer, prior.values))
            return Ending(), making
        finally:
            reader.close()

    async def evaluate(self, means: Means, making: Making, evalset: EvalSet, reuse: Reuse | None) -> Ending:
        """Ask what of the eval set is not answered yet, score all of it anew, and say whether the batch may follow."""
        reader = LedgerReader(self._folder.ledger)
        try:
            _, next_unit = means.ledger.next_numbers()
            intake = evaluation_intake(evalset, making, reader, next_unit, reuse)
            if not intake.is_done:
                start = Start(next_unit, intake.waiting, read_done=not intake.has_new)
                ending = await self._drive(means, intake, making.judge, start, list(map(_without_stop, self._observers)))
                if ending.reason is not None:
                    return ending
            if evalset.judging is not None:
                ending = await self._ask_judge(means, evalset.judging, judge_payloads(evalset, reader), reader)
                if ending.reason is not None:
                    return ending
            grades = graded(evalset, reader)
        finally:
            reader.close()
        means.ledger.put_grades(stored(grades))
        found, decision = concluded(self._job, self._folder, grades)
        means.ledger.put_meta(**{EVALUATION: found})
        for line in decision.warnings:
            self._warn(line)
        if decision.gate == "refused":
            return Ending(
                "gate",
                f"the gate refused: {'; '.join(decision.reasons)}; `headrace eval` lists what was scored",
                6,
            )
        return Ending()

    async def _ask_judge(
        self, means: Means, judging: Judging, wanted: dict[bytes, bytes], reader: LedgerReader
    ) -> Ending:  # fmt: skip
        """Have another model score the answers: with its own endpoint, and within the job's limits."""
        _, next_unit = means.ledger.next_numbers()
        intake = AsideIntake(JUDGE, wanted, reader, next_unit, judge=judging.making.judge)
        if intake.is_done:
            return Ending()
        spec, answerers = judging.job.spec, Answerers()
        try:
            await answerers.open(judging.job, judging.making.judge)
            answerers.enter(means.ledger)
            costs = await find_costs(judging.job, answerers, self._folder.ledger)
            prices = recorded([one.identity for one in answerers.endpoints], costs.found)
            means.ledger.put_meta(**{JUDGE_PRICES: prices})
            shared = judging.making.renderer.shared_bytes
            knobs = knobs_of(spec, self._folder.id, means.knobs.config, shared, costs.most)
            asked = Means(means.ledger, answerers, answerers.asked(judging.job, costs.found), knobs)
            start = Start(next_unit, intake.waiting, read_done=not intake.has_new)
            return await self._drive(asked, intake, judging.making.judge, start, list(map(_without_stop, self._observers)))
        finally:
            await answerers.close()

    async def repeat(self, means: Means, making: Making, stores: Stores) -> Ending:
        """Ask some of the answered units a second time: how often the same configuration flips by itself."""
        assert stores.reader is not None
        assert stores.places is not None
        wanted = chosen(making, stores.reader, stores.places, self._job.spec.quality.repeat)
        _, next_unit = means.ledger.next_numbers()
        intake = repeat_intake(wanted, making, stores.reader, next_unit)
        if not intake.is_done:
            start = Start(next_unit, intake.waiting, read_done=not intake.has_new)
            ending = await self._drive(means, intake, making.judge, start, list(map(_without_progress, self._observers)))
            if ending.reason is not None:
                return ending
        means.ledger.put_meta(**{REPEATED: flipped(wanted, stores.reader)})
        return Ending()


def _without_stop(observer: Observer) -> Observer:
    """The run stops but once, and says so with its batch."""

    def observe(event: Event) -> None:
        if not isinstance(event, Stopping):
            observer(event)

    return observe


def _without_progress(observer: Observer) -> Observer:
    """What comes before the records is no progress of theirs, and the run stops but once."""

    def observe(event: Event) -> None:
        if not isinstance(event, Progress | Stopping):
            observer(event)

    return observe
