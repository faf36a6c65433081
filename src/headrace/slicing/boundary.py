"""Where a text is best cut: at the end of a sentence, else of a word, never within what is shown as one character."""

from __future__ import annotations

import re
import unicodedata

_SHARE = 5  # a fifth of what is allowed is given up for a better place,
_MOST = 600  # so many characters at most
_LEAST = 20  # and where little is allowed, so many of it, up to a half
_CLUSTER = 64  # characters looked back over for the beginning of a cluster
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s)|[。！？．｡]+[”’」』）]*|[؟۔।]+(?=\s)|(?=\r\n)|(?<!\r)(?=\n)")
_WORD_END = re.compile(r"(?<=\S)(?=\s)")
_JOINER = "\u200d"


def cut_near(text: str, limit: int) -> int:
    """Where to end a text so that at most `limit` characters of it are left; `limit` lies within the text."""
    room = min(max(limit // _SHARE, min(_LEAST, limit // 2)), _MOST)
    base = limit - room
    area = text[base : limit + 1]
    for ends in (_SENTENCE_END, _WORD_END):
        found = [match.end() for match in ends.finditer(area) if 0 < match.end() <= room]
        if found:
            return base + found[-1]
    return whole_cluster(text, limit)


def whole_cluster(text: str, at: int) -> int:
    """The last place up to `at` that parts no grapheme cluster; `at` itself where none is near."""
    for place in range(at, max(at - _CLUSTER, 0), -1):
        if not _is_within(text, place):
            return place
    return at


def _is_within(text: str, at: int) -> bool:
    """Whether what stands around this place belongs together, by the rules of UAX 29 as far as characters tell them."""
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or unicodedata.category(after)[0] == "M":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True  # a skin tone, a tag
    if _is_regional(after) and _is_regional(before):  # two of them make a flag
        first = at - 1
        while first > 0 and at - first < _CLUSTER and _is_regional(text[first - 1]):
            first -= 1
        return (at - first) % 2 == 1
    return "\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\u11ff"  # the parts of a Hangul syllable


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
