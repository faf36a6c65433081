"""The event loop of a command: uvloop where it exists."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:
    _NEW_LOOP = asyncio.new_event_loop
else:
    _NEW_LOOP = uvloop.new_event_loop

Result = TypeVar("Result")


def run_until_complete(work: Coroutine[Any, Any, Result]) -> Result:
    # What is loaded by now stays: the collector need not look at it again, and young objects mostly die young.
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    with asyncio.Runner(loop_factory=_NEW_LOOP) as runner:
        return runner.run(work)
