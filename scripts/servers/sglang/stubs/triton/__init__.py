"""An import-only stand-in for triton: on the CPU no kernel of it is ever launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _sgmock

__getattr__ = _sgmock.install(__name__, "3.0.0")
_TYPES = (
    "dtype pointer_type tensor void int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4nv float8e5 float8e4b8 "
    "float8e5b16 float16 bfloat16 float32 float64 block_type"
)


def cdiv(dividend: int, divisor: int) -> int:
    return -(dividend // -divisor)


def next_power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 0 else 1


def jit(function: Any = None, **_: Any) -> Any:
    return function if function is not None else (lambda other: other)


def heuristics(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda function: function


def autotune(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda function: function


class Config:
    def __init__(self, kwargs: Any = None, num_warps: int = 4, num_stages: int = 2, **_: Any) -> None:
        self.kwargs = kwargs or {}
        self.num_warps = num_warps
        self.num_stages = num_stages


class _Constant:
    def __init__(self, value: Any = None) -> None:
        self.value = value


from triton import language  # noqa: E402 (resolved by the stand-in above)

language.constexpr = _Constant
for _name in _TYPES.split():
    setattr(language, _name, type(_name, (_sgmock.Base,), {}))
