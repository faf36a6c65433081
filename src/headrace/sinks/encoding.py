"""Our fields as JSON text that every reader takes. Nothing here raises, whatever the content is."""

from __future__ import annotations

import json
from typing import Any

import orjson

from headrace.protocols import Row

_LF, _CR, _E2, _ED = b"\n\r\xe2\xed"  # looked for as numbers, which is ten times as fast


def encode(value: Any) -> bytes:
    r"""One value as JSON in UTF-8 on one line. Never raises.

    U+2028 and U+2029 are escaped, since many readers take them for line ends; a lone surrogate comes out as \udXXX.
    Integers of any size stay exact; NaN and infinities become null; what JSON has no form for becomes its text.
    """
    try:
        text = orjson.dumps(value, _last_resort)
    except (orjson.JSONEncodeError, RecursionError):
        text = _encode_odd(value)
    return _without_line_separators(text)


def encode_answers(row: Row) -> bytes:
    """Our fields of one row as a JSON object, with `answer_json` in its place. Never raises."""
    answers = row.answers
    if row.answer_json is None or not answers:
        return encode(answers)
    return encode({**answers, next(iter(answers)): orjson.Fragment(_in_utf8(one_line(row.answer_json)))})


def encoded_answers(texts: list[bytes]) -> list[bytes]:
    """Stored JSON texts in the form in which `encode_answers` puts them into a row: many at a time, most untouched."""
    together = b"".join(texts)
    if _LF in together or _CR in together:
        texts = [one_line(text) for text in texts]
    if _E2 in together and _without_line_separators(together) != together:  # typographic quotes begin with it too
        texts = [_without_line_separators(text) for text in texts]
    if _ED in together and _in_utf8(together) != together:
        texts = [_in_utf8(text) for text in texts]
    return texts


def one_line(raw: bytes) -> bytes:
    """The same JSON text without line ends: in valid JSON they are only white space between tokens."""
    if _LF in raw or _CR in raw:
        return raw.replace(b"\n", b" ").replace(b"\r", b" ")
    return raw


def readable(text: str) -> str:
    r"""The text in a form that UTF-8 can hold: a lone surrogate is written as \udXXX."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _without_line_separators(text: bytes) -> bytes:
    if _E2 in text:  # the first byte of both; they stand only inside strings
        return text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


def _in_utf8(text: bytes) -> bytes:
    r"""The same JSON text with its lone surrogates, three bytes that UTF-8 does not know, escaped as \udXXX."""
    if _ED in text:  # their first byte; many others begin with it too
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return readable(text.decode("utf-8", "surrogatepass")).encode("utf-8")
    return text


def _last_resort(value: Any) -> str:
    """Text for what JSON has no form for: exceptions, paths, bytes."""
    try:
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
        return readable(text)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything, and a writer must not fail on content
        return f"<{type(value).__name__}>"


def _encode_odd(value: Any) -> bytes:
    """What orjson refuses: lone surrogates, big integers, deep nesting. Field by field, so that one bad field costs no other."""
    if isinstance(value, dict):
        fields = [_encode_key(key) + b":" + _encode_fragment(field) for key, field in value.items()]
        return b"{" + b",".join(fields) + b"}"
    return _encode_fragment(value)


def _encode_key(key: Any) -> bytes:
    return json.dumps(key if isinstance(key, str) else _last_resort(key)).encode("ascii")


def _encode_fragment(value: Any) -> bytes:
    if isinstance(value, orjson.Fragment):
        return orjson.dumps(value)
    try:
        return json.dumps(value, default=_last_resort, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, TypeError, RecursionError):  # NaN, a cycle, a digit limit, odd keys, thousands of levels
        return json.dumps(_last_resort(value)).encode("ascii")
