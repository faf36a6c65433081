"""Whether an input still is what a run had read: each form's own rule, by the kind of its fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.sources import fingerprint, folder, sqlite

_OTHERS: dict[str, Callable[[dict[str, Any], Path], bool]] = {folder.KIND: folder.matches, sqlite.KIND: sqlite.matches}


def matches(stored: Sequence[dict[str, Any]], paths: Sequence[Path]) -> bool:
    """Whether these inputs still are what was fingerprinted, compared in order; the names of files do not matter.

    Equal size and mtime are trusted. With an equal size and another mtime what had been read is compared by reading it
    again: what nobody had read yet is not known and not compared.
    """
    if len(stored) != len(paths):
        return False
    return all(_OTHERS.get(one.get("kind", ""), fingerprint.matches)(one, path) for one, path in zip(stored, paths, strict=True))


def still_hold(stored: Sequence[dict[str, Any]], paths: Sequence[Path]) -> bool:
    """Whether the bytes that had been read still stand in these files, which may have grown since."""
    return len(stored) == len(paths) and all(map(fingerprint.still_holds, stored, paths))
