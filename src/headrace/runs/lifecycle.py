"""Which run a command means: going on with one, repeating the end of one, refusing, or a new one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.errors import EmptyLedgerError, HeadraceError, LedgerError, SpecError
from headrace.ledger.reader import LedgerReader
from headrace.runs import archive
from headrace.runs.changes import changed_keys, continues, input_changes
from headrace.runs.job import Job
from headrace.runs.registry import RunFolder, job_runs
from headrace.sources.matching import matches
from headrace.spec import JobSpec


class Way(StrEnum):
    CONTINUE = "continue"
    REPEAT = "repeat"  # finished and equal: nothing is sent
    NEW = "new"


class Choice(Struct, frozen=True):
    way: Way
    folder: RunFolder | None = None
    said: str | None = None  # what a new run should tell: why it is none of the earlier ones


class Candidate(Struct, frozen=True):
    """What one earlier run of the job says about itself."""

    folder: RunFolder
    content: dict[str, Any]
    content_hash: str
    fingerprint: list[dict[str, Any]] | None
    finished: bool
    reason: str | None
    has_answer: bool
    read_whole: bool


def choose(job: Job, root: Path, files: list[Path], *, new: bool, reuse: bool = False) -> Choice:
    """The contract's four rules; with `reuse` a different run is no obstacle: its answers are what is wanted.

    Raises SpecError where an unfinished, different run already holds answers.
    """
    if new:
        return Choice(Way.NEW)
    candidates = job_candidates(job, root, strict=True)
    wanted = job.spec.content_hash()
    named = _named(job)
    if named is not None:  # wherever its folder lies by now
        candidates = [named, *(one for one in candidates if one.folder.path.resolve() != named.folder.path.resolve())]
    for candidate in candidates:
        if candidate.content_hash == wanted and (_same_input(candidate, files) or _goes_on(candidate, job)):
            return Choice(Way.REPEAT if candidate.finished else Way.CONTINUE, candidate.folder)
    if named is not None and named.has_answer and not reuse:
        raise _not_meant(named, job)
    if not reuse and candidates and not candidates[0].finished and candidates[0].has_answer:
        raise _different(candidates[0], job, files)
    return Choice(Way.NEW, said=_why_new(candidates, job) if not reuse else None)


def resumed(job: Job, folder: RunFolder) -> Job:
    """The job as a run's open units are to be asked: of a `retry --set` that was interrupted, with the content keys it had.

    Such a retry begins only on a finished run, so that all open units have the same content. Operating keys are the job's.
    """
    try:
        reader = LedgerReader(folder.ledger)
    except HeadraceError:
        return job
    try:
        configs = {config.number: config for config in reader.configs()}
        found = {configs[number].content_hash: configs[number].content for (number,) in reader.all("open_configs")}
    finally:
        reader.close()
    if len(found) != 1 or job.spec.content_hash() in found:
        return job
    (content,) = found.values()
    return Job(spec=with_content(job.spec, content), path=job.path, base=job.base)


def with_content(spec: JobSpec, content: dict[str, Any]) -> JobSpec:
    """The job with the content keys of one of its runs; its operating keys stay."""
    answer = {**content["answer"], "retry_invalid": spec.answer.retry_invalid}
    return JobSpec.model_validate({**spec.model_dump(mode="json", by_alias=True), **content, "answer": answer})


def job_candidates(job: Job, root: Path, *, strict: bool = False) -> list[Candidate]:
    """The job's runs under `root`, newest first. One that cannot be read is passed over, or with `strict` is LedgerError.

    Passing it over where a run is chosen would silently pay again for all that it holds.
    """
    identity = archive.identity(job)
    found = []
    for folder in job_runs(root):
        try:
            named = archive.read(folder).get("job")
            if named is not None and named != identity:
                continue
            candidate = _candidate(folder, identity)
        except EmptyLedgerError:
            continue
        except HeadraceError as error:
            if strict:
                raise LedgerError(
                    f"run {folder.id} of this job cannot be read: {error} Use --new to begin anew beside it."
                ) from error
            continue
        if candidate is not None:
            found.append(candidate)
    return found


def _candidate(folder: RunFolder, identity: str) -> Candidate | None:
    """None for another job's run, and where a crash came before the run had begun. The ledger itself knows whose it is."""
    reader = LedgerReader(folder.ledger)
    try:
        configs = reader.configs()
        if not configs or reader.meta("job", identity) != identity:
            return None
        ending = reader.meta("ending", {})
        return Candidate(
            folder=folder, content=configs[0].content, content_hash=configs[0].content_hash,
            fingerprint=reader.meta("fingerprint"), finished=bool(ending.get("finished", False)), reason=ending.get("reason"),
            has_answer=reader.one("any_answer") is not None, read_whole=bool(reader.meta("reading", {}).get("done", False)),
        )  # fmt: skip
    finally:
        reader.close()


def _same_input(candidate: Candidate, files: list[Path]) -> bool:
    """A run that has read nothing yet has no other input."""
    return candidate.fingerprint is None or matches(candidate.fingerprint, files)


def _why_new(candidates: list[Candidate], job: Job) -> str | None:
    """A finished run of the job was there, and is not this: what is paid again should not be a riddle."""
    if not candidates or not candidates[0].has_answer:
        return None
    keys = changed_keys(candidates[0].content, job.spec.content())
    what = "the job file has changed (" + ", ".join(keys) + ")" if keys else "the input has changed"
    return f"a new run: {what} since run {candidates[0].folder.id}; --reuse last takes over its equal answers."


def _named(job: Job) -> Candidate | None:
    """The run whose folder was given in place of a job file."""
    if job.archived is None:
        return None
    try:
        return _candidate(RunFolder(job.archived), archive.identity(job))
    except EmptyLedgerError:
        return None


def _not_meant(candidate: Candidate, job: Job) -> SpecError:
    keys = changed_keys(candidate.content, job.spec.content())
    what = f"the job ({', '.join(keys)})" if keys else "the input"
    return SpecError(
        f"run {candidate.folder.id} was named, and {what} has changed since. --new sends all requests again, "
        "--reuse takes over its equal answers.",
        key=keys[0] if keys else "input.path",
    )


def _goes_on(candidate: Candidate, job: Job) -> bool:
    """An input that had not been read whole may differ where nobody has read it yet."""
    return not candidate.read_whole and continues(candidate.folder, candidate.content, job)


def _different(candidate: Candidate, job: Job, files: list[Path]) -> SpecError:
    changes = []
    keys = changed_keys(candidate.content, job.spec.content())
    if keys:
        changes.append("the job file (" + ", ".join(keys) + ")")
    if not _same_input(candidate, files):
        changes.append(f"the input ({input_changes(candidate.folder, candidate.content, job)})")
    return SpecError(
        f"run {candidate.folder.id} of this job is unfinished and something has changed since: {' and '.join(changes)}. "
        "Use --new to begin anew, --reuse last to begin anew and take over equal answers, or change it back to go on.",
        key=keys[0] if keys else "input.path",
    )
