"""Canonical JSON and content hashes: equal content has equal bytes, whatever the key order or the library."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson

HASH_BYTES = 16
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))


def encode(value: Any) -> bytes:
    """JSON in UTF-8 as sent: keys in the given order, no spaces. What orjson refuses goes through the standard library.

    Lone surrogates and integers beyond 64 bits come out as the standard library writes them (escaped, exact).
    NaN and infinities raise ValueError: they are no JSON.
    """
    try:
        if _has_no_float_trouble(value):
            return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        pass
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def canonical(value: Any) -> bytes:
    """JSON with sorted keys, for hashing only. Raises ValueError on NaN and infinities."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """The hex sha256 of a value's canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def decode(raw: bytes | str) -> Any:
    """Parse one JSON text as exactly as Python can: big integers stay integers. Raises ValueError.

    NaN and infinities are refused, duplicate keys keep their last value (as every JSON reader does).
    """
    try:
        value = orjson.loads(raw)
    except ValueError:
        pass
    else:
        if _is_exact(value, raw):
            return value
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


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
        state.update(payload)
        if salt:
            state.update(b"\x00" + salt)
        return state.digest()[:HASH_BYTES]


def _has_no_float_trouble(value: Any) -> bool:
    """True where orjson cannot silently turn NaN or infinity into null."""
    if isinstance(value, str | int | bool) or value is None:
        return True
    if isinstance(value, float):
        return value - value == 0.0
    if isinstance(value, dict):
        return all(map(_has_no_float_trouble, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_has_no_float_trouble, value))
    return True


def _is_exact(value: Any, raw: bytes | str) -> bool:
    """False where a number of 19 digits or more may stand, which orjson would turn into a float."""
    suspects = value.values() if isinstance(value, dict) else (value,)
    if not any(isinstance(suspect, float | dict | list) for suspect in suspects):
        return True
    text = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    return b"0" * 19 not in text.translate(_DIGITS)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
