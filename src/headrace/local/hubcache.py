"""The hub's cache on this machine: where it lies, and which GGUF files were fetched into it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

_PREFIX = "models--"


class Cached(Struct, frozen=True, order=True):
    """One file of a snapshot. Sorts by size, then by repository and file; the revision that `main` names comes first."""

    size: int
    repo: str
    file: str
    superseded: bool
    path: Path


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """HF_HUB_CACHE, else `hub` in HF_HOME, in XDG_CACHE_HOME/huggingface or in ~/.cache/huggingface. None without a home."""
    if environ.get("HF_HUB_CACHE"):
        return Path(environ["HF_HUB_CACHE"]).expanduser()
    if environ.get("HF_HOME"):
        return Path(environ["HF_HOME"]).expanduser() / "hub"
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]).expanduser() / "huggingface" / "hub"
    return Path(environ["HOME"]) / ".cache" / "huggingface" / "hub" if environ.get("HOME") else None


def repo_folder(cache: Path, repo: str) -> Path:
    """`owner/name` in the cache."""
    return cache / (_PREFIX + repo.replace("/", "--"))


def cached_ggufs(environ: Mapping[str, str]) -> list[Cached]:
    """Every GGUF file of the cache, the same content once. What cannot be read is passed over; nothing is opened."""
    cache = cache_folder(environ)
    found: dict[tuple[int, int], Cached] = {}
    for entry in _listed(cache) if cache is not None else ():
        for cached in sorted(_in_repo(entry)):
            stat = cached.path.stat()
            found.setdefault((stat.st_dev, stat.st_ino), cached)
    return sorted(found.values())


def _listed(cache: Path) -> list[Path]:
    try:
        return sorted(entry for entry in cache.iterdir() if entry.name.startswith(_PREFIX))
    except OSError:
        return []


def _in_repo(folder: Path) -> Iterator[Cached]:
    repo = folder.name.removeprefix(_PREFIX).replace("--", "/", 1)
    try:
        main = (folder / "refs" / "main").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    for base, _, names in os.walk(folder / "snapshots"):
        for name in names:
            path = Path(base) / name
            if not name.lower().endswith(".gguf"):
                continue
            try:
                size = path.stat().st_size  # a link whose content is not there yet is no file
            except OSError:
                continue
            parts = path.relative_to(folder / "snapshots").parts
            yield Cached(size, repo, "/".join(parts[1:]), parts[0] != main, path)
