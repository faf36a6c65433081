"""How many tokens a text is likely to be: counted by neighbouring characters and scripts, without any tokenizer.

A text is looked at as UTF-8. Each byte has a class (a small letter, a digit, the first byte of a Chinese character, …), and
each pair of neighbours a weight, so that "a letter after a blank" begins a word and "a letter after a letter" goes on
with it. What a text takes is the sum over its pairs. Counts of pairs add up over texts and are weighed once.

The weights were fitted to the tokenizers of GPT-4 (cl100k), GPT-4o and later (o200k), Qwen 3.5, DeepSeek V3 and SmolLM2 over
English, eleven kinds of other Latin and non-Latin text, code, JSON, digits and marks; docs/how-to/estimate.md has how far off
they are. The three figures of a weight are for the tokenizer that needs the fewest tokens of such text, for the usual one of
today's large vocabularies, and for the one that needs the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Profile = NDArray[np.int64]
"""How often each pair of bytes stands in a text: `PAIRS` counts. Profiles add up."""


class Span(Struct, frozen=True):
    """A figure and the two between which it lies."""

    low: float
    expected: float
    high: float


# A byte's class. The second byte of a long character tells its script apart where the first does not.
_CLASSES: dict[str, tuple[tuple[int, int], ...]] = {
    "control": ((0x00, 0x1F), (0x7F, 0x7F)), "mark": ((0x21, 0x7E),), "lower": ((0x61, 0x7A),), "upper": ((0x41, 0x5A),),
    "digit": ((0x30, 0x39),), "blank": ((0x20, 0x20),), "newline": ((0x0A, 0x0A), (0x0D, 0x0D)), "tab": ((0x09, 0x09),),
    "80": ((0x80, 0x80),), "81": ((0x81, 0x83),), "84": ((0x84, 0x93),), "94": ((0x94, 0x96),), "97": ((0x97, 0xA3),),
    "A4": ((0xA4, 0xA5),), "A6": ((0xA6, 0xB7),), "B8": ((0xB8, 0xB9),), "BA": ((0xBA, 0xBB),), "BC": ((0xBC, 0xBF),),
    "C2": ((0xC0, 0xC2),), "C3": ((0xC3, 0xCB),), "CC": ((0xCC, 0xCF),), "D0": ((0xD0, 0xD3),), "D4": ((0xD4, 0xD7),),
    "D8": ((0xD8, 0xDB),), "DC": ((0xDC, 0xDF),), "E0": ((0xE0, 0xE0),), "E1": ((0xE1, 0xE1),), "E2": ((0xE2, 0xE2),),
    "E3": ((0xE3, 0xE3),), "E4": ((0xE4, 0xE9),), "EA": ((0xEA, 0xED),), "EE": ((0xEE, 0xEF),), "F0": ((0xF0, 0xFE),),
    "start": ((0xFF, 0xFF),),
}  # fmt: skip
_SAME = "same "  # before a class: the very byte before it once more

_LETTERS, _GAPS = "lower upper", "start blank newline tab mark control"
_SECOND = "80 81 84 94 97 A4 A6 B8 BA BC"
_ANY = " ".join(_CLASSES)  # what stands before "start" takes nothing

# What stands before, what follows it, and what that takes: (fewest, usual, most).
_WEIGHTS: tuple[tuple[str, str, tuple[float, float, float]], ...] = (
    # Latin letters: a word's first, those that follow, a capital within
    (_GAPS, "lower", (0.345, 0.371, 0.45)),
    ("lower", "lower", (0.105, 0.113, 0.16)),
    ("lower", "same lower", (0.05, 0.1, 0.15)),
    (_SECOND, "lower", (0.2, 0.215, 0.4)),
    ("upper", "lower", (0.31, 0.339, 0.42)),
    (_GAPS, "upper", (0.28, 0.297, 0.38)),
    ("lower", "upper", (0.55, 0.608, 0.72)),
    (f"upper {_SECOND}", "upper", (0.23, 0.254, 0.35)),
    ("upper", "same upper", (0.34, 0.455, 0.75)),
    # digits: some vocabularies hold three in one, some take each by itself
    (f"{_GAPS} {_SECOND}", "digit", (1.2, 1.437, 1.6)),
    (_LETTERS, "digit", (0.85, 1.01, 1.5)),
    ("digit", _LETTERS, (0.9, 1.423, 1.6)),
    ("digit", "digit", (0.2, 0.334, 0.92)),
    ("digit", "same digit", (0.45, 0.678, 1.3)),
    # blanks and line ends: one blank belongs to the word that follows; many are one token
    (f"start {_LETTERS} digit mark newline control {_SECOND}", "blank", (0.2, 0.288, 0.37)),
    ("blank tab", "blank", (0.01, 0.016, 0.03)),
    (f"start {_LETTERS} digit mark blank tab control {_SECOND}", "newline", (1.0, 1.247, 1.5)),
    ("newline", "newline", (0.2, 0.3, 0.5)),
    ("newline", "same newline", (0.1, 0.188, 0.5)),
    (f"start {_LETTERS} digit mark blank newline control {_SECOND}", "tab", (1.1, 1.293, 1.4)),
    ("tab", "same tab", (0.02, 0.071, 0.1)),
    # marks, of prose and of code; the same one many times is one token
    (f"start {_LETTERS} digit blank newline tab control {_SECOND}", "mark", (0.6, 0.658, 0.8)),
    ("mark", "mark", (0.62, 0.677, 0.8)),
    ("mark", "same mark", (0.005, 0.009, 0.02)),
    (_ANY, "control", (0.5, 1.0, 1.0)),
    # scripts, by the first bytes of a character
    ("C2", _SECOND, (1.5, 2.552, 3.1)),
    ("C3", _SECOND, (1.1, 1.518, 2.5)),
    ("CC", _SECOND, (0.36, 0.516, 1.0)),
    (_GAPS, "D0", (0.65, 0.864, 1.9)),
    ("D0", _SECOND, (0.14, 0.177, 0.42)),
    ("D4", _SECOND, (0.4, 0.644, 1.5)),
    (_GAPS, "D8", (0.41, 0.521, 1.1)),
    ("D8", _SECOND, (0.21, 0.302, 0.82)),
    ("DC", _SECOND, (0.5, 1.0, 2.0)),
    ("E0", "A4", (0.32, 0.678, 1.35)),
    ("E0", "B8", (0.35, 0.491, 1.95)),
    ("E0", "80 81 84 94 97 A6 BA BC", (0.37, 0.807, 2.5)),
    ("E1", "B8 BA", (0.15, 0.25, 0.8)),
    ("E1", "80 81 84 94 97 A4 A6 BC", (0.42, 0.916, 2.2)),
    ("E2", "80 81", (1.2, 1.334, 1.5)),
    ("E2", "94", (1.35, 1.509, 1.8)),
    ("E2", "84 97 A4 A6 B8 BA BC", (0.6, 0.9, 1.4)),
    (_GAPS, "E3", (0.65, 0.77, 1.6)),
    ("E3", "80 81", (0.4, 0.599, 1.7)),
    ("E3", "84 94 97 A4 A6 B8 BA BC", (0.5, 0.678, 1.65)),
    (_GAPS, "E4", (0.65, 0.765, 1.5)),
    ("E4", _SECOND, (0.5, 0.678, 1.65)),
    (_GAPS, "EA", (0.0, 0.05, 0.2)),
    ("EA", _SECOND, (0.53, 0.67, 2.5)),
    ("EE", _SECOND, (1.15, 1.368, 1.9)),
    ("F0", _SECOND, (1.6, 2.226, 3.1)),
)

PAIRS = 1 << 16
_PART = 1 << 18  # bytes looked at in one go
_START = b"\xff"  # a byte that no UTF-8 holds: where a text begins


@cache
def _table() -> NDArray[np.float64]:
    """Three rows, of the fewest, the usual and the most; a column for each pair of bytes, the first one's value the lower."""
    numbers = {name: number for number, name in enumerate(_CLASSES)}
    class_of = np.zeros(256, np.int64)
    for number, ranges in enumerate(_CLASSES.values()):
        for start, end in ranges:
            class_of[start : end + 1] = number
    weights = np.zeros((3, 2, len(numbers), len(numbers)))  # the second: is it the same byte
    for before, after, figures in _WEIGHTS:
        repeats = (1,) if after.startswith(_SAME) else (0, 1)
        for one, other, repeat in product(before.split(), after.removeprefix(_SAME).split(), repeats):
            weights[:, repeat, numbers[one], numbers[other]] = figures
    second, first = np.divmod(np.arange(PAIRS), 256)
    return weights[:, (first == second).astype(np.int64), class_of[first], class_of[second]]


@cache
def _usual() -> NDArray[np.float32]:
    weights: NDArray[np.float32] = _table()[1].astype(np.float32)
    return weights


def profile(text: str | bytes) -> Profile:
    """Count the pairs of a text, or of one that is UTF-8 already. Linear, and every text has one: nothing raises."""
    counts = np.zeros(PAIRS, np.int64)
    for pairs in _parts(text):
        counts += np.bincount(pairs, minlength=PAIRS)
    return counts


def joined(texts: Iterable[str]) -> bytes:
    """Several texts as one to be counted: what stands between them takes nothing."""
    return _START.join([text.encode("utf-8", "surrogatepass") for text in texts])


def weigh(counts: Profile) -> Span:
    """The tokens of what was counted."""
    low, expected, high = (_table() @ counts).tolist()
    return Span(low, expected, high)


def estimate(text: str | bytes) -> float:
    """The tokens of a text, as a usual tokenizer of today has them; above 0 for every text that is not empty."""
    weights = _usual()
    return sum((float(weights.take(pairs).sum()) for pairs in _parts(text)), 0.0)


def span(text: str | bytes) -> Span:
    """The same, with what the tokenizers with the largest and the smallest need of it."""
    table = _table()
    low, expected, high = sum((table.take(pairs, axis=1).sum(axis=1) for pairs in _parts(text)), np.zeros(3)).tolist()
    return Span(low, expected, high)


def _parts(text: str | bytes) -> Iterator[NDArray[np.uint16]]:
    """Each byte with the one before it, as one number."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    raw = _START + raw
    for start in range(0, len(raw) - 1, _PART):
        size = min(_PART, len(raw) - 1 - start)
        yield np.ndarray((size,), "<u2", raw, start, (1,))  # a pair begins at every byte
