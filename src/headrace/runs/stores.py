"""Opening what a run works with: its records, its index of hashes, its endpoint, the run whose answers it takes over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.answers.judge import AnswerJudge
from headrace.answers.score import ScoreJudge
from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.errors import RunNotFoundError
from headrace.ledger.dedupe import DedupeIndex
from headrace.ledger.reader import LedgerReader, as_text
from headrace.runs.embedded import EmbeddedEndpoint, SchemaForms, open_embedded
from headrace.runs.intake import Reading, Stores
from headrace.runs.job import Job
from headrace.runs.registry import RunFolder, resolve, runs_folder, state_folder
from headrace.runs.reuse import Reuse
from headrace.sources.matching import matches
from headrace.sources.open import OpenedSource
from headrace.sources.records import RecordPlaces, RecordsFile

AnyEndpoint = HttpEndpoint | EmbeddedEndpoint
_SHOWN_IDENTITY = 25  # local:sha256: and the first 12 digits


def open_stores(
    folder: RunFolder, source: OpenedSource | None, reading: Reading, fingerprint: Sequence[dict[str, Any]], *, dedupe: bool
) -> Stores:
    """Open a run's stores where an earlier process left them: what was not committed is forgotten."""
    records = RecordsFile(folder.records)
    records.truncate(reading.records_length)
    reader = LedgerReader(folder.ledger)
    index = DedupeIndex(reader.hash_of, folder.path)
    files = source.files if source is not None else [Path(file["path"]) for file in fingerprint]
    if not reading.done:
        assert source is not None
        if reading.position is not None:
            known = fingerprint if matches(fingerprint, source.files) else []  # a mended file is hashed anew
            source.restore(known, reading.names)
            source.seek(reading.position)
        if dedupe:
            for blob in reader.hashes():
                index.load(blob)
    return Stores(source if not reading.done else None, records, RecordPlaces(folder.records, files), reader, index)


async def open_endpoint_of(job: Job, judge: AnswerJudge | ScoreJudge) -> AnyEndpoint:
    """Who is asked; for `local` its server runs and answers by then. Raises SpecError."""
    schema = judge.schema
    forms = SchemaForms(schema.wire(), schema.strict()) if schema is not None else SchemaForms()
    if job.spec.endpoint[0].url == "local":
        return await open_embedded(job, forms, os.environ)
    return open_endpoint(
        job.spec, 0, base=job.base, environ=os.environ, response_format=forms.wire, strict_response_format=forms.strict
    )


def slots_of(endpoint: AnyEndpoint) -> int | None:
    """How many requests the endpoint is known to work on at once; None where it has not said."""
    return endpoint.slots if isinstance(endpoint, EmbeddedEndpoint) else None


def other_weights(folder: RunFolder, endpoint: AnyEndpoint, number: int) -> str | None:
    """A warning where the embedded model is another than the one that gave answers of this run; `number` is the ledger's."""
    if not isinstance(endpoint, EmbeddedEndpoint):
        return None
    reader = LedgerReader(folder.ledger)
    try:
        others = [as_text(identity) or "" for (identity,) in reader.all("other_answerers", (number,))]
    finally:
        reader.close()
    if not others:
        return None
    named = [identity[:_SHOWN_IDENTITY] for identity in (*others, endpoint.identity)]
    return f"answers so far came from {', '.join(named[:-1])}, the rest comes from {named[-1]}; --new asks all of one."


def open_reuse(run: str | None, job: Job, folder: RunFolder, identity: str, numbers: tuple[int, int]) -> Reuse | None:
    """The run that `--reuse` names; `last` is the job's newest other one, and none where there is none."""
    if run is None:
        return None
    config, endpoint = numbers
    found = _other_run(run, job, folder)
    if found is None:
        return None
    return Reuse(found.ledger, identity, config, endpoint, max_tokens=job.spec.model.max_tokens)


def named_run(run: str, job: Job) -> RunFolder:
    """The run that a name means beside this job. Raises RunNotFoundError."""
    root = runs_folder(job.base)
    return resolve(run, root.parent.parent if root.exists() else Path.cwd(), state_folder(os.environ))


def _other_run(run: str, job: Job, folder: RunFolder) -> RunFolder | None:
    from headrace.runs.lifecycle import job_candidates  # noqa: PLC0415

    if run == "last":
        others = [
            candidate.folder
            for candidate in job_candidates(job, folder.path.parent)
            if candidate.folder.path.resolve() != folder.path.resolve()
        ]
        return others[0] if others else None
    found = named_run(run, job)
    if found.path.resolve() == folder.path.resolve():
        raise RunNotFoundError(f"--reuse {run!a} names the run that goes on itself; name an earlier one.")
    return found
