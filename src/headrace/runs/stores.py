"""Opening what a run works with: its records, its index of hashes, the run whose answers it takes over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import RunNotFoundError
from headrace.ledger.dedupe import DedupeIndex
from headrace.ledger.reader import LedgerReader
from headrace.runs.intake import Reading, Stores
from headrace.runs.job import Job
from headrace.runs.registry import RunFolder, resolve, runs_folder, state_folder
from headrace.runs.reuse import Reuse
from headrace.sources.matching import matches
from headrace.sources.open import OpenedSource
from headrace.sources.records import RecordPlaces, RecordsFile


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
            for blob in reader.hashes("read_hashes"):
                index.load(blob)
    return Stores(source if not reading.done else None, records, RecordPlaces(folder.records, files), reader, index)


def open_reuse(run: str | None, job: Job, folder: RunFolder, config: int, answerers: Mapping[str, int]) -> Reuse | None:
    """The run that `--reuse` names; `last` is the job's newest other one, and none where there is none.

    `answerers`: the ledger's number of each endpoint's identity.
    """
    if run is None:
        return None
    found = _other_run(run, job, folder)
    if found is None:
        return None
    return Reuse(found.ledger, answerers, config, max_tokens=job.spec.model.max_tokens)


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
