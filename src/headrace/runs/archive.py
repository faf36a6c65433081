"""run.json: what a run was, readable without headrace. The ledger is the truth; this is its cover sheet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

from headrace.errors import DiskError, LedgerError
from headrace.runs.job import Job
from headrace.runs.registry import RunFolder


def identity(job: Job) -> str:
    """What makes two commands the same job: the file's real path; for a dict, folder and name."""
    return str(job.path) if job.path is not None else f"{job.base.resolve()}::{job.spec.name}"


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
