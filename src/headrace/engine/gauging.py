"""Follows what a server says of itself, off the hot path: what fails or hangs costs nothing but the knowledge."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.engine.lane import Lane
from headrace.values import Capacity, Gauges

if TYPE_CHECKING:
    from headrace.engine.live import LiveEngine

EVERY_S = 1.0
SOON_S = 0.25  # while each look allows twice as much
LONGEST_S = 30.0  # between two looks at a server that does not answer them
LIMIT_S = 10.0  # whatever an endpoint promises
MISSES = 5  # looks that came to nothing, after which what was known is not known any more


async def follow(engine: LiveEngine, lane: Lane) -> None:
    """Ask what the server is and holds, then, where that bounds anything, how it is loaded, about once a second.

    The first request waits for the first answer, as far as `Canary` lets it. Until cancelled.
    """
    if lane.canary is not None:
        lane.canary.on_look(asyncio.get_running_loop().time())
    wait_s = EVERY_S
    while (capacity := await _capacity(lane)) is None and lane.gone is None:
        _has_looked(engine, lane)
        await asyncio.sleep(wait_s)
        wait_s = EVERY_S if lane.succeeded else min(2 * wait_s, LONGEST_S)
    if capacity is None:
        return
    engine.preflight.on_capacity(lane, capacity)
    engine.feed.on_capacity(capacity)
    if lane.asks_for_gauges:
        lane.on_capacity(capacity)
        _apply(engine, lane)
    _has_looked(engine, lane)
    if lane.asks_for_gauges:
        await _follow_load(engine, lane, capacity)


def _has_looked(engine: LiveEngine, lane: Lane) -> None:
    if lane.canary is not None:
        lane.canary.on_looked()
        engine.dispatch()


async def _follow_load(engine: LiveEngine, lane: Lane, capacity: Capacity) -> None:
    misses = 0
    while capacity.gauges and lane.gone is None:
        is_reaching = lane.ceiling is not None and lane.ceiling.is_reaching
        await asyncio.sleep(SOON_S if is_reaching else min(EVERY_S * max(1, misses), LONGEST_S))
        gauges = await _gauges(lane)
        now = asyncio.get_running_loop().time()
        if gauges is None:
            misses += 1
            if misses == MISSES:
                lane.on_no_gauges()
                _apply(engine, lane)
            continue
        if misses:
            # It may have been started anew, as something else.
            misses = 0
            capacity = await _capacity(lane) or capacity
            lane.on_capacity(capacity)
        lane.on_gauges(gauges, now)
        _apply(engine, lane)


def _apply(engine: LiveEngine, lane: Lane) -> None:
    """What may be in flight has changed, perhaps: as many are kept ready, and sent."""
    if lane.window.limit != lane.limit_told:
        engine.on_window(lane)
    engine.dispatch()


async def _capacity(lane: Lane) -> Capacity | None:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await lane.endpoint.capacity()
    except TimeoutError:
        return None


async def _gauges(lane: Lane) -> Gauges | None:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await lane.endpoint.gauges()
    except TimeoutError:
        return None
