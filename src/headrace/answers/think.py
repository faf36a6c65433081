"""Think blocks: what a reasoning model says to itself, written into the content by servers that do not split it off."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)


def without_think(text: str) -> str | None:
    """The text outside its think blocks, trimmed; None where it has none. Linear.

    A block ends at the first closing tag. A closing tag without an opening one ends a block that began with the text
    (the opening tag stood in the prompt). A block that never ends is one only at the start: elsewhere the tag is a
    word that the text mentions.
    """
    if "<" not in text:
        return None
    kept: list[str] = []
    end = 0
    opened: int | None = None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if opened is None:
                opened = tag.start()
        else:
            if opened is None:
                kept.clear()
            else:
                kept.append(text[end:opened])
            end = tag.end()
            opened = None
    if opened is not None and not "".join(kept).strip() and not text[end:opened].strip():
        return ""
    if end == 0:
        return None
    return ("".join(kept) + text[end:]).strip()
