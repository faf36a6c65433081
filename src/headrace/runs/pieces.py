"""From a record to the pieces of it that are asked: whole, or divided as `slice.split` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headrace.canon import UnitHasher
from headrace.errors import RecordError
from headrace.prompts.longest import Longest
from headrace.prompts.reduce import ReducePrompt
from headrace.prompts.render import PromptRenderer
from headrace.protocols import Judge
from headrace.slicing.divide import Divider
from headrace.slicing.join import levels
from headrace.slicing.measure import Measure
from headrace.values import Piece, Slice

NUMBERS = ("piece", "pieces")  # what a template may print of a piece's place
Slicer = Callable[[int, dict[str, Any]], Piece]


class Reducing(Struct, frozen=True):
    """The rules of `join = { prompt = "…" }`.

    What is joined are texts: the schema of `[answer]` is asked for and checked with the last answer alone. `judge` and `hasher`
    are for all the others.
    """

    prompt: ReducePrompt
    judge: Judge
    hasher: UnitHasher
    size: Measure


class Asked(NamedTuple):
    """What an item asks: its pieces, each with payload and hash, and what they hold of its divided fields."""

    pieces: list[Piece]
    payloads: list[bytes]
    hashes: list[bytes]
    slices: list[Slice]


class Dividing(Struct, frozen=True):
    """The rules of `slice.split`. `how` joins the answers: concat, list, vote or reduce."""

    divider: Divider
    renderer: PromptRenderer
    hasher: UnitHasher
    how: str
    longest: Longest | None = None
    reducing: Reducing | None = None

    def divide(self, whole: Piece) -> tuple[list[Piece], list[Slice]]:
        """The pieces of an item of which `whole` is what `truncate` leaves, and what they hold of its long fields.

        Raises RecordError for a record that is not to be asked: before any of its pieces is.
        """
        if self.longest is not None:
            self.longest.check(self.renderer.render(self._numbered(whole)))
        slices = self.divider(whole.item, whole.fields)
        pieces = self.pieces(whole, slices)
        if slices and self.reducing is not None:
            self._try_reducing(self.reducing.prompt, whole)
        return pieces, slices

    def _try_reducing(self, prompt: ReducePrompt, whole: Piece) -> None:
        """A record that the reducing prompt fails on is found out before its pieces are paid for."""
        try:
            prompt.render(whole.item, self.undivided(whole.fields), ["…", "…"], 1, last=True)
        except RecordError as error:
            raise RecordError(f"slice.split.join.prompt, which sees no divided field: {error}") from None

    def pieces(self, whole: Piece, slices: Sequence[Slice]) -> list[Piece]:
        """The pieces that slices make of an item; the whole where there are none."""
        if not slices:
            return [self._numbered(whole)]
        count = slices[-1].n + 1
        texts: list[dict[str, str]] = [{} for _ in range(count)]
        for part in slices:
            texts[part.n][part.field] = _text(whole, part.field)[part.start : part.stop]
        return [self._numbered(Piece(whole.item, n, {**whole.fields, **some}, whole.cut, count)) for n, some in enumerate(texts)]

    def undivided(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields that a reducing prompt may print."""
        long = self.divider.long_fields(fields)
        return {name: value for name, value in fields.items() if name not in long}

    def asked(self, whole: Piece, *, dedupe: bool) -> Asked:
        """All of it, or RecordError where a piece cannot be asked."""
        pieces, slices = self.divide(whole)
        payloads = [self.renderer.render(piece) for piece in pieces]
        salts = [salt_of(whole.item, piece.n, dedupe=dedupe) for piece in pieces]
        return Asked(pieces, payloads, list(map(self.hash, pieces, payloads, salts)), slices)

    def is_plain(self, piece: Piece) -> bool:
        """Whether the piece's answer is a text that a reducing prompt joins with others."""
        return self.reducing is not None and piece.of > 1

    def hash(self, piece: Piece, payload: bytes, salt: bytes) -> bytes:
        hasher = self.reducing.hasher if self.reducing is not None and piece.of > 1 else self.hasher
        return hasher(payload, salt)

    def joins(self, pieces: int, answer: float) -> list[int]:
        """How many requests join so many answers level by level, if each is `answer` long, in the unit of `split.size`."""
        return [] if self.reducing is None else levels(pieces, answer, self.reducing.size.limit)

    def _numbered(self, piece: Piece) -> Piece:
        """With its number, where the template prints that and the record has no field of the name."""
        read = self.renderer.fields
        values = {
            name: value
            for name, value in zip(NUMBERS, (piece.n + 1, piece.of), strict=True)
            if read is not None and name in read and name not in piece.fields
        }
        return replace(piece, fields={**piece.fields, **values}) if values else piece


def _text(whole: Piece, field: str) -> str:
    text = whole.fields.get(field)
    if not isinstance(text, str):
        raise RecordError(f"it has no text {field!r} any more")
    return text


def salt_of(item: int, n: int, *, dedupe: bool) -> bytes:
    """What keeps the requests of records apart that are each asked by themselves."""
    if dedupe:
        return b""
    return item.to_bytes(8, "big") + (n.to_bytes(4, "big") if n else b"")
