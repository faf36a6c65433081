"""`headrace retry`: what failed, was quarantined or rejected goes back to pending, under changed keys where some are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.clock import WallClock
from headrace.errors import RecordError, SpecError
from headrace.ledger.lock import RunLock
from headrace.ledger.notes import to_bits
from headrace.ledger.reader import LedgerReader, StoredUnit, as_text
from headrace.ledger.writer import Revived, SqliteLedger
from headrace.protocols import Observer
from headrace.runs import archive
from headrace.runs.costs import RECORDED, newest_operating, operating_of, refuse_unpriced
from headrace.runs.job import Job
from headrace.runs.jobfile import job_from_dict, without_class
from headrace.runs.lifecycle import resumed
from headrace.runs.making import Making, making_of
from headrace.runs.pipeline import Run, RunOptions, RunResult
from headrace.runs.recall import Recall
from headrace.runs.registry import RunFolder
from headrace.sources.open import OpenedSource, open_source
from headrace.sources.records import RecordPlaces, parse
from headrace.values import Kind, Note, Unit, UnitKind


async def retry(
    folder: RunFolder, kinds: frozenset[Kind] | None, overrides: Sequence[str], observers: Sequence[Observer] = ()
) -> RunResult:
    """Send again what ended with one of `kinds` (None: any), under the run's own configuration and `overrides`.

    Each answer keeps the number of the configuration that made it. Content keys may change only once the run has been
    finished: what is still pending was asked under the old ones. A retry that was interrupted goes on by the same command,
    and by `headrace run`. Raises SpecError, LockedError.
    """
    with RunLock(folder.lock):
        reader = LedgerReader(folder.ledger)
        try:
            job, content_changed = _job(folder, reader, overrides)
            read_whole = bool(reader.meta("reading", {}).get("done", False))
            if not content_changed:
                job = resumed(job, folder)
            _refuse_other_pieces(reader.configs()[0].content, job)
            making = making_of(job.spec)
            refuse_unpriced(job)
            open_otherwise = reader.one("unsettled")[0] and resumed(job, folder) is not job
            if (content_changed and not read_whole) or open_otherwise:
                raise SpecError(
                    f"run {folder.id} is not finished: keys that decide answers can be changed only afterwards; "
                    "run the job to its end first, or change operating keys alone."
                )
            source = None
            if not read_whole:
                given = job.spec.input
                source = open_source(given.path, job.base, max_record=given.max_record, query=given.query)
            try:
                run = Run(job, making, folder, observers, is_new=False)
                _requeue(run, reader, kinds, content_changed=content_changed)
                return await run.go(source, RunOptions())
            finally:
                _close(source)
        finally:
            reader.close()


def _close(source: OpenedSource | None) -> None:
    if source is not None:
        source.close()


def _job(folder: RunFolder, reader: LedgerReader, overrides: Sequence[str]) -> tuple[Job, bool]:
    """The run's job: its first content, its newest operating keys, and the overrides; and whether these change content."""
    configs = reader.configs()
    if not configs:
        raise SpecError(f"run {folder.id} never began: there is nothing to send again.")
    document = archive.read(folder)
    base = archive.base_of(document, folder)
    content, operating = configs[0].content, dict(configs[-1].operating)
    operating.pop(RECORDED, None)
    answer = {**content["answer"], "retry_invalid": operating.pop("retry_invalid")}
    tables: dict[str, Any] = {**content, **operating, "answer": answer, "limits": without_class(operating["limits"])}
    job = job_from_dict(tables, base, overrides)
    if job.spec.input != job_from_dict(tables, base).spec.input:
        raise SpecError("`input` cannot be changed by retry: it sends records of this run again; start another run.", key="input")
    path = document.get("job_file")
    named = Job(spec=job.spec, path=base / path if isinstance(path, str) else None, base=base)
    return named, job.spec.content_hash() != configs[0].content_hash


def _requeue(run: Run, reader: LedgerReader, kinds: frozenset[Kind] | None, *, content_changed: bool) -> None:
    fingerprint: list[dict[str, Any]] = reader.meta("fingerprint", [])
    places = RecordPlaces(run.folder.records, [run.job.base / file["path"] for file in fingerprint])
    ledger = SqliteLedger(run.folder.ledger)
    try:
        stored = [
            StoredUnit(Unit(seq=seq, hash=b"", item=item, n=n, kind=UnitKind(kind)), (file, offset, length), None)
            for seq, error, item, file, offset, length, kind, n in reader.stream("retryable")
            if _chosen(error, kinds)
        ]
        recall = Recall(run.making, places, reader)
        units = [(unit.unit.seq, recall.hash(unit)) for unit in stored]
        items = _revived(run.making, ledger, reader, places, kinds) if content_changed else []
        operating = operating_of(run.job.spec, None, newest_operating(run.folder.ledger))
        config = ledger.add_config(WallClock().now(), run.job.spec.content(), operating)
        chosen = [(seq, value) for seq, value in units if value is not None]
        if not chosen and not items:
            run.warn("nothing of this run matches: nothing is sent again.")
        ledger.requeue(config, chosen, items)
    finally:
        places.close()
        ledger.close()


def _chosen(error: Any, kinds: frozenset[Kind] | None) -> bool:
    return kinds is None or (as_text(error) or "").partition(": ")[0] in kinds


def _revived(
    making: Making, ledger: SqliteLedger, reader: LedgerReader, places: RecordPlaces, kinds: frozenset[Kind] | None
) -> list[Revived]:
    """Rejected items of which the new rules make requests, each of its pieces a unit of its own."""
    revived = []
    _, number = ledger.next_numbers()
    for seq, error, *place in reader.stream("retryable_items"):
        if not _chosen(error, kinds):
            continue
        raw = places.fetch([(place[0], place[1], place[2])])[0]
        try:
            whole = making.slicer(seq, parse(raw))
            hashes, slices = making.asked(whole)
        except RecordError:
            continue
        units = [Unit(seq=number + n, hash=value, item=seq, n=n) for n, value in enumerate(hashes)]
        revived.append(Revived(seq, to_bits([Note.INPUT_CUT]) if whole.cut else 0, units, slices))
        number += len(units)
    return revived


def _refuse_other_pieces(content: dict[str, Any], job: Job) -> None:
    """What is done was cut in one way: its pieces and others do not make a whole. Raises SpecError."""
    before, after = _cut(content["slice"]), _cut(job.spec.content()["slice"])
    if before != after and (before["split"] is not None or after["split"] is not None):
        raise SpecError(
            "`slice` cannot be changed by retry where records are divided: the pieces that are done were cut by it. Start "
            "another run with --reuse last, which takes over equal pieces; max_input and a reducing prompt may change here.",
            key="slice",
        )


def _cut(part: dict[str, Any]) -> dict[str, Any]:
    """What of `[slice]` decides where texts are cut."""
    split = part.get("split")
    if split is not None:
        split = {**split, "join": split["join"] if isinstance(split["join"], str) else "reduce"}
    return {"truncate": part.get("truncate"), "split": split}
