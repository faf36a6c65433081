"""Model output as it may stand in a message: on one line, escaped, short."""

from __future__ import annotations

MESSAGE_CHARS = 300


def excerpt(text: str, limit: int = MESSAGE_CHARS) -> str:
    """At most `limit` characters of a text; what is not printable (terminal codes, line ends, lone surrogates) is escaped."""
    cut = len(text) > limit
    text = text[:limit]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text[: limit - 1] + "…" if cut or len(text) > limit else text
