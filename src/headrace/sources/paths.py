"""From `input.path` to files: relative paths, globs, and what a suffix means."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import InputError, NotYetError

Form = Literal["lines", "csv", "tsv", "parquet"]
Compression = Literal["gzip", "zstd"]

_FORMS: dict[str, Form] = {".jsonl": "lines", ".ndjson": "lines", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_ALLOWED = ".jsonl .ndjson .csv .tsv .parquet, the text forms also with .gz or .zst"
_INSTEAD = "not served yet: use .jsonl, .csv, .tsv or .parquet"
_LONGEST_NAME = 300


class Format(NamedTuple):
    form: Form
    compression: Compression | None


def shown(path: Path | str) -> str:
    """A path for one line of a message: as it is, or escaped where it holds what does not print."""
    text = str(path)
    if len(text) > _LONGEST_NAME:
        text = "…" + text[-_LONGEST_NAME:]
    return text if text.isprintable() else ascii(text)


def cause(error: OSError) -> str:
    """What the system says, without the path that it repeats."""
    return error.strerror or type(error).__name__


def resolve(path: str, base: Path) -> tuple[Path, ...]:
    """The files that `path` names, relative to `base`; a glob's are sorted by name. Raises InputError, NotYetError."""
    if path.startswith("sqlite:"):
        raise NotYetError(f"input.path = {shown(path)}: sqlite is {_INSTEAD}", key="input.path", found="sqlite", allowed=_ALLOWED)
    if not path or "\0" in path:
        raise InputError(f"input.path names no file: allowed are {_ALLOWED}")
    one = base / path
    mode = _mode(one)
    if mode or not glob.has_magic(path):
        if stat.S_ISDIR(mode):
            message = f"input.path = {shown(path)}: a folder is {_INSTEAD}"
            raise NotYetError(message, key="input.path", found="a folder", allowed=_ALLOWED)
        return (one,)
    names = sorted(glob.glob(path, root_dir=base, recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
    files = tuple(file for file in (base / name for name in names) if not file.is_dir())
    if not files:
        raise InputError(f"input.path = {shown(path)}: no file in {shown(base)} matches this pattern")
    return files


def format_of(path: Path) -> Format:
    """What a file's suffix says, in any case of letters. Raises InputError, NotYetError."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    compression = _COMPRESSIONS.get(last)
    if compression is not None:
        last = suffixes[-2] if len(suffixes) > 1 else ""
    if last == ".json":
        raise NotYetError(f"input {shown(path)}: .json is {_INSTEAD}", key="input.path", found=".json", allowed=_ALLOWED)
    form = _FORMS.get(last)
    if form is None or (form == "parquet" and compression is not None):
        raise InputError(f"input {shown(path)}: unknown suffix; allowed are {_ALLOWED}")
    return Format(form, compression)


def status_of(path: Path) -> os.stat_result:
    """A regular file's status. Raises InputError for anything else, before anything could block on it."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise InputError(f"input {shown(path)}: no such file") from error
    except OSError as error:
        raise InputError(f"input {shown(path)}: cannot be read: {cause(error)}") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"input {shown(path)}: not a regular file")
    return status


def _mode(path: Path) -> int:
    """What kind of file it is, 0 where it cannot be told."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
