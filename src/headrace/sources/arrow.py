"""Arrow columns as plain JSON values. The mapping is the table in the docstring of `values`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class Unmapped:
    """Stands for a value that has no JSON form; `reason` goes behind the column's name."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def values(array: Any) -> list[Any]:
    """A column's values, null as None.

    boolean, integer, string       as they are, 64-bit integers exact
    float                          as it is; NaN and infinities are null
    decimal                        string, all digits
    timestamp                      string, ISO 8601, all digits that are not zero; with a time zone: in UTC, with Z
    date, time                     string, ISO 8601
    duration                       string, ISO 8601 in seconds (PT1.5S)
    list (any kind)                array
    struct                         object
    map                            object where the keys are strings, else an array of [key, value]
    dictionary                     the value that it stands for
    UUID                           string
    binary and everything else     no value: Unmapped
    """
    kind = array.type
    for test, convert in _CONVERSIONS:
        if test(kind):
            return convert(array)
    return [None if value is None else Unmapped(f"is of type {kind}, which has no JSON form") for value in map(_valid, array)]


def may_be_unmapped(kind: Any) -> bool:
    """Whether values of this type can hold an Unmapped somewhere; strings can, where a file's are no UTF-8."""
    plain = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal)
    return pa.types.is_interval(kind) or not any(test(kind) for test in plain)


def first_unmapped(value: Any) -> Unmapped | None:
    """The first Unmapped in a value, however deep."""
    if isinstance(value, Unmapped):
        return value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for found in map(first_unmapped, children) if found is not None), None)


def _as_they_are(array: Any) -> list[Any]:
    return list(array.to_pylist())


def _floats(array: Any) -> list[Any]:
    return [value if value is None or math.isfinite(value) else None for value in array.to_pylist()]


def _strings(array: Any) -> list[Any]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return [None if value is None else _text(value.as_buffer().to_pybytes()) for value in map(_valid, array)]


def _valid(scalar: Any) -> Any:
    return scalar if scalar.is_valid else None


def _text(raw: bytes) -> str | Unmapped:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return Unmapped("holds bytes that are not UTF-8")


def _binary(array: Any) -> list[Any]:
    found = Unmapped("holds bytes; decode it first")
    return [found if valid else None for valid in array.is_valid().to_pylist()]


def _decimals(array: Any) -> list[Any]:
    return [None if value is None else format(value, "f") for value in array.to_pylist()]


def _timestamps(array: Any) -> list[Any]:
    end = "Z" if array.type.tz is not None else ""
    return [None if text is None else _trimmed(text) + end for text in _datetimes(array, pa.int64(), array.type.unit)]


def _dates(array: Any) -> list[Any]:
    if pa.types.is_date32(array.type):
        return _datetimes(array, pa.int32(), "D")
    return [None if text is None else text.partition("T")[0] for text in _datetimes(array, pa.int64(), "ms")]


def _datetimes(array: Any, storage: Any, unit: str) -> list[Any]:
    """ISO 8601 by numpy, which has no last year as datetime has."""
    counts = array.view(storage).fill_null(0).to_numpy(zero_copy_only=False).astype("int64")
    texts = np.datetime_as_string(counts.astype(f"datetime64[{unit}]")).tolist()
    return [text if valid else None for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]


def _times(array: Any) -> list[Any]:
    storage = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    scale = 10 ** _DIGITS[array.type.unit]
    return [None if count is None else _time(count, scale, array.type.unit) for count in array.view(storage).to_pylist()]


def _time(count: int, scale: int, unit: str) -> str:
    seconds, rest = divmod(count, scale)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return _trimmed(f"{hour:02d}:{minute:02d}:{second:02d}.{rest:0{_DIGITS[unit]}d}")


def _durations(array: Any) -> list[Any]:
    digits = _DIGITS[array.type.unit]
    return [None if count is None else _duration(count, digits) for count in array.view(pa.int64()).to_pylist()]


def _duration(count: int, digits: int) -> str:
    seconds, rest = divmod(abs(count), 10**digits)
    return ("-" if count < 0 else "") + "PT" + _trimmed(f"{seconds}.{rest:0{digits}d}") + "S"


def _trimmed(text: str) -> str:
    """Without the zeros at the end of a fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _lists(array: Any) -> list[Any]:
    children = values(array.flatten())
    rows: list[Any] = []
    at = 0
    for length in pc.list_value_length(array).to_pylist():
        rows.append(None if length is None else children[at : at + length])
        at += length or 0
    return rows


def _structs(array: Any) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else (() for _ in range(len(array)))
    valid = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]


def _maps(array: Any) -> list[Any]:
    offsets = array.offsets.to_pylist()
    keys, items = values(array.keys), values(array.items)
    named = _is_string(array.type.key_type)
    rows: list[Any] = []
    for start, end, valid in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False):
        pairs = zip(keys[start:end], items[start:end], strict=True)
        rows.append((dict(pairs) if named else [list(pair) for pair in pairs]) if valid else None)
    return rows


def _dictionaries(array: Any) -> list[Any]:
    return values(array.dictionary_decode())


def _extensions(array: Any) -> list[Any]:
    if array.type.extension_name == "arrow.uuid":
        return [None if value is None else str(value) for value in array.to_pylist()]
    return values(array.storage)


def _is_extension(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_binary(kind: Any) -> bool:
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(kind) for test in tests)


def _is_plain(kind: Any) -> bool:
    return bool(pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind))


def _is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_CONVERSIONS: tuple[tuple[Callable[[Any], bool], Callable[[Any], list[Any]]], ...] = (
    (_is_extension, _extensions),
    (_is_string, _strings),
    (_is_plain, _as_they_are),
    (pa.types.is_floating, _floats),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_date, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_duration, _durations),
    (pa.types.is_decimal, _decimals),
    (_is_binary, _binary),
    (pa.types.is_dictionary, _dictionaries),
    (pa.types.is_map, _maps),
    (_is_list, _lists),
    (pa.types.is_struct, _structs),
)
