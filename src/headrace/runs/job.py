"""A job: what is to be done, and where its paths start."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from headrace.spec import JobSpec


class Job(Struct, frozen=True):
    """A checked job. `path` is its file's real path, None for a job that came as a dict; `base` is the folder of its paths.

    `archived`: the folder of the run whose archive it was read from.
    """

    spec: JobSpec
    path: Path | None
    base: Path
    archived: Path | None = None
