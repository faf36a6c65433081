"""What a server says went wrong, read from any of the shapes in use."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import Struct

_PARSED = 1_000_000  # an error larger than this is read as text
KEPT = 6_000  # more than is ever shown: a message is cut only after secrets were taken out of it
_PAGE = 16_384  # of a page, before its markup is taken out
_LONGEST_WORD = 200
_MATCHED = 4_000
_MATCHED_LOOSE = 1_000  # of a page or a plain text: who is able to say what was wrong with a request says it in JSON
_MARKUP = re.compile(r"<(?:script|style)\b[^<]{0,20000}|<[^<>]{0,2000}>", re.IGNORECASE)
_HTML = re.compile(rb"\s*(?:<!doctype html|<html|<head|<body|<!--|<\?xml)", re.IGNORECASE)


class ServerError(Struct, frozen=True):
    """`code` and `type` are the server's words, `status` the HTTP status it wrote into the body, `raw` the error object."""

    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    raw: Any = None

    @property
    def words(self) -> str:
        """Everything the server said, lower-case, for matching."""
        message = self.message[: _MATCHED_LOOSE if self.raw is None else _MATCHED]
        return " ".join([part for part in (self.code, self.type, self.param, message) if part]).lower()


def read_error(body: bytes) -> ServerError:
    """The error in a body, of whatever shape: never raises, never slow on large bodies."""
    value = parse(body) if len(body) <= _PARSED and not is_html(body) else None
    found = error_in(value)
    return ServerError(_text(body)) if found is None else found


def error_in(value: Any) -> ServerError | None:
    """The error object in a parsed body, or None."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # Google wraps errors in a list of one
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return _from_object(error)
    if isinstance(error, str) and error:
        return ServerError(error[:KEPT], _word(value.get("error_type") or value.get("type")), _word(value.get("code")), raw=value)
    if value.get("object") == "error" or value.get("type") == "error" or (value.get("message") and "choices" not in value):
        return _from_object(value)
    detail = value.get("detail", value.get("errors"))
    if detail and "choices" not in value:
        return ServerError(_as_text(detail)[:KEPT], raw=value)
    return None


def is_html(body: bytes) -> bool:
    """True for a page made for people."""
    return _HTML.match(body, 0, 2_000) is not None


def parse(body: bytes) -> Any:
    """The JSON value of a body, or None. Invalid UTF-8 is replaced, depth and size are survived."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        pass
    try:
        return json.loads(body.decode("utf-8-sig", "replace"))
    except (RecursionError, ValueError):
        return None


def _from_object(error: dict[str, Any]) -> ServerError:
    inner = error.get("innererror")
    code = error.get("code")
    status = error.get("status")
    number = _status(code) or _status(status)
    kind = _word(error.get("type")) or (status if isinstance(status, str) else None)
    words = [_word(code)] if not _status(code) else []
    if isinstance(inner, dict):
        words.append(_word(inner.get("code")))
    message = error.get("message")
    message = _as_text(error if message is None else message)
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message} ({metadata['raw']})"  # OpenRouter puts its provider's words here
    param = _word(error.get("param"))
    return ServerError(message[:KEPT], kind, next((word for word in words if word), None), param, number, error)


def _as_text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:  # what could just be read is a little too deep to be written
        return "nested too deeply"


def _word(value: Any) -> str | None:
    """A code or the like. What is longer is none; cut, it might show the beginning of a secret."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if 0 < len(text) <= _LONGEST_WORD else None


def _status(value: Any) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _text(body: bytes) -> str:
    page = is_html(body)
    kept = _PAGE if page else KEPT
    text = body[:kept].decode("utf-8", "replace")
    if len(body) > kept:
        words = text.rsplit(None, 1)  # not through the middle of a word, which might be a secret
        text = words[0] if len(words) == 2 else "" if text[:1].isspace() else text
    if page:
        text = "a web page: " + _MARKUP.sub(" ", text)
    return " ".join(text.split())
