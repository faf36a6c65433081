"""From `input.path` to files: relative paths, globs, and what a suffix means."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import InputError

Form = Literal["lines", "json", "csv", "tsv", "parquet", "texts", "rows"]
Compression = Literal["gzip", "zstd"]

_FORMS: dict[str, Form] = {
    ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip
RECORD_SUFFIXES = frozenset(_FORMS)
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
_ALLOWED = ".jsonl .ndjson .json .csv .tsv .parquet, the text forms also with .gz or .zst"
_TEXTS = frozenset({".txt", ".md", ".text"})
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
_SQLITE = "sqlite:"
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


def is_database(path: str) -> bool:
    """Whether `input.path` names a database and not files."""
    return path.startswith(_SQLITE)


def database(path: str, base: Path) -> Path:
    """The file that sqlite:///x.db (from `base`) or sqlite:////x.db (absolute) names. Raises InputError."""
    name = path.removeprefix("sqlite:///")
    if name == path or not name or "\0" in name:
        raise InputError(f"input.path = {shown(path)}: names no database; write sqlite:///x.db, or sqlite:////folder/x.db")
    return base / name


def resolve(path: str, base: Path) -> tuple[Path, ...]:
    """The files, or the folder, that `path` names, relative to `base`; a glob's files are sorted by name. Raises InputError."""
    if not path or "\0" in path:
        raise InputError(f"input.path names no file: allowed are {_ALLOWED}, a folder of texts, and sqlite:///x.db")
    one = base / path
    if _mode(one) or not glob.has_magic(path):
        return (one,)
    names = sorted(glob.glob(path, root_dir=base, recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
    files = tuple(file for file in (base / name for name in names) if not file.is_dir())
    if not files:
        folders = f"; {len(names)} folders do, but a pattern is for files: name one folder to read its texts" if names else ""
        raise InputError(f"input.path = {shown(path)}: no file in {shown(base)} matches this pattern{folders}")
    return files


def split_suffix(name: str) -> tuple[str, Compression | None]:
    """The suffix that says what a file holds, in small letters, and what it is packed with."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    compression = COMPRESSIONS.get(last)
    if compression is not None:
        last = suffixes[-2] if len(suffixes) > 1 else ""
    return last, compression


def format_of(path: Path) -> Format:
    """What a file's suffix says, in any case of letters; a folder holds texts. Raises InputError."""
    suffix, compression = split_suffix(path.name)
    form = _FORMS.get(suffix)
    if stat.S_ISDIR(_mode(path)):
        return Format("texts", None)
    if form is None or (form == "parquet" and compression is not None):
        hint = ""
        if suffix in _TEXTS:
            hint = "; texts are read by naming their folder"
        elif suffix in _DATABASES:
            hint = f'; a SQLite database is named by "sqlite:///{shown(path.name)}", with input.query'
        raise InputError(f"input {shown(path)}: unknown suffix; allowed are {_ALLOWED}{hint}")
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
