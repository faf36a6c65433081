"""The places of the engine at which it waits, as the source has them: each is to see a crash."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Site(NamedTuple):
    """An await: its file, first and last line."""

    path: str
    line: int
    end: int

    @property
    def name(self) -> str:
        return f"{Path(self.path).name}:{self.line}"

    def holds(self, place: tuple[str, int]) -> bool:
        path, line = place
        return path == self.path and self.line <= line <= self.end


@cache
def awaits() -> tuple[Site, ...]:
    """Every await of the engine, in the order of files and lines."""
    found = []
    for path in sorted((ROOT / "src" / "headrace" / "engine").glob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Await)]
        found += [Site(str(path), node.lineno, node.end_lineno or node.lineno) for node in nodes]
    return tuple(sorted(found))
