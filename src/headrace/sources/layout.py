"""What a .json file holds: an array, an object around one array, one record, or lines. Told from its beginning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import InputError, RecordError
from headrace.sources.blocks import BLOCK_BYTES, Blocks
from headrace.sources.brackets import end_of_first, nests
from headrace.sources.paths import shown
from headrace.sources.records import parse

_WHITE = b" \t\r\n"
_WRAPPED = re.compile(rb'\{[ \t\r\n]*+("(?:[^"\\]|\\.){0,200}+")[ \t\r\n]*+:[ \t\r\n]*+(?=\[)', re.DOTALL)
_HOLDS = "a .json file holds an array of objects, or one object"


class Layout(NamedTuple):
    """`start` is the offset of an array's bracket, `key` the only key of an object around the array."""

    kind: Literal["array", "record", "lines"]
    start: int = 0
    key: str | None = None


def layout_of(content: Blocks, longest: int, path: Path, block_bytes: int = BLOCK_BYTES) -> Layout:
    """How a file's content is to be read. Of an object at its beginning `longest` bytes are looked at.

    An object with one key whose value is an array stands for that array. One that does not end within `longest` bytes can
    be no record: it is taken for such an object by its first key. Any other object is one record, unless more objects
    follow, each on a line of its own. Raises InputError where the first byte is neither bracket, and where something else
    follows.
    """
    head, start, ended = _head(content, longest, block_bytes)
    if not head:
        raise InputError(f"input {shown(path)}: is empty; {_HOLDS}")
    if head[0] == 0x5B:
        return Layout("array", start)
    if head[0] != 0x7B:
        raise InputError(f"input {shown(path)}: begins with {head[:1].decode('latin-1')!a}; {_HOLDS}")
    wrapped = _WRAPPED.match(head)
    around = Layout("array", start + wrapped.end(), wrapped[1].decode("utf-8", "replace")) if wrapped is not None else None
    end = _value_end(head, 0)
    if end <= 0:
        if around is not None and end < 0 and not ended:
            return around
        # A record that is broken has no end; only the lines behind it can tell that it is one of many.
        return Layout("lines" if (end == 0 or ended) and _has_second_line(head) else "record")
    rest, begins_a_line = _rest(head[end:], content, block_bytes)
    if not rest:
        is_all = wrapped is not None and head[_value_end(head, wrapped.end()) : end].strip(_WHITE) == b"}"
        return around if around is not None and is_all else Layout("record")
    if b"\n" in head[:end] or not begins_a_line:
        raise InputError(
            f"input {shown(path)}: holds several JSON values, one behind another; put them into one array or each on a line"
        )
    return Layout("lines")


def _head(content: Blocks, longest: int, block_bytes: int) -> tuple[bytes, int, bool]:
    """The content from its first byte that is no white space, that byte's offset, and whether this is all.

    An object comes with over `longest` bytes, anything else with the first of them.
    """
    offset = 0
    while block := content.read(block_bytes):
        first = block.lstrip(_WHITE)
        offset += len(block) - len(first)
        if first:
            break
    else:
        return b"", offset, True
    parts, size = [first], len(first)
    while first[0] == 0x7B and size <= longest:
        block = content.read(block_bytes)
        if not block:
            return b"".join(parts), offset, True
        parts.append(block)
        size += len(block)
    return b"".join(parts), offset, False


def _rest(tail: bytes, content: Blocks, block_bytes: int) -> tuple[bytes, bool]:
    """What follows but for white space, as far as it was read, and whether a line ends before it."""
    begins_a_line = False
    while True:
        rest = tail.lstrip(_WHITE)
        begins_a_line = begins_a_line or b"\n" in tail[: len(tail) - len(rest)]
        if rest or not (tail := content.read(block_bytes)):
            return rest, begins_a_line


def _value_end(head: bytes, at: int) -> int:
    """The index behind the value that begins there, -1 where it goes on behind the head, 0 where its brackets do not match."""
    value = head[at:] if at else head
    end = end_of_first(value)
    return end if end < 0 else at + end if nests(value[:end]) else 0


def _has_second_line(head: bytes) -> bool:
    """Whether the second line is an object by itself, as in lines of which the first is broken."""
    lines = head.split(b"\n", 2)
    try:
        return len(lines) > 1 and bool(parse(lines[1]))
    except RecordError:
        return False
