"""A stand-in in pure torch for the few CPU symbols of sgl_kernel that a dense model needs."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

import torch

__version__ = "0.4.10"
__path__: list[str] = []


def assign_req_to_token_pool_cpu(
    req_pool_indices: Any, req_to_token: Any, start: Any, end: Any, out_cache_loc: Any, pool_len: int
) -> None:
    del pool_len
    at = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        req_to_token[row, first:last] = out_cache_loc[at : at + last - first].to(req_to_token.dtype)
        at += last - first


class _Missing:
    """Resolves at import time; calling it says which kernel is absent."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel stub: {self.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")


class _Module(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        return _Module(spec.name)

    def exec_module(self, module: Any) -> None: ...


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 (the protocol's)
        if name.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)
        return None


sys.meta_path.insert(0, _Finder())


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Missing(name)


def _init_threads(cpu_ids: str) -> str:
    """`0-1` or `0,1`: so many threads, bound to no core."""
    count = 0
    for part in cpu_ids.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    torch.set_num_threads(max(1, count))
    return f"stub: {count} threads"


_library = torch.library.Library("sgl_kernel", "FRAGMENT")
_library.define("init_cpu_threads_env(str cpu_ids) -> str")
_library.impl("init_cpu_threads_env", _init_threads, "CompositeExplicitAutograd")
_library.define("initialize(int size, int rank) -> ()")
_library.impl("initialize", lambda size, rank: None, "CompositeExplicitAutograd")  # noqa: ARG005 (named as the schema)
