"""What was understood of a model, and how numbers are taken from a description that is not to be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace.policy.attention import Attention

MOST_LAYERS = 10_000
_LARGEST = 2**24  # of a dimension or a number of heads
_LONGEST = 2**40  # of a context


class Description(Struct, frozen=True):
    """`attention` is None where a part is not understood; a note then says which. `context` is tokens, `weights` bytes.

    `family` is the description's own word, at most 60 characters, harmful ones among them.
    """

    family: str | None = None
    attention: Attention | None = None
    context: int | None = None
    weights: int | None = None
    notes: tuple[str, ...] = ()


class UnknownError(Exception):
    """A part of a description is not understood. The message says which: the note that the user reads."""


def number(fields: Mapping[str, Any], *keys: str, default: int | None = None) -> int:
    """The first of the keys that is there and not null: a whole number from 1 on. Raises UnknownError."""
    found = optional(fields, *keys)
    if found is None:
        found = default
    if found is None:
        raise UnknownError(f"{keys[0]} is not told")
    return found


def optional(fields: Mapping[str, Any], *keys: str) -> int | None:
    """The same; None where none of the keys is there, and 0 counts as none."""
    for key in keys:
        value = fields.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise UnknownError(f"{key} is {shown(value)}, which is no number of this kind")
        if value:
            return value
    return None


def layers_of(fields: Mapping[str, Any], *keys: str) -> int:
    """How many layers there are. Raises UnknownError."""
    found = number(fields, *keys)
    if found > MOST_LAYERS:
        raise UnknownError(f"{keys[0]} is {found}, more than any model has")
    return found


def context_of(fields: Mapping[str, Any], *keys: str) -> int | None:
    """The longest request; None where that is not told or makes no sense."""
    found = next((fields[key] for key in keys if fields.get(key) is not None), None)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < _LONGEST else None


def share(whole: int, parts: int, what: str) -> int:
    """A dimension divided among heads. Raises UnknownError where it does not come out even."""
    if whole % parts:
        raise UnknownError(f"{what}: {whole} is no multiple of {parts} heads")
    return whole // parts


def shown(value: Any) -> str:
    """A value of others, short and harmless."""
    if isinstance(value, str):
        return f"{value[:40]!a}"
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**18):
        return repr(value)
    return {"dict": "an object", "list": "a list", "int": "a huge number"}.get(type(value).__name__, "of another kind")
