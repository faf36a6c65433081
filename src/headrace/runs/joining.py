"""What the requests of a reducing prompt add to an estimate: how many there are, and their tokens, by how long answers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from headrace.ledger.reader import LedgerReader
from headrace.policy import tokens
from headrace.policy.tokens import Span
from headrace.runs.expectation import Load, completions_of, usually_added
from headrace.runs.lifecycle import Choice, Way
from headrace.runs.making import Making
from headrace.runs.pieces import Dividing
from headrace.spec import JobSpec, ReduceSpec

UNTOLD = 256.0  # tokens of an answer of which nothing is known
_CHARACTERS = 4.0  # of a token, where split.size is in characters


class Joins(Struct, frozen=True):
    """Requests that join answers, if these are as long as is likely, at the least and at the most; the tokens of all their
    prompts; and those of one answer that is likely.
    """

    requests: int = 0
    fewest: int = 0
    most: int = 0
    prompt: Span = Span(0.0, 0.0, 0.0)
    answer: float = 0.0


def joins_of(spec: JobSpec, making: Making, choice: Choice, divided: Counter[int], taught: Sequence[int]) -> Joins:
    """`divided`: how many items have so many pieces, of those whose answers are joined each by itself; `taught`: the tokens of
    earlier answers. Raises LedgerError.
    """
    dividing, split = making.dividing, spec.slice.split
    pieces = sum(count * items for count, items in divided.items() if count > 1)
    if (
        choice.way is Way.REPEAT
        or not pieces
        or dividing is None
        or dividing.reducing is None
        or split is None
        or not isinstance(split.join, ReduceSpec)
    ):
        return Joins()
    answers = completions_of(spec, taught, Load(pieces))
    low, high = (None if figure is None else figure / pieces for figure in (answers.low, answers.high))
    likely = answers.expected / pieces if answers.expected is not None else UNTOLD if high is None else min(UNTOLD, high)
    is_chat = spec.model.route == "chat"
    written = [*([spec.prompt.system] if is_chat and spec.prompt.system else []), split.join.prompt]
    template = sum(map(tokens.estimate, written)) + usually_added(len(written) if is_chat else 0)
    sizes = (likely if low is None else low, likely, likely if high is None else high)
    joined = _joined(choice)
    counts, prompts = zip(*(_counted(dividing, divided, size, template, joined) for size in sizes), strict=True)
    return Joins(counts[1], counts[0], counts[2], Span(*prompts), likely)


def _counted(dividing: Dividing, divided: Counter[int], size: float, template: float, joined: int) -> tuple[int, float]:
    """How many requests are left if each answer takes `size` tokens, and the tokens of their prompts."""
    assert dividing.reducing is not None
    unit = 1.0 if dividing.reducing.size.in_tokens else _CHARACTERS
    requests, held = 0, 0
    for pieces, items in divided.items():
        levels = dividing.joins(pieces, size * unit)
        requests += items * sum(levels)
        held += items * sum([pieces, *levels[:-1]] if levels else [])
    left = max(0, requests - joined)
    return left, (held * size + requests * template) * left / requests if requests else 0.0


def _joined(choice: Choice) -> int:
    """Joining requests that the run which goes on has settled."""
    if choice.way is Way.NEW or choice.folder is None:
        return 0
    reader = LedgerReader(choice.folder.ledger)
    try:
        return int(reader.one("count_joined")[0])
    finally:
        reader.close()
