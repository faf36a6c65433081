"""`slice.split`: long texts are divided into pieces, at the ends of paragraphs, sentences or words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from headrace.errors import SpecError
from headrace.slicing.boundary import whole_cluster
from headrace.slicing.gaps import gap_at
from headrace.slicing.measure import Measure
from headrace.spec import SplitSpec, amount
from headrace.values import Slice

_PIECES_AT_ONCE = 8
_CHARS_A_TOKEN = 4
_LONG_WHITE = re.compile(r"\s{65,}+")
_SURROGATE = re.compile("[\ud800-\udfff]")

Span = tuple[int, int]


class Divider:
    """Says where the pieces of a record begin and end. Pure: an equal record is always divided in the same way.

    `fields` names those that the template prints; None means every top-level field. Only top-level strings that are longer
    than `split.size` are divided. Of several such fields each piece has its part: the first piece the first of each, and those
    that come to an end before others are empty from there on. Raises SpecError where the library that finds the ends of
    sentences is not installed.
    """

    def __init__(self, split: SplitSpec, fields: frozenset[str] | None = None) -> None:
        self.size = Measure(split.size)
        self._overlap = amount(split.overlap)[1] if split.overlap is not None else 0
        self._names = None if fields is None else tuple(sorted(fields))
        self._splitter = self._open()

    def __call__(self, item: int, fields: dict[str, Any]) -> list[Slice]:
        """What each piece holds of each field that is divided, piece by piece; nothing where all fields fit."""
        long = self.long_fields(fields)
        spans = {name: list(self.spans(fields[name])) for name in long}
        count = max(map(len, spans.values()), default=0)
        slices = []
        for n in range(count):
            for name, found in spans.items():
                start, stop = found[n] if n < len(found) else (len(fields[name]),) * 2
                slices.append(Slice(item, n, name, start, stop, gap_at(fields[name], stop) if n < len(found) else 0))
        return slices

    def long_fields(self, fields: dict[str, Any]) -> list[str]:
        """The fields that are divided."""
        names = self._names if self._names is not None else tuple(fields)
        return [name for name in names if type(fields.get(name)) is str and not self.size.fits(fields[name])]

    def spans(self, text: str) -> Iterator[Span]:
        """Where each piece of a text begins and ends. Every character is in one; overlapping ones share some.

        The library looks at all that is left of a text for each piece, so it is shown a part after the other: what it finds
        last in a part is found again in the next.
        """
        shown_text = _showable(text)
        at, end = 0, 0
        room = _PIECES_AT_ONCE * self.size.limit * (_CHARS_A_TOKEN if self.size.in_tokens else 1)
        shown = room
        while end < len(text):
            found = self._found(text[at : at + shown], shown_text[at : at + shown])
            is_rest = at + shown >= len(text)
            if not is_rest and len(found) < 2:
                shown *= 2
                continue
            for start, stop in found if is_rest else found[:-1]:
                first, last = at + start, at + stop
                if last > end:
                    yield min(first, end), last
                    end = last
            if is_rest:
                break
            at, shown = max(at + 1, at + found[-1][0]), room
        if end < len(text):
            yield end, len(text)

    def _found(self, text: str, shown: str) -> list[Span]:
        """Where the library divides what it is shown, held against the text itself."""
        found = [(start, start + len(piece)) for start, piece in self._splitter.chunk_indices(shown)]
        whole = [(_whole(text, start), _whole(text, stop)) for start, stop in found]
        return [part for span in whole for part in self._fitting(text, *span)]

    def _fitting(self, text: str, start: int, stop: int) -> Iterator[Span]:
        """A piece, or its parts: the library takes a word of few characters and many tokens for one that cannot be cut."""
        while self._tokens(text[start:stop]) > self.size.limit and stop - start > 1:
            end = start + self.size.prefix(text[start:stop])
            end = max(whole_cluster(text, end), start + 1)
            yield start, end
            start = end
        if start < stop:
            yield start, stop

    def _open(self) -> Any:
        try:
            from semantic_text_splitter import TextSplitter  # noqa: PLC0415  an optional dependency
        except ImportError as error:
            raise SpecError(
                "slice.split needs semantic-text-splitter: pip install '.[split]'",
                key="slice.split",
                allowed="slice.truncate, or that package",
            ) from error
        limit = self.size.limit
        if self.size.in_tokens:
            return TextSplitter.from_callback(self._tokens, limit, overlap=self._overlap, trim=False)
        return TextSplitter(limit, overlap=self._overlap, trim=False)

    def _tokens(self, text: str) -> int:
        return math.ceil(self.size.of(text))


def _whole(text: str, at: int) -> int:
    """The end of a character near this place: within what the library is shown otherwise it cannot know of it."""
    return whole_cluster(text, at) if 0 < at < len(text) else at


def _showable(text: str) -> str:
    """The same text, character by character, for a library that knows no lone surrogates and is slow in long white space."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _SURROGATE.sub("\ufffd", text)
    return _LONG_WHITE.sub(lambda run: run[0][:32] + "x" * (len(run[0]) - 64) + run[0][-32:], text)
