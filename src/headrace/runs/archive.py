"""run.json: what a run was, readable without headrace. The ledger is the truth; this is its cover sheet."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace import __version__, canon
from headrace.errors import DiskError, LedgerError, SpecError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.runs.capacities import capacities_of
from headrace.runs.job import Job
from headrace.runs.registry import RunFolder
from headrace.sources.matching import matches

# What makes a request's bytes, sends them and judges what comes back; the rest of what is installed decides nothing.
_LIBRARIES = ("aiohttp", "httptools", "jinja2", "jsonschema-rs", "msgspec", "orjson", "pydantic", "pyreqwest", "xllamacpp")


def identity(job: Job) -> str:
    """What makes two commands the same job: the file's real path; for a dict, folder and name."""
    return str(job.path) if job.path is not None else f"{job.base.resolve()}::{job.spec.name}"


def document(job: Job, folder: RunFolder, figures: dict[str, Any]) -> dict[str, Any]:
    """What run.json holds: the job as it was meant, with the texts of its files; who did it, and with what; what came of it.

    `figures` is the status so far, empty before the run has begun: then nobody has said anything either.
    """
    spec = job.spec
    return {
        "run": folder.id,
        "name": spec.name,
        "job": identity(job),
        "job_file": str(job.path) if job.path is not None else None,
        "base": str(job.base.resolve()),
        "headrace": __version__,
        "libraries": {"python": platform.python_version(), **_versions(_LIBRARIES)},
        "configuration": spec.model_dump(mode="json", by_alias=True),
        "hashes": {"content": spec.content_hash(), "prompt": canon.digest(spec.prompt.model_dump(mode="json"))},
        **(_learnt(folder) if figures else {"capacity": [], "models": [], "input": []}),
        "figures": figures,
    }


def _versions(names: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _learnt(folder: RunFolder) -> dict[str, Any]:
    """What the servers said of themselves, as which models they answered, and by what the input is known again."""
    reader = LedgerReader(folder.ledger)
    try:
        models = [as_text(name) for (name,) in reader.all("models")]
        return {
            "capacity": capacities_of(reader), "models": sorted(filter(None, models)), "input": reader.meta("fingerprint", []),
        }  # fmt: skip
    finally:
        reader.close()


def is_archive(path: Path) -> bool:
    """Whether a job is named by what a run of it has left: the run's folder, or the run.json in it."""
    return path.name == "run.json" or (path.is_dir() and RunFolder(path).exists)


def folder_of(path: Path) -> RunFolder:
    """The run that such a path names."""
    return RunFolder((path if path.is_dir() else path.parent).resolve())


def changed_input(job: Job, files: Sequence[Path]) -> str | None:
    """A warning where the records are not those that the run whose archive this is has read. Raises LedgerError."""
    if job.archived is None:
        return None
    stored = read(RunFolder(job.archived)).get("input")
    if not stored or matches(stored, files):
        return None
    return f"the input is not what run {job.archived.name} has read: its requests cannot all be sent again."


def read_job(path: Path) -> tuple[dict[str, Any], Path | None, Path]:
    """A run's job: its keys, its file as it was called then, and the folder of its paths. Raises SpecError."""
    folder = folder_of(path)
    try:
        found = read(folder)
    except LedgerError as error:
        raise SpecError(str(error), key=None) from None
    configuration = found.get("configuration")
    if not isinstance(configuration, dict):
        raise SpecError(f"{folder.archive}: no archive of a run, or one without the job's keys; name the job file", key=None)
    base, file = base_of(found, folder), found.get("job_file")
    if not base.is_dir():  # the whole was moved
        base = folder.path.parent.parent.parent
    return configuration, Path(file) if isinstance(file, str) else None, base


def write(folder: RunFolder, document: dict[str, Any]) -> None:
    """Replace run.json as a whole. Raises DiskError."""
    temporary = folder.archive.with_suffix(f".tmp-{os.getpid()}")
    try:
        temporary.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        temporary.replace(folder.archive)
    except OSError as error:
        raise DiskError(f"{folder.archive}: cannot be written ({error.strerror}).") from error


def read(folder: RunFolder) -> dict[str, Any]:
    """The archive, or an empty one where a crash came before it. Raises LedgerError where it is damaged."""
    try:
        value = orjson.loads(folder.archive.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise LedgerError(f"{folder.archive}: cannot be read ({error}).") from error
    return value if isinstance(value, dict) else {}


def asked_of(folder: RunFolder) -> tuple[str, str]:
    """Name of the model, and route, of what a run asks; empty where the archive does not say. Raises LedgerError."""
    model = read(folder).get("configuration", {}).get("model", {})
    return str(model.get("name") or ""), str(model.get("route") or "")


def is_of_the_end(folder: RunFolder) -> bool:
    """Whether run.json was written when the run had finished. One that is damaged was not."""
    try:
        figures = read(folder).get("figures")
    except LedgerError:
        return False
    return isinstance(figures, dict) and figures.get("state") == "finished"


def base_of(document: dict[str, Any], folder: RunFolder) -> Path:
    """The folder that the job's paths are relative to."""
    base = document.get("base")
    return Path(base) if isinstance(base, str) else folder.path.parent.parent.parent
