"""Notes as bits."""

from __future__ import annotations

from itertools import chain, combinations

from headrace.ledger.notes import from_bits, to_bits
from headrace.values import Note


def test_any_set_of_notes_comes_back_in_the_order_of_the_contract() -> None:
    for some in chain.from_iterable(combinations(Note, count) for count in range(len(Note) + 1)):
        assert from_bits(to_bits(reversed(some))) == [note.value for note in some]


def test_the_stored_bits_never_change() -> None:
    assert {note.value: to_bits([note]) for note in Note} == {
        "input_cut": 1,
        "output_cut": 2,
        "repaired": 4,
        "finish_unknown": 8,
        "usage_missing": 16,
        "input_truncation_suspected": 32,
    }
