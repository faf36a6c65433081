"""From a job to its answers: the stages of a run, in the order in which they happen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.clock import WallClock
from headrace.engine.knobs import Ending, Knobs, Parts, Start
from headrace.engine.live import LiveEngine
from headrace.engine.offload import ShortOffload, ThreadOffload
from headrace.errors import DiskError, HeadraceError, InputError, LedgerError, SpecError
from headrace.events import Warned
from headrace.ledger.filesystem import refuse_network
from headrace.ledger.lock import RunLock
from headrace.ledger.reader import LedgerReader, as_text
from headrace.ledger.writer import SqliteLedger
from headrace.observe.text import printable
from headrace.policy.amounts import counted
from headrace.policy.budget import Most
from headrace.policy.monotony import alarm
from headrace.protocols import Intake, Judge, Observer
from headrace.runs import archive, outputs
from headrace.runs.answerers import Answerers
from headrace.runs.classes import MisfitWatch
from headrace.runs.costs import find_costs, newest_operating, operating_of, recorded, refuse_unpriced
from headrace.runs.drifting import DRIFT, drift_of_run, drift_warning
from headrace.runs.evaluating import (
    EvalSet,
    read_evalset,
)
from headrace.runs.intake import InputIntake, Reading, Stores
from headrace.runs.job import Job
from headrace.runs.lifecycle import Choice, Way, choose, job_candidates, resumed
from headrace.runs.lost import known_bound, lost_bounds
from headrace.runs.making import Making, making_of
from headrace.runs.pacing import knobs_of
from headrace.runs.phases import Means, Phases
from headrace.runs.reducing import AnswerReducer
from headrace.runs.registry import RunFolder, create_run, runs_folder, state_folder
from headrace.runs.repeating import REPEATED
from headrace.runs.signals import handled
from headrace.runs.spending import spent_so_far
from headrace.runs.status import ALARM, status
from headrace.runs.stores import named_run, open_reuse, open_stores
from headrace.sources.open import OpenedSource, open_source

_LOOKED_AT = 10_000  # answers
_SHOWN = 60
_ROWS_S = 0.02  # a few hundred rows, which go in so quickly that a thread would cost more than it frees


class RunOptions(Struct, frozen=True):
    """What a command says about which run it means."""

    run_dir: Path | None = None
    new: bool = False
    reuse: str | None = None
    eval_only: bool = False  # ask the eval set, and leave the batch as it is


class RunResult(Struct, frozen=True):
    """How a run ended. `status` is the document of `status --json`; `output` the file that was written, if any."""

    run: str
    exit_code: int
    reason: str | None
    message: str | None
    output: Path | None
    folder: Path
    status: dict[str, Any]


async def execute(job: Job, options: RunOptions | None = None, observers: Sequence[Observer] = ()) -> RunResult:
    """Run a job, or go on with it. Raises SpecError and InputError before anything is sent, LockedError, DiskError."""
    options = options or RunOptions()
    making = making_of(job.spec)
    evalset = read_evalset(job, making)
    if options.eval_only and evalset is None:
        raise SpecError("the job has no eval set: quality.evalset names it", key="quality.evalset", allowed="a file")
    refuse_unpriced(job)
    root = runs_folder(job.base, options.run_dir or (job.archived.parent if job.archived is not None else None))
    source = open_source(job.spec.input.path, job.base, max_record=job.spec.input.max_record, query=job.spec.input.query)
    try:
        if options.reuse not in {None, "last"}:
            named_run(str(options.reuse), job)  # a name that nobody has is told before a run is made
        choice = choose(job, root, list(source.files), new=options.new, reuse=options.reuse is not None)
        outputs.refuse_foreign_output(job, root, source.files)
        folder = _folder(job, root, choice)
        if choice.way is Way.CONTINUE:
            job = resumed(job, folder)
            making = making_of(job.spec)
            evalset = read_evalset(job, making)
        run = Run(job, making, folder, observers, is_new=choice.way is Way.NEW)
        run.evalset = evalset
        run.warn(choice.said)
        if options.new:
            run.warn(archive.changed_input(job, source.files))
        with RunLock(folder.lock):
            try:
                return await run.go(source, options)
            except (InputError, HeadraceError) as error:
                run.forget_if_nothing_was_sent(error)
                raise
    finally:
        source.close()


def _folder(job: Job, root: Path, choice: Choice) -> RunFolder:
    if choice.folder is not None:
        return choice.folder
    folder = create_run(root, WallClock().now(), state=state_folder(os.environ), name=job.spec.name, job=job.path)
    refuse_network(folder.path)
    return folder


class Run:
    """One command's work on one run, whose lock is held."""

    def __init__(self, job: Job, making: Making, folder: RunFolder, observers: Sequence[Observer], *, is_new: bool) -> None:
        self.job = job
        self.making = making
        self.folder = folder
        self.observers = observers
        self.is_new = is_new
        self.began = 0.0
        self.evalset: EvalSet | None = None
        self.alarm: str | None = None  # what all answers look like together, where that is not right
        self.is_idle = False  # nothing was sent: the run was finished
        self.clock = WallClock()

    async def go(self, source: OpenedSource | None, options: RunOptions) -> RunResult:
        """Open the ledger, settle what is open, write the output, say how it ended."""
        self.began = asyncio.get_running_loop().time()
        if self.is_new:
            self._archive({})
        ledger = SqliteLedger(self.folder.ledger)
        try:
            if ledger.get_meta("job") is None:
                ledger.put_meta(job=archive.identity(self.job))
            reading = Reading(**ledger.get_meta("reading", {}))
            before = ledger.get_meta("ending", {})
            if options.eval_only:
                ending = await self._settle(ledger, reading, source, options)
                return self._end_of_eval(ledger, ending, before)
            if reading.done and ledger.unsettled() == 0 and not self._has_to_repeat(ledger, before):
                self.warn(f"run {self.folder.id} of this job is finished and nothing has changed: nothing is sent.")
                ending = Ending()
                self._record_config(ledger, None)
                self.is_idle = True
            else:
                ledger.put_meta(
                    ending={}, output_is_current=False, **({"in_place": list(source.in_place)} if source is not None else {})
                )
                ending = await self._settle(ledger, reading, source, options)
            with handled(_finish_first):
                return self._end(ledger, ending)
        finally:
            ledger.close()

    async def _settle(self, ledger: SqliteLedger, reading: Reading, source: OpenedSource | None, options: RunOptions) -> Ending:
        spec = self.job.spec
        answerers = Answerers()
        ledger.begin_process()
        try:
            await answerers.open(self.job, self.making.judge)
            answerers.enter(ledger)
            costs = await find_costs(self.job, answerers, self.folder.ledger)
            config = self._record_config(ledger, recorded([one.identity for one in answerers.endpoints], costs.found))
            for line in costs.warnings + await answerers.settle_priorities(self.job):
                self.warn(line)
            self.warn(answerers.other_weights(self.folder))
            self._recover(ledger, answerers.numbers[0], source, costs.most)
            reuse = open_reuse(options.reuse, self.job, self.folder, config, answerers.by_identity)
            knobs = knobs_of(spec, self.folder.id, config, self.making.renderer.shared_bytes, costs.most)
            means = Means(ledger, answerers, answerers.asked(self.job, costs.found), knobs)
            phases, so_far = Phases(self.job, self.folder, self.observers, self._drive, self.warn), Ending()
            if spec.answer.method == "score":
                so_far, self.making = await phases.scores(means, self.making, reuse)
            if self.evalset is not None and so_far.reason is None:
                so_far = await phases.evaluate(means, self.making, self.evalset, reuse)
            if options.eval_only:
                return so_far
            if so_far.reason is not None and reuse is not None:
                return so_far  # what is taken over while the input is read would be judged without calibration, for good
            _, next_unit = ledger.next_numbers()
            stores = open_stores(self.folder, source, reading, ledger.get_meta("fingerprint", []), dedupe=spec.input.dedupe)
            reducer = self._reducer(stores, config, options.reuse, answerers)
            try:
                intake = InputIntake(self.making, stores, reading=reading, next_unit=next_unit, reuse=reuse)
                start = Start(recorded=next_unit, open_units=ledger.unsettled(), read_done=reading.done, ending=so_far)
                if reducer is not None:
                    assert stores.reader is not None
                    ledger.reduce_with(reducer)
                    pending = stores.reader.pending_made()
                    start = replace(start, may_make=True, made=stores.reader.count_made(), pending_made=pending)
                watching = [*self.observers, MisfitWatch(spec, self.warn)] if self.observers else ()
                ending = await self._drive(means, intake, self.making.judge, start, watching)
                if ending.reason is None and spec.quality.repeat:
                    ending = await phases.repeat(means, self.making, stores)
                if source is not None and not reading.done and (changed := source.changed_files()):
                    self.warn(f"{changed[0]} was changed while it was read: the output may hold parts of both.")
                if reuse is not None:
                    self.warn(f"{counted(reuse.taken, 'answer')} taken over from another run.")
                return ending
            finally:
                stores.close()
                if reducer is not None:
                    reducer.close()
        finally:
            await answerers.close()

    def _reducer(self, stores: Stores, config: int, reuse: str | None, answerers: Answerers) -> AnswerReducer | None:
        """Who joins the answers of divided records by further requests, where the job says so."""
        dividing = self.making.dividing
        if dividing is None or dividing.reducing is None:
            return None
        assert stores.places is not None
        own = open_reuse(reuse, self.job, self.folder, config, answerers.by_identity)  # the ledger's thread has its own
        return AnswerReducer(self.making, stores.places.again(), config, own)

    def _record_config(self, ledger: SqliteLedger, found: dict[str, Any] | None) -> int:
        """The number of the job's configuration. None: what was found last still stands, as nobody was asked."""
        spec = self.job.spec
        return ledger.add_config(
            self.clock.now(), spec.content(), operating_of(spec, found, newest_operating(self.folder.ledger))
        )

    def _recover(self, ledger: SqliteLedger, endpoint: int, source: OpenedSource | None, most: Most) -> None:
        """Close what a dead process left open."""
        again = self.job.spec.limits.retry_ambiguous == "always"
        fingerprint: list[dict[str, Any]] = ledger.get_meta("fingerprint", [])
        files = source.files if source is not None else [self.job.base / file["path"] for file in fingerprint]
        bounds = lost_bounds(self.folder.ledger, self.folder.records, files, self.making, most)
        ledger.recover(endpoint, self.clock.now(), retry_ambiguous=again, most=bounds)

    def _has_to_repeat(self, ledger: SqliteLedger, before: dict[str, Any]) -> bool:
        """Whether a process ended before what is asked twice was answered."""
        return self.job.spec.quality.repeat > 0 and not before.get("finished") and ledger.get_meta(REPEATED) is None

    async def _drive(self, means: Means, intake: Intake, judge: Judge, start: Start, observers: Sequence[Observer]) -> Ending:
        may_compute = self.job.spec.input.query is not None  # then a record may come after long work only
        writing, reading = ThreadOffload("headrace-ledger"), ShortOffload("headrace-intake", inline=not may_compute)
        rows = ShortOffload("headrace-rows", most_s=_ROWS_S)
        proven = means.ledger.answering(means.knobs.config)
        asked = [
            one._replace(is_proven=one.number in proven, learnt=known_bound(means.ledger, one.number, means.knobs))
            for one in means.asked
        ]
        parts = Parts(
            endpoints=asked, judge=judge, intake=intake, ledger=means.ledger, clock=self.clock,
            offload_rows=rows, offload_ledger=writing, offload_intake=reading, observers=observers,
            plain_judge=self.making.plain_judge,
        )  # fmt: skip
        engine = LiveEngine(
            self._what_is_left(means.knobs),
            parts,
            replace(start, spent=spent_so_far(self.folder.ledger, means.knobs, means.asked)),
        )  # fmt: skip
        try:
            with handled(engine.interrupt):
                return await engine.run()
        finally:
            reading.close()
            rows.close()
            writing.close()

    def _what_is_left(self, knobs: Knobs) -> Knobs:
        """`limits.run_deadline` counts from the command's start: calibration spends of it too."""
        if knobs.run_deadline_s is None:
            return knobs
        spent_s = asyncio.get_running_loop().time() - self.began
        return replace(knobs, run_deadline_s=max(0.0, knobs.run_deadline_s - spent_s))

    # -- the end

    def _end(self, ledger: SqliteLedger, ending: Ending) -> RunResult:
        """Write the output that belongs to the ending, then the ending itself: a crash between them is mended by the next run."""
        if ending.reason != "disk" and not self.is_idle:
            ledger.mark_capped()
        try:
            reader = LedgerReader(self.folder.ledger)
        except LedgerError as error:
            raise DiskError(ending.message or str(error)) from error
        try:
            total, rejected = reader.one("count_items")
            by_state = dict(reader.all("count_units"))
            all_done = rejected == 0 and set(by_state) <= {2}
            if ending.reason is None and not (self.is_idle and ledger.get_meta("ending", {}).get("finished")):
                ending = self._looked_at(reader, ending)  # also where it was refused before, and nothing has been sent since
            code = ending.exit_code if ending.reason is not None else (0 if all_done else 3)
            if total == 0 and code == 0:
                self.warn("the input has no record: there is nothing to do.")
            path = outputs.output_path(self.job)
            ours = self._earlier_marks(outputs.partial_path(path))
            if ending.reason != "disk":
                # Said before it is done: a file that a dying process left is known as ours.
                ledger.put_meta(writing=[str(place.resolve()) for place in (path, outputs.partial_path(path))])
            written = self._write_output(reader, code, ours)
        finally:
            reader.close()
        facts: dict[str, Any] = {
            "ending": {
                "reason": ending.reason, "message": ending.message, "exit_code": code, "finished": code in {0, 3},
                "at": self.clock.now(),
            },
            "writing": [],
        }  # fmt: skip
        if code in {0, 3} and not self.is_idle and (drifted := drift_of_run(self.job, self.folder)) is not None:
            facts[DRIFT] = drifted
            self.warn(drift_warning(drifted))
        if code in {0, 3} and written is not None:
            before = ledger.get_meta("output")
            facts |= {"output": outputs.mark_of(written), "output_is_current": True}
            if before is not None and before["path"] != str(written.resolve()):
                facts["earlier_outputs"] = [*ledger.get_meta("earlier_outputs", []), before]
        elif written is not None:
            facts["partial"] = outputs.mark_of(written)
        if not self.is_idle or self.alarm is not None:
            facts[ALARM] = self.alarm
        if ending.reason != "disk":
            ledger.put_meta(**facts)
        return self._result(ending, code, written)

    def _looked_at(self, reader: LedgerReader, ending: Ending) -> Ending:
        """What all answers look like together: that nearly all are the same is told, and with a gate it is no success."""
        found = reader.one("commonest_answer", (_LOOKED_AT,))
        if found is None:
            return ending
        answers, equal, answer = found
        shown = printable(as_text(answer) or "", _SHOWN)
        self.alarm = said = alarm(answers, equal, shown, are_labels=self.job.spec.answer.labels is not None)
        self.warn(said)
        if said is None or self.job.spec.quality.gate is None:
            return ending
        return Ending("gate", f"the gate refused: {said}; `headrace export --to FILE` writes them all the same", 6)

    def _end_of_eval(self, ledger: SqliteLedger, ending: Ending, before: dict[str, Any]) -> RunResult:
        """The batch stays as it was, and so does how the run had ended if it had finished."""
        code = ending.exit_code if ending.reason is not None else 0
        reason = ending.reason or "evaluated"
        if not before.get("finished") and ending.reason != "disk":
            facts = {"reason": reason, "message": ending.message, "exit_code": code or None, "finished": False}
            ledger.put_meta(ending={**facts, "at": self.clock.now()})
        return self._result(Ending(reason, ending.message, code), code, None)

    def _earlier_marks(self, partial: Path) -> list[dict[str, Any]]:
        """What the job's runs have written so far, where a part so far stands that may have to go."""
        if not partial.exists():
            return []
        runs = job_candidates(self.job, self.folder.path.parent)
        return [mark for run in runs for mark in outputs.outputs_of(run.folder)]

    def _write_output(self, reader: LedgerReader, code: int, ours: Sequence[dict[str, Any]]) -> Path | None:
        path = outputs.output_path(self.job)
        partial = outputs.partial_path(path)
        details = self.job.spec.output.details
        if code in {0, 3}:
            mine = outputs.mark_of(path)
            if mine is None or mine != reader.meta("output") or not reader.meta("output_is_current", default=False):
                _, warning = outputs.write(reader, self.folder, path, details=details)
                self.warn(warning)
            outputs.remove_partial(path, ours)
            return path
        if code in {4, 5, 130, 143}:
            _, warning = outputs.write(reader, self.folder, partial, details=details, only=outputs.FINISHED)
            self.warn(warning)
            return partial
        return None

    def _result(self, ending: Ending, code: int, written: Path | None) -> RunResult:
        # The lock is still held, so that the document would say "running": it says how it ended.
        document = status(self.folder.path, ended={"reason": ending.reason, "message": ending.message, "exit_code": code})
        try:
            if not (self.is_idle and archive.is_of_the_end(self.folder)):  # else it tells who answered, which stays true
                self._archive(document)
        except LedgerError:
            if code != 7:
                raise
        return RunResult(self.folder.id, code, ending.reason, ending.message, written, self.folder.path, document)

    def _archive(self, figures: dict[str, Any]) -> None:
        archive.write(self.folder, archive.document(self.job, self.folder, figures))

    def warn(self, message: str | None) -> None:
        if message is not None:
            for observer in self.observers:
                observer(Warned(message))

    def forget_if_nothing_was_sent(self, error: HeadraceError) -> None:
        """A run that was refused before it began leaves no folder behind."""
        if not self.is_new or error.exit_code != 2:
            return
        for path in sorted(self.folder.path.glob("*")):
            path.unlink(missing_ok=True)
        self.folder.path.rmdir()


def _finish_first(_exit_code: int) -> None:
    """A signal while the end is written down changes nothing any more: it is written whole."""
