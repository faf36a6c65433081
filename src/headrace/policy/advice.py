"""What to write into the job file next time: rules over a run's figures. What the figures do not show is not said."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from headrace.policy.amounts import counted

LEAST = 50  # sends, or settled units: of fewer nothing but cut answers is said
OVERLOADED = 0.05  # of all sends
INVALID = 0.05  # of all sends
PAUSED = 0.1  # of the time
TAIL = 0.2  # of the time
TAIL_LEAST_S = 10  # of sampled time
QUEUED = 0.3  # of the time
ROOMY = 0.6  # of a KV cache: below it, it is not memory that keeps requests waiting
ALIKE = 0.2  # of all prompts
GROWN = 1.25  # times the tokens of the run before


class Symptoms(Struct, frozen=True, kw_only=True):
    """A run's figures as far as a rule asks for them. Shares are of 1; keys of the job are None where they are not set.

    `read_in_part`: answers to prompts that the server is suspected of having cut. `tail_share`: the part of the time at the
    end in which less than half as many were in flight as in the middle. `context` and `context_before`: mean tokens of prompt
    and answer together, in this run and in the one before of this job. `fixed`: the number in flight where the job keeps one.
    `queued_share`: the part of the time in which requests waited at the server beside a KV cache with room. `groupable`: the
    share of all prompts that repeats the beginning of another one and does not stand behind it, nor is the same in all;
    `common`: what is the same in all. `cached_share`: of all prompts, as served from the cache; None where servers do not say.
    """

    settled: int
    sent: int
    truncated: int = 0
    read_in_part: int = 0
    overloaded: int = 0
    invalid: int = 0
    seconds: int = 0
    paused_share: float = 0.0
    tail_share: float = 0.0
    queued_share: float = 0.0
    groupable: float = 0.0
    common: float = 0.0
    cached_share: float | None = None
    per_minute: float = 0.0
    context: float = 0.0
    context_before: float | None = None
    is_finished: bool = True
    is_schema_refused: bool = False
    fixed: int | None = None
    requests_per_minute: float | None = None  # of any endpoint
    endpoints: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    order: str = "auto"
    is_sliced: bool = False
    slice_changed: bool = False


class Advice(Struct, frozen=True):
    """`name` of the illness, why it is seen, and the line for the job file; `value` is TOML, None where no key mends it."""

    name: str
    reason: str
    key: str | None = None
    value: str | None = None

    @property
    def line(self) -> str | None:
        return None if self.key is None else f"{self.key} = {self.value}"

    def __str__(self) -> str:
        return self.reason if self.line is None else f"{self.reason}: {self.line}"


def advise(seen: Symptoms) -> list[Advice]:
    """What the figures call for, the costliest first."""
    found = [*_answers(seen)]
    if seen.sent >= LEAST:
        found += [*_load(seen), *_server(seen), *_time(seen)]
    return found


def _answers(seen: Symptoms) -> Iterator[Advice]:
    if seen.is_schema_refused:
        yield Advice(
            "schema_refused", "the server refused answer.schema, also in its strict form; leave out what it names"
        )  # fmt: skip
    if seen.read_in_part:
        yield Advice(
            "context", f"of {counted(seen.read_in_part, 'prompt')} the server seems to have read only a part: give it a larger "
            "context, or cut them by [slice]",
        )  # fmt: skip
    if seen.truncated:
        share = f" ({seen.truncated / seen.settled:.1%} of those settled)" if seen.settled >= LEAST else ""
        if seen.max_tokens is None:
            yield Advice("max_tokens", f"{_cut(seen.truncated)}{share}; raise model.max_tokens, or ask for less")
        else:
            reason = f"{_cut(seen.truncated)} at {seen.max_tokens:,} tokens{share}; raise it, or ask for less"
            yield Advice("max_tokens", reason, "model.max_tokens", str(2 * seen.max_tokens))
    if seen.sent >= LEAST and seen.invalid >= INVALID * seen.sent:
        reason = (
            f"{seen.invalid:,} of {seen.sent:,} sends ({seen.invalid / seen.sent:.1%}) were paid for and brought no usable answer"
        )
        if seen.temperature != 0:
            yield Advice("wasted", reason + "; answers vary less at", "model.temperature", "0")
        else:
            yield Advice("wasted", reason + "; `headrace failures` shows them, and the prompt has to rule them out")
    if seen.context_before and seen.context > GROWN * seen.context_before and seen.slice_changed:
        reason = (
            f"a request takes {seen.context:,.0f} tokens where the run before took {seen.context_before:,.0f}: its texts are cut "
            "or divided less; look at [slice]"
        )
        yield Advice("slicing", reason)


def _cut(count: int) -> str:
    return f"{counted(count, 'answer')} {'was' if count == 1 else 'were'} cut"


def _load(seen: Symptoms) -> Iterator[Advice]:
    share = seen.overloaded / seen.sent
    if share >= OVERLOADED and seen.fixed is not None:
        reason = (
            f"{share:.1%} of the sends were refused for overload or a rate limit, with {seen.fixed} in flight kept as written"
        )
        yield Advice("concurrency", reason, "endpoint.concurrency", '"auto"')
    elif seen.paused_share >= PAUSED and seen.overloaded and seen.requests_per_minute is None:
        who = "the endpoint" if seen.endpoints == 1 else "an endpoint"
        reason = f"{who} paused for {seen.paused_share:.0%} of the time, since it refused requests; even pacing needs no pauses"
        if seen.endpoints == 1:
            yield Advice("paused", reason, "endpoint.requests_per_minute", f"{max(1, round(seen.per_minute))}")
        else:
            yield Advice("paused", f"{reason}: requests_per_minute, at the one that refuses")


def _server(seen: Symptoms) -> Iterator[Advice]:
    if seen.queued_share >= QUEUED:
        yield Advice(
            "server_limit", f"for {seen.queued_share:.0%} of the time requests waited at the server while its KV cache had room: "
            "raise how many it works on at once (max-num-seqs, slots)",
        )  # fmt: skip
    missed = seen.groupable if seen.cached_share is None else seen.common + seen.groupable - seen.cached_share
    has_none = seen.cached_share == 0 and seen.common >= ALIKE  # else it had served at least what all begin with
    if seen.order in {"input", "longest"} and min(seen.groupable, missed) >= ALIKE and not has_none:
        reason = (
            f"{seen.groupable:.0%} of the prompts' text begins another prompt too, and is not asked beside it; brought together, "
            "a server's prefix cache saves that"
        )
        yield Advice("prefix_order", reason, "limits.order", '"auto"')


def _time(seen: Symptoms) -> Iterator[Advice]:
    if not seen.is_finished or seen.seconds < TAIL_LEAST_S or seen.tail_share < TAIL:
        return
    reason = f"for the last {seen.tail_share:.0%} of the time a few long requests were all that was left"
    if seen.order in {"input", "prefix"}:
        yield Advice("tail", reason, "limits.order", '"auto"')
    elif not seen.is_sliced:
        yield Advice("tail", f"{reason}; divide long texts: slice.split")
