"""An import-only stand-in: every attribute and submodule resolves, so that what is never called is there."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Meta(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__") or not name[:1].isupper():
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Base(metaclass=Meta):
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _decorator(args, kwargs)


class _Mock(types.ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__package__ = name
        self.__file__ = __file__
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return child(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _decorator(args, kwargs)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (Base,)

    def __or__(self, other: Any) -> Any:
        return other

    def __ror__(self, other: Any) -> Any:
        return other


def _decorator(args: Sequence[Any], kwargs: Any) -> Any:
    """What a decorator does, with or without arguments: give the function back."""
    return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else (lambda function: function)


def child(module: types.ModuleType, name: str) -> Any:
    full = f"{module.__name__}.{name}"
    made: Any
    if name[:1].isupper():
        bases = (Exception,) if name.endswith(("Error", "OutOfResources")) else (Base,)
        made = type(name, bases, {"__module__": module.__name__})
    else:
        made = sys.modules.get(full) or _Mock(full)
        sys.modules[full] = made
    setattr(module, name, made)
    return made


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        return sys.modules.get(spec.name) or _Mock(spec.name)

    def exec_module(self, module: Any) -> None: ...


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 (the protocol's)
        if "." in name and name.partition(".")[0] in _roots:
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)
        return None


_roots: set[str] = set()
sys.meta_path.insert(0, _Finder())


def install(module_name: str, version: str) -> Callable[[str], Any]:
    """Called from the package's own __init__: its `__getattr__`."""
    _roots.add(module_name)
    module: Any = sys.modules[module_name]
    module.__path__ = []
    module.__version__ = version

    def attribute(name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return child(module, name)

    return attribute
