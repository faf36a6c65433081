"""What a server's prefix cache can serve of a job's prompts, by the order in which they come and by how the template stands."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headrace.policy import tokens
from headrace.policy.arrangement import LEVELS, sketch
from headrace.policy.prefixes import BLOCK
from headrace.spec import PromptSpec

_TAG = re.compile(r"\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
ALIKE = "alike"  # the ledger's name for how the prompts that were read begin alike, in bytes
LOOKED_AT = 100_000  # prompts: memory does not grow with the rest
WORTH_MOVING = 16.0  # tokens of a template that stand behind a record's text: less fills no block of a cache


class Savings(Struct, frozen=True):
    """Prompt tokens that need not be computed, of all requests together: with what all prompts begin alike, beyond that between
    neighbours in the input's order, and between all that are alike (which limits.order = "prefix" and "auto" bring together).

    `moved`: those that the template's own text behind the record would save if it stood before it.
    """

    common: int = 0
    input_order: int = 0
    prefix_order: int = 0
    moved: int = 0


class Beginnings:
    """A sketch of how each prompt begins: 8 bytes a request. `shared` bytes are the same in all payloads."""

    def __init__(self, shared: int) -> None:
        self._shared = shared
        self._start = shared // BLOCK * BLOCK
        self._sketches = array("Q")
        self.bytes = 0

    def add(self, payloads: Sequence[bytes]) -> None:
        start = self._start
        self._sketches.extend([sketch(payload, start) for payload in payloads])
        self.bytes += sum(map(len, payloads))

    def __len__(self) -> int:
        return len(self._sketches)

    def alike(self) -> dict[str, int]:
        """In bytes: of all prompts, what they all begin with, and beyond it what stands behind its like in the order of the input
        and in that of prefixes.
        """
        found = self.savings(1.0, 0.0)
        return {"bytes": self.bytes, "common": found.common, "input": found.input_order, "prefix": found.prefix_order}

    def savings(self, tokens_a_byte: float, trailing: float) -> Savings:
        """In tokens, of which a payload's byte is so many; the template has `trailing` of them behind the record's text."""
        count = len(self._sketches)
        if count < 2:
            return Savings()
        sketches = np.frombuffer(self._sketches, np.uint64)
        return Savings(
            common=round(self._shared * tokens_a_byte) * (count - 1),
            input_order=round(_alike(sketches) * tokens_a_byte),
            prefix_order=round(_alike(np.sort(sketches)) * tokens_a_byte),
            moved=round(trailing) * (count - 1) if trailing >= WORTH_MOVING else 0,
        )


def _alike(sketches: NDArray[np.uint64]) -> int:
    """Bytes with which prompts begin as the one before them, beyond what all share; as far as sketches can tell."""
    differ = sketches[1:] ^ sketches[:-1]
    alike, deeper = 0, np.ones(len(differ), bool)
    for level in range(LEVELS):
        shift = np.uint64(8 * (LEVELS - 1 - level))
        deeper = deeper & (differ >> shift == 0) & (sketches[1:] >> shift & np.uint64(255) != 0)
        alike += int(deeper.sum()) * (BLOCK << level - 1 if level else BLOCK)
    return alike


def trailing_tokens(prompt: PromptSpec) -> float:
    """Tokens of the template's own text that stand behind the first thing that a record changes."""
    found = 0.0
    is_behind = False
    for text in _texts(prompt):
        if "{%" in text:
            return 0.0  # what is there depends on the record
        first = _TAG.search(text)
        if is_behind:
            found += tokens.estimate(_TAG.sub(" ", text))
        elif first is not None:
            is_behind = True
            found += tokens.estimate(_TAG.sub(" ", text[first.end() :]).strip())
    return found


def _texts(prompt: PromptSpec) -> Iterator[str]:
    for message in prompt.messages or ():
        if isinstance(message.get("content"), str):
            yield message["content"]
    for text in (prompt.system, prompt.user, prompt.prompt):
        if text is not None:
            yield text
