"""Notes as bits: the same order in the ledger and in `answer_notes`."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.values import Note

_BITS = {note: 1 << place for place, note in enumerate(Note)}


def to_bits(notes: Iterable[Note]) -> int:
    bits = 0
    for note in notes:
        bits |= _BITS[note]
    return bits


def from_bits(bits: int) -> list[str]:
    return [note.value for note, bit in _BITS.items() if bits & bit] if bits else []
