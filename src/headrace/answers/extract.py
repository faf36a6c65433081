"""Content text → one JSON value: parsed exactly, or taken out of a fence, from behind a think block, out of prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson
from msgspec import DecodeError, Struct
from msgspec.json import Decoder as JSONDecoder

from headrace.answers.think import without_think

MAX_DEPTH = 500  # every encoder and reader that an answer meets later can still hold it
MAX_FALSE_STARTS = 100  # brackets in prose that look like JSON and are not, before the search is given up
MAX_VALUES = 100  # equal values in prose
MAX_FENCES = 1000
NAMED_UP_TO = 100_000  # characters of a text in which the duplicate key is looked for, to name it

_BLANK = " \t\r\n\ufeff\xa0"
_decode = JSONDecoder().decode  # of the fast parsers the one that keeps integers beyond 64 bits
_ESCAPED_COLON = re.compile(r"(?<!\\)(?:\\\\)*\\u003[aA]")
# Possessive: a backtick at the end of a line of megabytes must not make the search try every way to divide the line.
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^\n`]*+$", re.MULTILINE)
_JSON_TAGS = frozenset({"", "json", "jsonc", "json5", "application/json"})
_ONE_LINE_TAG = re.compile(r"(?:json)?", re.IGNORECASE)
_START = re.compile(r"\{[ \t\r\n]*[\"}]|\[[ \t\r\n]*(?:[\[{\]\"\-0-9]|true|false|null)")


class Extracted(Struct, frozen=True):
    """A JSON value, its compact JSON text, and whether something around it had to be taken off."""

    value: Any
    text: str
    repaired: bool = False


class Fault(Struct, frozen=True):
    """Why there is no JSON value. The message may hold model output, not escaped yet.

    `final`: the text is JSON in form and refused for what it holds, so that nothing else is to be looked for in it.
    `blank`: there is nothing at all outside the think blocks.
    """

    message: str
    final: bool = False
    blank: bool = False


def parse(text: str) -> Extracted | Fault:
    """One JSON text, whole and exact. Never raises; linear in the text's length.

    Accepted beyond the standard: raw control characters in strings, lone surrogates. Integers keep all digits. Refused:
    NaN and infinities (a number that becomes one too), duplicate keys, trailing text, more than 500 levels.
    """
    try:
        value = _decode(text)
        compact = orjson.dumps(value)
    except (DecodeError, RecursionError, ValueError, TypeError):
        return _parse_slowly(text)  # it says what is wrong, or reads and writes what these two refuse
    if "\\" in text and "\\u003" in text:  # an escaped colon comes out as a plain one and would make up for a lost pair
        return _parse_slowly(text)
    # The compact text has as many colons as the one it was read from, unless a pair was lost: a duplicate key.
    if compact.count(b":") != text.count(":"):
        return _duplicate(text)
    return Extracted(value, compact.decode())


def extract(text: str, *, lenient: bool = False, strip_think: bool = True) -> Extracted | Fault:
    """The one JSON value of a reply. Never raises; linear in the text's length.

    Text that parses is never touched. Else one fence around the whole is taken off, then think blocks, then both;
    `lenient` also takes the one object or list out of prose (never out of a think block or a fence tagged as something
    else; two different values are a Fault). `repaired` marks a fence and prose, not a think block: that is how some
    models speak.
    """
    found = _parse_fenced(text)
    if isinstance(found, Extracted) or found.final:
        return found
    fault = found
    if strip_think or lenient:
        outside = without_think(text)
        if outside is not None:
            if not outside:
                return Fault("a think block and no answer after it", blank=True)
            text = outside
            found = _parse_fenced(text)
            if isinstance(found, Extracted):
                return found
            fault = found
        elif (peeled := _unfenced(text)) is not None and (inner := without_think(peeled)) is not None:
            found = parse(inner)
            if isinstance(found, Extracted):
                return _repaired(found)
    return _from_prose(text, fault) if lenient and not fault.final else fault


def _parse_fenced(text: str) -> Extracted | Fault:
    """Parse as it stands, else without one fence around the whole. The Fault is that of the text as it stands."""
    found = parse(text)
    if isinstance(found, Extracted):
        return found
    peeled = _unfenced(text)
    if peeled is None:
        return found
    inner = parse(peeled)
    if isinstance(inner, Extracted):
        return _repaired(inner)
    return inner if inner.final else found


def _repaired(found: Extracted) -> Extracted:
    return Extracted(found.value, found.text, repaired=True)


def _unfenced(text: str) -> str | None:
    """What stands inside one fence around the whole trimmed text; None where there is none."""
    text = text.strip(_BLANK)
    mark = text[:3]
    if mark not in ("```", "~~~") or len(text) < 6 or not text.endswith(mark):
        return None
    body = text.strip(mark[0])
    first, line_end, rest = body.partition("\n")
    if line_end and not first.lstrip().startswith(("{", "[", '"')):
        return rest
    return body[_ONE_LINE_TAG.match(body).end() :]  # type: ignore[union-attr]  # it matches the empty text too


def _parse_slowly(text: str) -> Extracted | Fault:
    """What the fast parsers refuse: the same rules with the standard library's parser."""
    try:
        value = _DECODER.decode(text)
        compact = compact_text(value)
    except RecursionError:
        return Fault("nested too deeply", final=True)
    except json.JSONDecodeError as error:
        return Fault(f"{error.msg} at character {error.pos + 1}" if text.strip() else "no text")
    except ValueError as error:  # NaN, an infinity, thousands of digits
        return Fault(str(error).partition(";")[0])
    if compact is None:
        return Fault("nested too deeply", final=True)
    escaped = len(_ESCAPED_COLON.findall(text)) if "\\u003" in text else 0
    if compact.count(":") != text.count(":") + escaped:
        return _duplicate(text)
    return Extracted(value, compact)


def compact_text(value: Any) -> str | None:
    """Compact JSON text; None for more than 500 levels. Raises ValueError for an infinity, which orjson writes as null."""
    try:
        compact = orjson.dumps(value)
        if b"null" not in compact:
            return compact.decode()
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, or deeper than orjson writes
        if isinstance(value, dict | list) and _is_too_deep(value):
            return None
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        contents = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for content in contents for part in content if part and isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _duplicate(text: str) -> Fault:
    """The fault of a text that has a duplicate key; the key is named unless the text is long."""
    try:
        if len(text) <= NAMED_UP_TO:
            json.loads(text, strict=False, object_pairs_hook=_distinct)
    except KeyError as error:
        return Fault(f"duplicate key {error.args[0]!r} in an object", final=True)
    return Fault("duplicate key in an object", final=True)


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise KeyError(name)
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _from_prose(text: str, fault: Fault) -> Extracted | Fault:
    """The one object or list in a text, however often it stands there; `fault` where there is none."""
    single: Extracted | None = None
    count = 0
    for segment in _segments(text):
        for found in _values(segment):
            if isinstance(found, Fault):
                return found
            count += 1
            if (single is not None and single.text != found.text) or count > MAX_VALUES:
                return Fault("more than one JSON value in the text")
            single = found
    return fault if single is None else _repaired(single)


def _values(segment: str) -> Iterator[Extracted | Fault]:
    """The objects and lists in prose, in order. A Fault is the last.

    After a false start the search goes on where the parser stopped: a part of something broken is no answer, and no
    character is read twice.
    """
    position = 0
    false_starts = 0
    while (start := _START.search(segment, position)) is not None:
        try:
            _, end = _DECODER.raw_decode(segment, start.start())
        except json.JSONDecodeError as error:
            false_starts += 1
            if false_starts > MAX_FALSE_STARTS:
                yield Fault("too many brackets in the text")
                return
            position = max(error.pos, start.start() + 1)
        except (RecursionError, ValueError):
            yield Fault("what looks like JSON in the text is none")
            return
        else:
            yield parse(segment[start.start() : end])
            position = end


def _segments(text: str) -> Iterator[str]:
    """The text cut at its fences, without the blocks that are tagged as something else than JSON."""
    start = 0
    fence: str | None = None
    wanted = True
    if "```" not in text and "~~~" not in text:
        yield text
        return
    for count, line in enumerate(_FENCE_LINE.finditer(text)):
        if count >= MAX_FENCES:
            return
        if fence is None:
            yield text[start : line.start()]
            fence = line[1]
            wanted = line[2].lower() in _JSON_TAGS
        elif line[1].startswith(fence) and not line[2]:
            if wanted:
                yield text[start : line.start()]
            fence = None
        else:
            continue
        start = line.end()
    if fence is None or wanted:
        yield text[start:]
