"""The JSON text of a stored answer."""

from __future__ import annotations

import orjson

from headrace import canon
from headrace.ledger.reader import as_text


def answer_json(answer: str | bytes | None, content: str | bytes | None) -> bytes:
    """The answer's JSON text; an answer that is the content itself is stored once, as content."""
    if answer is not None:
        return answer if isinstance(answer, bytes) else answer.encode()
    return written_out(content)


def written_out(content: str | bytes | None) -> bytes:
    """The JSON text of a string as it was stored."""
    return orjson.dumps(content) if isinstance(content, str) else canon.encode(as_text(content))
