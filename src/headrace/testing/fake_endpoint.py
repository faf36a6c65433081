"""FakeEndpoint: an endpoint without a network, for tests of whatever sends requests."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from headrace import canon
from headrace.testing.batching import Batching, Job, Slots, batching_of
from headrace.testing.laws import Allowance, Fault, Laws, PrefixCache, fault, prefixes_of, service_s
from headrace.testing.load import Load
from headrace.testing.others import Others
from headrace.testing.replies import Drawn, Prompt, UnansweredError, draw
from headrace.values import Capacity, Failure, Gauges, Kind, Limit, Reply, Request, Sent, Usage

Script = Callable[[Request, int], Reply | Failure | None]
NEVER = math.inf


class FakeEndpoint:
    """Satisfies `headrace.protocols.Endpoint` by the same laws as `headrace sim`, on any event loop.

    It sleeps with asyncio.sleep, so on a VirtualLoop time costs nothing. Answers are drawn from the request's payload.

    `script(request, n)` comes before every law: what it returns is what this send gets (None: the laws decide); n counts
    the earlier sends of the same unit. `by_unit` and `fails_first` make the usual scripts. `outages` are windows
    (from, until, Failure) in seconds since the first send; a request that arrives in one, or whose answer falls into
    one, gets its Failure; an endpoint that never recovers is (t, NEVER, Failure). `schema` and `max_tokens` are what a
    job would send beside the payload. `request.timeout_s` is honoured: past it the send is a Failure of kind timeout and
    its slot is free again.

    Public counts: `requests_seen`, `in_flight`, `peak_in_flight`, `answered`, `sends_by_unit`, `sends_by_key` (by
    idempotency key), `failures` (by kind), `cancelled`, `prompt_tokens`, `completion_tokens`, `cached_tokens`,
    `gauges_asked`; `others` counts other people's requests, which the laws' `background` sends.
    """

    def __init__(
        self,
        laws: Laws | None = None,
        *,
        script: Script | None = None,
        outages: Sequence[tuple[float, float, Failure]] = (),
        schema: Any = None,
        max_tokens: int | None = None,
        name: str = "http://fake/v1",
    ) -> None:
        self._laws = laws or Laws()
        self._script = script
        self._outages = tuple(outages)
        self._schema = schema
        self._max_tokens = max_tokens
        self._name = name
        self.slots = Slots(lambda: self._scaled(self._laws.slots)) if self._laws.slots else None
        self.batching = batching_of(self._laws, self._scaled) if self._laws.kv_tokens else None
        self.others = Others(self._laws, self)
        self._load = Load(self._laws, self.slots, self.batching, self._scaled)
        self._requests = Allowance(self._laws.requests_per_minute)
        self._tokens = Allowance(self._laws.tokens_per_minute)
        self._unlimited = not (self._laws.requests_per_minute or self._laws.tokens_per_minute)
        self._cache = PrefixCache(self._laws.cache_blocks)
        self._came: Counter[bytes] = Counter()
        self._first: float | None = None
        self._tokens_in_flight = 0
        self.closed = False
        self.requests_seen = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self.answered = 0
        self.cancelled = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.gauges_asked = 0
        self.sends_by_unit: Counter[int] = Counter()
        self.sends_by_key: Counter[str] = Counter()
        self.failures: Counter[Kind] = Counter()

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return self._name

    async def close(self) -> None:
        self.closed = True

    async def capacity(self) -> Capacity | None:
        """As a server of the law's `style` says it now."""
        return self._load.capacity()

    async def gauges(self) -> Gauges | None:
        """As a server of the law's `style` says it now."""
        self.gauges_asked += 1
        return self._load.gauges(self.in_flight, self.prompt_tokens, self.cached_tokens)

    async def send(self, request: Request) -> Reply | Failure:
        """One send, as the protocol says: never raises but for cancellation."""
        nth = self.sends_by_unit[request.unit]
        self.requests_seen += 1
        self.sends_by_unit[request.unit] += 1
        self.sends_by_key[request.idempotency_key] += 1
        if self._first is None:
            self._first = asyncio.get_running_loop().time()
        self.others.start()
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            async with asyncio.timeout(request.timeout_s):
                result = await self._answer(request, nth)
        except TimeoutError:
            result = Failure(Kind.TIMEOUT, f"no reply within {request.timeout_s:g} s", Sent.MAYBE)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        if isinstance(result, Failure):
            self.failures[result.kind] += 1
        return result if self._unlimited else replace(result, limits=self._limits())

    def _limits(self) -> tuple[Limit, ...]:
        """The limits as `headrace sim` tells them in its headers."""
        now = asyncio.get_running_loop().time()
        return tuple(
            Limit(what, allowance.per_minute, max(0, int(allowance.remaining(now))), allowance.full_in_s(now))
            for what, allowance in (("requests", self._requests), ("tokens", self._tokens))
            if allowance.per_minute
        )

    async def _answer(self, request: Request, nth: int) -> Reply | Failure:
        try:
            prompt = prompt_of(request.payload)
        except ValueError as error:
            return Failure(Kind.BAD_REQUEST, str(error), status=400)
        came = self._came[prompt.key]
        self._came[prompt.key] += 1
        scripted = self._script(request, nth) if self._script is not None else None
        if scripted is not None:
            await asyncio.sleep(self._laws.latency_ms / 1000)
            return scripted
        try:
            drawn = draw(self._laws, prompt, self._schema, self._max_tokens)
        except UnansweredError as error:
            return Failure(Kind.BAD_REQUEST, str(error), status=400)
        refused = self._outage() or self._turned_away(prompt, drawn)
        if refused is not None:
            return refused
        chance = fault(self._laws, prompt.key, came)
        if chance is Fault.HANG:
            await asyncio.Event().wait()
        if chance is not None:
            await asyncio.sleep(self._laws.latency_ms / 1000)
            return self._failure(chance)
        return await self._served(prompt, drawn)

    async def _served(self, prompt: Prompt, drawn: Drawn) -> Reply | Failure:
        self._tokens_in_flight += prompt.tokens
        try:
            if self.batching is not None:
                cached = await self._batched(self.batching, prompt, drawn)
            elif self.slots is None:
                cached = await self._worked(prompt, drawn)
            else:
                seat = _Seat(self.slots)
                await seat.taken()
                try:
                    cached = await self._worked(prompt, drawn)
                finally:
                    self.slots.give_back()
        finally:
            self._tokens_in_flight -= prompt.tokens
        down = self._outage()
        if down is not None:
            return down
        self.answered += 1
        self.prompt_tokens += prompt.tokens
        self.cached_tokens += cached
        self.completion_tokens += drawn.tokens
        usage = Usage(prompt=prompt.tokens, completion=drawn.tokens, cached=cached)
        return Reply(drawn.content, finish=drawn.finish, usage=usage, model="fake")

    async def _worked(self, prompt: Prompt, drawn: Drawn) -> int:
        """The time of one answer; returns how many prompt tokens were cached."""
        prefixes = prefixes_of(prompt.text)
        cached = min(self._cache.cached_tokens(prefixes), prompt.tokens)
        prefill, decode = service_s(self._laws, prompt.key, fresh_tokens=prompt.tokens - cached, answer_tokens=drawn.tokens)
        await asyncio.sleep(prefill)
        self._cache.keep(prefixes)
        if decode:
            await asyncio.sleep(decode)
        return cached

    async def _batched(self, batching: Batching, prompt: Prompt, drawn: Drawn) -> int:
        """One answer out of the shared batch; returns how many prompt tokens were cached."""
        await asyncio.sleep(self._laws.latency_ms / 1000)
        prefixes = prefixes_of(prompt.text)
        cached = min(self._cache.cached_tokens(prefixes), prompt.tokens)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        job = Job(prompt.tokens, prompt.tokens - cached, drawn.tokens, lambda: self._cache.keep(prefixes), lambda: _tell(done))
        batching.enter(job)
        try:
            await done
        except asyncio.CancelledError:
            batching.leave(job)
            raise
        return cached

    def _scaled(self, bound: int) -> int:
        """A bound as the law of changing capacity has it now."""
        if not self._laws.capacity or self._first is None:
            return bound
        return self._laws.scaled(bound, asyncio.get_running_loop().time() - self._first)

    def _outage(self) -> Failure | None:
        assert self._first is not None
        now = asyncio.get_running_loop().time() - self._first
        return next((failure for start, end, failure in self._outages if start <= now < end), None)

    def _turned_away(self, prompt: Prompt, drawn: Drawn) -> Failure | None:
        laws = self._laws
        now = asyncio.get_running_loop().time()
        amount = prompt.tokens + drawn.tokens
        wait = max(self._requests.wait_s(now, 1), self._tokens.wait_s(now, amount))
        if wait:
            return Failure(
                Kind.RATE_LIMITED, "the limit per minute is reached", status=429, wait_s=laws.retry_after_s or min(wait, 3600)
            )
        most, most_tokens = self._scaled(laws.max_in_flight), self._scaled(laws.max_in_flight_tokens)
        if (most and self.in_flight > most) or (most_tokens and self._tokens_in_flight + prompt.tokens > most_tokens):
            kind = Kind.RATE_LIMITED if laws.overload_status == 429 else Kind.OVERLOADED
            return Failure(kind, "too many requests at once", status=laws.overload_status, wait_s=laws.retry_after_s)
        self._requests.take(now, 1)
        self._tokens.take(now, amount)
        return None

    def _failure(self, chance: Fault) -> Failure:
        if chance is Fault.RESET:
            return Failure(Kind.CONNECTION, "the connection was reset", Sent.MAYBE)
        if chance is Fault.OVERLOAD:
            return Failure(Kind.OVERLOADED, "the server is overloaded", status=503, wait_s=self._laws.retry_after_s)
        return Failure(Kind.SERVER_ERROR, "internal error", status=500)


class _Seat:
    """Waits for one of the slots."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._free: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def granted(self) -> None:
        _tell(self._free)

    async def taken(self) -> None:
        if self.slots.take(self):
            return
        try:
            await self._free
        except asyncio.CancelledError:
            if not self.slots.leave(self):
                self.slots.give_back()  # granted in the same moment
            raise


def _tell(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def by_unit(given: Mapping[int, Sequence[Reply | Failure | None]]) -> Script:
    """A script that gives each unit named its own results, send by send; afterwards the laws decide."""

    def script(request: Request, n: int) -> Reply | Failure | None:
        results = given.get(request.unit, ())
        return results[n] if n < len(results) else None

    return script


def fails_first(times: int, failure: Failure) -> Script:
    """A script in which each unit's first `times` sends end in this failure."""

    def script(_request: Request, n: int) -> Reply | Failure | None:
        return failure if n < times else None

    return script


def prompt_of(payload: bytes) -> Prompt:
    """The prompt of a payload: a messages array or a prompt string. Raises ValueError."""
    try:
        value = orjson.loads(payload)
    except ValueError:
        value = canon.decode(payload)
    return Prompt.of_text(value) if isinstance(value, str) else Prompt.of_messages(value)
