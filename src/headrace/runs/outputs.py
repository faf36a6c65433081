"""Where a run's output goes, when it appears, and whose file may be replaced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace import canon
from headrace.errors import HeadraceError, OutputError, SpecError
from headrace.ledger.reader import LedgerReader
from headrace.runs.export import Selection, answer_names, output_rows, write_output
from headrace.runs.job import Job
from headrace.runs.lifecycle import job_candidates
from headrace.runs.registry import RunFolder
from headrace.sinks.durable import remove_left_behind
from headrace.sources.matching import still_hold
from headrace.sources.records import RecordPlaces, parse
from headrace.values import Status

FINISHED = frozenset({Status.DONE, Status.FAILED, Status.QUARANTINED, Status.REJECTED})


def output_path(job: Job) -> Path:
    return job.base / job.spec.output.path


def partial_path(path: Path) -> Path:
    """Where the part so far stands after a stop."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def refuse_foreign_output(job: Job, root: Path, files: Sequence[Path]) -> None:
    """Raises SpecError where a file stands in the output's place, or in that of its part so far, that no run of this job wrote.

    Never may either of them be the input itself.
    """
    path = output_path(job)
    _refuse_unwritable(path)
    inputs = {file.resolve() for file in files}
    ours = None
    for place in (path, partial_path(path)):
        if place.resolve() in inputs:
            raise SpecError(f"output.path: {place} would replace the input; choose another path.", key="output.path")
        mark = mark_of(place)
        if mark is None or job.spec.output.overwrite:
            continue
        if ours is None:
            folders = [candidate.folder for candidate in job_candidates(job, root)]
            folders += [RunFolder(job.archived)] if job.archived is not None else []
            ours = [mark for folder in folders for mark in outputs_of(folder)]
        if not is_one_of(mark, ours):
            raise SpecError(
                f"output.path: {place} is already there and no run of this job wrote it as it is; "
                "move it, choose another path, or set output.overwrite to true.",
                key="output.path",
            )


def _refuse_unwritable(path: Path) -> None:
    """Before anything is paid: an output that cannot be made at all. Raises SpecError, OutputError."""
    try:
        path.resolve()
        folder = next(parent for parent in path.absolute().parents if parent.exists())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name too long, a NUL
        raise SpecError(f"output.path: {str(path)!a}: {error}.", key="output.path") from error
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"output.path: {path}: nothing can be written in {folder}; choose another path.")


def mark_of(path: Path) -> dict[str, Any] | None:
    """By what a written file is known again; None where there is none. Raises SpecError for an impossible path."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecError(f"output.path: {path}: {error.strerror}.", key="output.path") from error
    return {"path": str(path.resolve()), "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def outputs_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The marks of what a run has written: its output and the part so far. A path alone: it died while it wrote there."""
    try:
        reader = LedgerReader(folder.ledger)
    except HeadraceError:
        return []
    try:
        marks = [reader.meta("output"), reader.meta("partial"), *reader.meta("earlier_outputs", [])]
        marks += [{"path": path} for path in reader.meta("writing", [])]
        return [mark for mark in marks if mark is not None]
    finally:
        reader.close()


def is_one_of(mark: dict[str, Any], marks: Sequence[dict[str, Any] | None]) -> bool:
    return any(known is not None and known.items() <= mark.items() for known in marks)


def remove_partial(path: Path, marks: Sequence[dict[str, Any] | None]) -> None:
    """Remove the part so far, if it is one that a run of this job wrote, and what a process that died left of one."""
    partial = partial_path(path)
    with contextlib.suppress(OSError):  # the output itself was written there
        remove_left_behind(Path(os.path.realpath(partial)))
    mark = mark_of(partial)
    if mark is not None and is_one_of(mark, marks):
        partial.unlink(missing_ok=True)


def write(
    reader: LedgerReader, folder: RunFolder, path: Path, *, details: bool, only: frozenset[Status] | None = None
) -> tuple[int, str | None]:
    """Write a run's rows to `path`; returns their number, and a warning where the input's fields had to be left out."""
    files, with_fields = records_of(reader)
    warning = None
    if not with_fields:
        warning = "the input file is not what it was when it was read: the output has id and answer fields only."
    places = RecordPlaces(folder.records, files)
    try:
        rows = write_output(reader, places, path, Selection(only=only, details=details, with_fields=with_fields))
    finally:
        places.close()
    return rows, warning


def rows_of(folder: RunFolder, *, details: bool) -> Iterator[dict[str, Any]]:
    """The output's records as dicts, in input order."""
    reader = LedgerReader(folder.ledger)
    places = None
    try:
        reader.snapshot()
        files, with_fields = records_of(reader)
        places = RecordPlaces(folder.records, files)
        for row in output_rows(reader, places, Selection(details=details, with_fields=with_fields)):
            fields = parse(row.raw) if row.raw is not None else {}
            answers = dict(row.answers)
            if row.answer_json is not None:
                answers[next(iter(answers))] = canon.decode(row.answer_json)
            yield {**fields, **answers}
    finally:
        reader.close()
        if places is not None:
            places.close()


def answer_names_of(folder: RunFolder, *, details: bool) -> dict[str, str]:
    """Our fields in what `rows_of` gives, under the names that they have there."""
    reader = LedgerReader(folder.ledger)
    try:
        reader.snapshot()
        return answer_names(reader, Selection(details=details, with_fields=records_of(reader)[1]))
    finally:
        reader.close()


def records_of(reader: LedgerReader) -> tuple[list[Path], bool]:
    """The input's files, and whether records that lie in them are still what was read."""
    fingerprint: list[dict[str, Any]] = reader.meta("fingerprint", [])
    files = [Path(file["path"]) for file in fingerprint]
    return files, not any(reader.meta("in_place", [])) or still_hold(fingerprint, files)


def export_run(folder: RunFolder, to: Path, only: frozenset[Status] | None, *, details: bool) -> tuple[int, str | None]:
    """Write a run's output again, in the format of `to`, also while items are pending; rows written, and a warning."""
    reader = LedgerReader(folder.ledger)
    try:
        reader.snapshot()
        _refuse_precious(reader, folder, to)
        return write(reader, folder, to, details=details, only=only)
    finally:
        reader.close()


def _refuse_precious(reader: LedgerReader, folder: RunFolder, to: Path) -> None:
    """An export never replaces the run's input, its own output, or anything in its folder."""
    target = to.resolve()
    inputs = [Path(file["path"]).resolve() for file in reader.meta("fingerprint", [])]
    output = reader.meta("output") or {}
    what = None
    if target in inputs:
        what = "the run's input"
    elif output.get("path") == str(target):
        what = "the run's own output, which `headrace run` keeps"
    elif folder.path.resolve() in target.parents:
        what = "inside the run's folder"
    if what is not None:
        raise SpecError(f"--to: {to} is {what}; choose another path.", key="--to")
