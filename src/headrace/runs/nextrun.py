"""`headrace advise JOB`: the settings of the next run, from the figures of the job's last ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from headrace.errors import RunNotFoundError
from headrace.ledger.reader import LedgerReader
from headrace.policy.advice import Advice, advise
from headrace.runs.capacities import capacities_of
from headrace.runs.job import Job
from headrace.runs.lifecycle import Candidate, job_candidates
from headrace.runs.registry import runs_folder
from headrace.runs.status import status
from headrace.runs.symptoms import symptoms_of
from headrace.values import Kind

_FIRST_WINDOW = 6  # where a window begins by itself
_WORTH = 4  # times as large has a window to be, for its ramp to be worth a line


class NextRun(Struct, frozen=True):
    """The run that was looked at, what it calls for, and settings that save time and mend nothing."""

    run: str
    advice: list[Advice]
    settings: list[Advice]


def next_run(job: Job) -> NextRun:
    """Reads the job's last run that tells anything, and for its growth the one before. Raises RunNotFoundError, LedgerError."""
    found = [one for one in job_candidates(job, runs_folder(job.base)) if _tells(one)][:2]
    if not found:
        raise RunNotFoundError("this job has no run yet from which anything can be said: `headrace run` makes one.")
    last = found[0]
    before = (status(found[1].folder.path)["context_tokens"]["mean"], found[1].content) if len(found) > 1 else None
    with _reader(last) as reader:
        document = status(last.folder.path)
        advice = advise(symptoms_of(reader, document, before))
        settings = [] if any(one.key == "endpoint.concurrency" for one in advice) else _window(reader, document)
    return NextRun(last.folder.id, advice, settings)


def _tells(candidate: Candidate) -> bool:
    """Whether anything can be learnt from a run."""
    return candidate.has_answer or candidate.finished or candidate.reason == Kind.SCHEMA_REFUSED


def _window(reader: LedgerReader, document: dict[str, Any]) -> list[Advice]:
    """Where the window may begin: where the last one ended, if it was found and not told by the server."""
    configs, found = reader.configs(), capacities_of(reader)
    endpoints = configs[-1].operating.get("endpoint", []) if configs else []
    if len(found) != 1 or len(endpoints) != 1 or endpoints[0].get("concurrency") != "auto" or document["state"] != "finished":
        return []
    window, told = found[0]["observed"]["window"], found[0]["server"]
    if not window or window < _WORTH * _FIRST_WINDOW or told["requests"] is not None or told["tokens"] is not None:
        return []
    return [
        Advice(
            "start", f"the last run ended with {window} in flight: begin there", "endpoint.concurrency", f"{{ start = {window} }}"
        )
    ]


@contextlib.contextmanager
def _reader(candidate: Candidate) -> Iterator[LedgerReader]:
    reader = LedgerReader(candidate.folder.ledger)
    try:
        yield reader
    finally:
        reader.close()
