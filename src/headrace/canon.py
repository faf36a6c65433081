"""Canonical JSON and content hashes: equal content has equal bytes, whatever the key order or the library."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import orjson

HASH_BYTES = 16
# hashlib gives up the interpreter lock from 2,048 bytes on, and fights for it back: not worth it for a usual prompt.
_SLICE_BYTES = 2047
_SLICED_UP_TO = 32_768
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_NUMBER = b"0" * 19
_PLAIN_TYPES = frozenset({str, int, bool, type(None)})
_TOO_DEEP = "nested too deeply"


def encode(value: Any) -> bytes:
    """JSON in UTF-8 as sent: keys in the given order, no spaces. What orjson refuses goes through the standard library.

    Lone surrogates and integers beyond 64 bits come out as the standard library writes them (escaped, exact). Raises
    ValueError on NaN, infinities, a cycle and hundreds of levels of nesting, TypeError on what is no JSON value.
    """
    try:
        raw = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return _dumps(value)
    if type(value) is str or (type(value) is dict and _PLAIN_TYPES.issuperset(map(type, value.values()))):
        return raw
    # orjson writes NaN and infinities as null: only where a null stands can one have been.
    return _dumps(value) if b"null" in raw and _holds_non_finite(value) else raw


def canonical(value: Any) -> bytes:
    """JSON with sorted keys, for hashing only. Raises as `encode` does."""
    return _dumps(value, sort_keys=True)


def digest(value: Any) -> str:
    """The hex sha256 of a value's canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def decode(raw: bytes | str) -> Any:
    """Parse one JSON text as exactly as Python can: big integers stay integers.

    Raises ValueError, with NaN, infinities, numbers too large for a float and hundreds of levels of nesting among the
    reasons; UnicodeDecodeError is one where bytes are not UTF-8. Duplicate keys keep their last value (as every JSON
    reader does).
    """
    try:
        value = orjson.loads(raw)
    except ValueError:
        return _decode_slowly(raw)
    if type(value) is dict and _PLAIN_TYPES.issuperset(map(type, value.values())):
        return value
    return _decode_slowly(raw) if _may_be_inexact(value, raw) else value


class UnitHasher:
    """Hashes of units: the state after the job's constants is kept, each unit adds its own part.

    A hash covers what is asked (route, logical model name, the body without transport fields and max_tokens, the user's
    schema) and not who answers.
    """

    def __init__(self, constants: Any) -> None:
        self._state = hashlib.sha256(canonical(constants))

    def __call__(self, payload: bytes, salt: bytes = b"") -> bytes:
        """The 16-byte hash of one unit. `salt` keeps units apart that are not to be shared (dedupe = false)."""
        state = self._state.copy()
        if len(payload) <= _SLICED_UP_TO:
            for start in range(0, len(payload), _SLICE_BYTES):
                state.update(payload[start : start + _SLICE_BYTES])
        else:
            state.update(payload)
        if salt:
            state.update(b"\x00" + salt)
        return state.digest()[:HASH_BYTES]


def _dumps(value: Any, *, sort_keys: bool = False) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, allow_nan=False).encode("ascii")
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _holds_non_finite(value: Any) -> bool:
    """Whether NaN or an infinity stands anywhere in it."""
    waiting = [value]
    for inner in waiting:
        if isinstance(inner, float):
            if not math.isfinite(inner):
                return True
        elif isinstance(inner, dict):
            waiting += inner.values()
        elif isinstance(inner, list | tuple):
            waiting += inner
    return False


def _decode_slowly(raw: bytes | str) -> Any:
    text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _may_be_inexact(value: Any, raw: bytes | str) -> bool:
    """Whether orjson may have made a float of an integer beyond 64 bits.

    What is nested is looked through while it has few values for its length, else the text is searched for a long number:
    each is the cheaper one there.
    """
    left = 8 + len(raw) // 32
    waiting = [value]
    for container in waiting:
        values = container.values() if type(container) is dict else container if type(container) is list else (container,)
        if _PLAIN_TYPES.issuperset(map(type, values)):
            continue
        left -= len(values)
        if left < 0 and len(waiting) > 1:
            text = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
            return _LONG_NUMBER in text.translate(_DIGITS)
        for inner in values:
            kind = type(inner)
            if kind is float:
                if not -1e18 < inner < 1e18:
                    return True
            elif kind is dict or kind is list:
                waiting.append(inner)
    return False


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number too large for a float")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
