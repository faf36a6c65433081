"""What the requests of a reducing prompt add to an estimate: how many there are, and their tokens, by how long answers are."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from headrace.ledger.reader import LedgerReader
from headrace.policy import tokens
from headrace.policy.tokens import Span
from headrace.runs.expectation import Between, usually_added
from headrace.runs.lifecycle import Choice, Way
from headrace.runs.making import Making
from headrace.spec import JobSpec, ReduceSpec

UNTOLD = 256.0  # tokens of an answer of which nothing is known
_CHARACTERS = 4.0  # of a token, where split.size is in characters


class Joins(Struct, frozen=True):
    """Requests that join answers, the tokens of all their prompts, and those of one answer by which both are counted."""

    requests: int = 0
    prompt: Span = Span(0.0, 0.0, 0.0)
    answer: float = 0.0


def joins_of(spec: JobSpec, making: Making, choice: Choice, divided: Counter[int], answers: Between, asked: int) -> Joins:
    """`divided`: how many items have so many pieces; `answers` are those of `asked` pieces. Raises LedgerError."""
    dividing, split = making.dividing, spec.slice.split
    if not asked or dividing is None or dividing.reducing is None or split is None or not isinstance(split.join, ReduceSpec):
        return Joins()
    low, high = (None if figure is None else figure / asked for figure in (answers.low, answers.high))
    likely = answers.expected / asked if answers.expected is not None else high if high is not None else UNTOLD
    unit = 1.0 if dividing.reducing.size.in_tokens else _CHARACTERS
    is_chat = spec.model.route == "chat"
    written = [*([spec.prompt.system] if is_chat and spec.prompt.system else []), split.join.prompt]
    template = sum(map(tokens.estimate, written)) + usually_added(len(written) if is_chat else 0)
    requests, held = 0, 0
    for pieces, items in divided.items():
        levels = dividing.joins(pieces, likely * unit)
        requests += items * sum(levels)
        held += items * sum([pieces, *levels[:-1]] if levels else [])
    left = max(0, requests - _joined(choice))
    share = left / requests if requests else 0.0
    sizes = (likely if low is None else low, likely, likely if high is None else high)
    return Joins(left, Span(*(share * (held * size + requests * template) for size in sizes)), likely)


def _joined(choice: Choice) -> int:
    """Joining requests that the run which goes on has settled."""
    if choice.way is Way.NEW or choice.folder is None:
        return 0
    reader = LedgerReader(choice.folder.ledger)
    try:
        return int(reader.one("count_joined")[0])
    finally:
        reader.close()
