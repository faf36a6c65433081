"""Text of others made harmless for a terminal: answers, inputs and messages of servers are hostile."""

from __future__ import annotations

import re

# C0 and C1 controls (escape sequences begin with one), the bidirectional overrides that reorder a line, line separators.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, limit: int | None = None) -> str:
    """One line that shows `text` and commands nothing: controls as escapes, at most `limit` characters."""
    shown = _HARMFUL.sub(_escaped, text if limit is None else text[: limit + 1])
    if limit is not None and len(shown) > limit:
        return shown[: max(limit - 1, 0)] + "…"
    return shown


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
