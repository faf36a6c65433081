"""Holds what each server says of itself against the job, as it says it: what cannot work ends there, what may is a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from headrace.engine.reasons import Reasons
from headrace.engine.settling import Settled
from headrace.events import Warned
from headrace.policy.preflight import nearest, too_long, unlisted
from headrace.policy.truncation import tokens_of
from headrace.values import Answer, Capacity, Kind, Note, Outcome, Usage

if TYPE_CHECKING:
    from headrace.engine.lane import Lane
    from headrace.engine.live import LiveEngine

TOLD = "told "  # before an endpoint's number: the fact in the ledger that says what its server is
CAP = "input cap "  # the same, once it is suspected of cutting prompts: the number of tokens that it reads at most, if known


class Preflight:
    """Works beside the sending, for what only a look at the server shows. What is not told is no fault."""

    def __init__(self, engine: LiveEngine, reasons: Reasons) -> None:
        self._engine = engine
        self._reasons = reasons
        self._measured = (b"", 0.0)  # the longest payload that was looked at, and its tokens
        self._warned: set[int] = set()  # endpoints whose context is too small for the longest prompt
        self._suspected: set[int] = set()  # endpoints that seem to cut prompts

    def on_capacity(self, lane: Lane, capacity: Capacity) -> None:
        """What a server is has been told for the first time."""
        lane.told = capacity
        self._engine.committer.batch.meta[f"{TOLD}{lane.number}"] = msgspec.to_builtins(replace(capacity, models=()))
        self._engine.committer.added()
        if lane.model is None or lane.succeeded or lane.gone is not None:
            return
        found = unlisted(lane.model, capacity)
        if found is None:
            return
        if found.is_certain:
            self._reasons.on_useless(lane, Kind.MODEL_MISSING, found.message)
        else:
            self._engine.tell(Warned(f"{lane.endpoint.name}: {found.message}"))

    def on_first_reply(self, lane: Lane, settled: Outcome | Settled) -> None:
        """A first answer that was cut says what is to be expected of the others; before they go, they are measured."""
        attempt = settled.outcome.attempt if isinstance(settled, Settled) else None
        if attempt is not None and attempt.kind is Kind.TRUNCATED:
            self._engine.tell(Warned(f"{lane.endpoint.name}: the first answer is not usable: {attempt.message}"))
        self.look()

    def on_suspect(self, lane: Lane, settled: Outcome | Settled, usage: Usage) -> Outcome | Settled:
        """The server seems to have read only a part of a prompt: its answer is marked, and people are told once."""
        if lane.number not in self._suspected:
            self._suspected.add(lane.number)
            words = (
                f"it counted {usage.prompt or 0:,} tokens of a prompt that has more, and may have read only that part: such "
                "answers are marked input_truncation_suspected. A larger context of the server, or [slice], helps"
            )
            self._engine.tell(Warned(f"{lane.endpoint.name}: {words}"))
        self._engine.committer.batch.meta[f"{CAP}{lane.number}"] = lane.prompts.cap
        if isinstance(settled, Settled) or settled.answer is None:
            return settled
        answer: Answer = settled.answer
        return replace(settled, answer=replace(answer, notes=(*answer.notes, Note.INPUT_TRUNCATION_SUSPECTED)))

    def look(self) -> None:
        """Hold the longest prompt read so far against each server's context. Once a second, and when a first answer is there."""
        waiting = [
            lane for lane in self._engine.lanes.left
            if lane.told is not None and lane.told.context is not None and lane.number not in self._warned
        ]  # fmt: skip
        longest = self._engine.feed.longest
        if not waiting or not longest:
            return
        if longest is not self._measured[0]:
            self._measured = (longest, tokens_of(longest) or 0.0)
        for lane in waiting:
            assert lane.told is not None
            words = too_long(lane.told.context or 0, self._engine.knobs.max_tokens, self._measured[1])
            if words is not None:
                self._warned.add(lane.number)
                self._engine.tell(Warned(f"{lane.endpoint.name}: {words}"))

    def with_models(self, lane: Lane, message: str) -> str:
        """What a server says that does not know the model, and what it lists instead."""
        if lane.model is None or lane.told is None or lane.model in lane.told.models:
            return message
        return f"{message.rstrip('. ')}{nearest(lane.model, lane.told.models)}"
