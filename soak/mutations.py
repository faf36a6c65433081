"""Code with a fault put in on purpose: a module is imported with one piece of its text replaced, in a process of its own."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class Mutation(NamedTuple):
    """`old` stands exactly once in the module's text. `name` says what is wrong with `new`."""

    name: str
    module: str
    old: str
    new: str


def text_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def mutated(mutation: Mutation, text: str) -> str:
    """The module's text with the fault in it. Raises ValueError where the code has moved on: the mutation has to follow it."""
    found = text.count(mutation.old)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text stands {found} times in {mutation.module}, not once")
    return text.replace(mutation.old, mutation.new)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutation: Mutation, path: str) -> None:
        super().__init__(mutation.module, path)
        self._mutation = mutation

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # a code object; never from a cache
        path = self.get_filename(fullname)
        return compile(mutated(self._mutation, Path(path).read_text(encoding="utf-8")), path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutation.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None:
            return None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=_Loader(self._mutation, found.origin))


def install(mutation: Mutation) -> None:
    """From now on the module is imported with its fault. Raises RuntimeError where it has been imported already.

    Nothing is imported by it: the packages around the module may import it themselves.
    """
    if mutation.module in sys.modules:
        raise RuntimeError(f"{mutation.module} has been imported already")
    sys.meta_path.insert(0, _Finder(mutation))
