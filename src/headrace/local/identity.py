"""Who answers: the weights' sha256, remembered by what the file system says of the file, so that it is read once."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import orjson

from headrace.errors import SpecError

_REMEMBERED = 200


def state_of(path: Path) -> list[int] | None:
    """What the file system says of a file's content without reading it; None where there is no file."""
    try:
        return _facts(path.stat())
    except OSError:
        return None


def _facts(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def sha256_of(path: Path, state: Path | None, *, remember: bool = True) -> str:
    """The file's sha256 in hex. Remembered in `state` (None: not) under path, size, mtime and inode. Raises SpecError.

    Without `remember` nothing is written: what is remembered is used, and else the file is read.
    """
    real = path.resolve()
    try:
        facts = _facts(real.stat())
        known = _read(state)
        entry = known.get(os.fsdecode(real))
        if isinstance(entry, dict) and entry.get("facts") == facts and isinstance(entry.get("sha256"), str):
            return str(entry["sha256"])
        with real.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = _facts(os.fstat(file.fileno()))
    except OSError as error:
        raise SpecError(f"{path}: the file cannot be read ({error.strerror})", key="model.weights") from None
    if after == facts and remember:
        known.pop(os.fsdecode(real), None)
        known[os.fsdecode(real)] = {"facts": facts, "sha256": digest}
        _write(state, known)
    return digest


def _read(state: Path | None) -> dict[str, Any]:
    try:
        value = orjson.loads((state / "weights.json").read_bytes()) if state is not None else {}
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _write(state: Path | None, known: dict[str, Any]) -> None:
    """Best effort: what cannot be remembered is computed again."""
    if state is None:
        return
    temporary = state / f"weights.json.tmp-{os.getpid()}"
    try:
        state.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(orjson.dumps(dict(list(known.items())[-_REMEMBERED:]), option=orjson.OPT_INDENT_2))
        temporary.replace(state / "weights.json")
    except (OSError, TypeError):
        with contextlib.suppress(OSError):
            temporary.unlink()
