"""`headrace probe --sweep`: how much an endpoint delivers with so many in flight, in bounded requests and time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from headrace.endpoints.http import HttpEndpoint
from headrace.errors import EndpointError, SpecError
from headrace.policy.knee import is_flat, knee, levels
from headrace.runs.probing import Asking, opened, said_of, spec_of
from headrace.values import Failure, Kind, Reply, Request, Usage

_WAVES = 3  # requests at each level, for each in flight
_LEAST = 6  # requests at a level
_TROUBLE = 0.1  # of a level's requests failed: it takes no more
_MENDS = 5
_WORDS = (
    "river",
    "stone",
    "wheel",
    "water",
    "mill",
    "grain",
    "house",
    "light",
    "field",
    "north",
    "iron",
    "bread",
    "rope",
    "salt",
)


class Effort(Struct, frozen=True):
    """How far a sweep goes: the most in flight, all its requests and seconds, and each request's tokens."""

    most: int = 64
    requests: int = 500
    seconds: float = 120.0
    prompt: int = 200
    output: int = 64


class Level(Struct, frozen=True):
    """What came with so many in flight. `rate` is answers a second; tokens are of answers, None where no usage was told."""

    concurrency: int
    answered: int
    failed: int
    rate: float
    tokens_per_second: float | None
    p50: float | None
    p95: float | None


class Swept(Struct):
    """The levels so far, in the order in which they were tried, and why there are no more."""

    levels: list[Level] = []
    requests: int = 0
    stopped: str = "interrupted"

    @property
    def knee(self) -> int | None:
        return knee((level.concurrency, level.rate) for level in self.levels)

    def document(self) -> dict[str, Any]:
        """As `headrace probe --sweep --json` prints it, under `sweep`."""
        return {
            "levels": [
                {
                    "concurrency": level.concurrency,
                    "answered": level.answered,
                    "failed": level.failed,
                    "requests_per_minute": round(level.rate * 60, 2),
                    "completion_tokens_per_second": None
                    if level.tokens_per_second is None
                    else round(level.tokens_per_second, 1),
                    "latency_s": {"p50": level.p50, "p95": level.p95},
                }
                for level in self.levels
            ],
            "knee": self.knee,
            "requests": self.requests,
            "stopped": self.stopped,
        }


async def sweep(asking: Asking, effort: Effort, environ: Mapping[str, str], base: Path, swept: Swept) -> None:
    """Fill `swept` level by level; what stands in it is whole whenever this ends, also by being cancelled.

    The first request goes alone. Raises EndpointError where it is refused, and SpecError where no model is known to ask.
    """
    if asking.model is None:
        raise SpecError("probe --sweep: the endpoint lists no model; --model names one", key="--model")
    endpoint = opened(spec_of(asking, max_tokens=effort.output), environ, base)
    try:
        await _Sweep(endpoint, effort, swept).run()
    finally:
        await endpoint.close()


def _quantile(seconds: list[float], share: float) -> float | None:
    return round(sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))], 4) if seconds else None


class _Sweep:
    def __init__(self, endpoint: HttpEndpoint, effort: Effort, swept: Swept) -> None:
        self._endpoint = endpoint
        self._effort = effort
        self._swept = swept
        self._words = random.Random("sweep")
        self._salt = random.SystemRandom().getrandbits(32)  # a second sweep does not meet the first one's prefixes in a cache

    async def run(self) -> None:
        swept, loop = self._swept, asyncio.get_running_loop()
        until = loop.time() + self._effort.seconds
        first = await self._first()
        if isinstance(first, Failure):
            raise EndpointError(said_of(first, self._endpoint.name))
        for level in levels(self._effort.most):
            count = max(_LEAST, _WAVES * level)
            if swept.requests + count > self._effort.requests:
                swept.stopped = f"--max-requests {self._effort.requests}: {count} more are too many"
                return
            try:
                async with asyncio.timeout_at(until):
                    swept.levels.append(await self._level(level, count))
            except TimeoutError:
                swept.stopped = f"--max-seconds {self._effort.seconds:g}"
                return
            found = swept.levels[-1]
            if found.failed > _TROUBLE * (found.answered + found.failed):
                swept.stopped = f"{found.failed} of {count} requests failed with {level} in flight"
                return
            if is_flat([(one.concurrency, one.rate) for one in swept.levels]):
                swept.stopped = "more in flight bring no more"
                return
        swept.stopped = f"--max-concurrency {self._effort.most}"

    async def _first(self) -> Reply | Failure:
        """Alone, and again where only a field of ours was refused that is then written otherwise."""
        for _ in range(_MENDS):
            came = await self._send()
            if isinstance(came, Reply) or not came.mended:
                break
        return came

    async def _level(self, level: int, count: int) -> Level:
        loop = asyncio.get_running_loop()
        left, seconds, usages = count, list[float](), list[Usage]()
        failed, began_at = 0, loop.time()

        async def work() -> None:
            nonlocal left, failed
            while left > 0:
                left -= 1
                began = loop.time()
                came = await self._send()
                took = loop.time() - began
                if isinstance(came, Failure):
                    failed += 1
                    if came.kind in (Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.QUOTA):
                        left = 0  # it has been asked enough
                    continue
                seconds.append(took)
                if came.usage is not None:
                    usages.append(came.usage)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(level):
                tasks.create_task(work())
        # Whole waves: what a slow last one leaves idle counts, and what the first ones did not have to wait for is no gain.
        elapsed_s = max(loop.time() - began_at, 1e-6)
        told = [usage.completion for usage in usages if usage.completion is not None]
        return Level(
            level, len(seconds), failed, len(seconds) / elapsed_s,
            sum(told) / elapsed_s if told else None,
            _quantile(seconds, 0.5), _quantile(seconds, 0.95),
        )  # fmt: skip

    async def _send(self) -> Reply | Failure:
        number = self._swept.requests
        self._swept.requests += 1
        text = f"{self._salt}-{number} " + " ".join(self._words.choices(_WORDS, k=self._effort.prompt))
        payload = msgspec.json.encode([{"role": "user", "content": f"{text}\nTell a long story of these words."}])
        return await self._endpoint.send(
            Request(number, 0, payload, f"headrace-sweep-{self._salt}-{number}", max(1.0, self._effort.seconds))
        )
