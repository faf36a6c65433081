"""The event loop of a command: uvloop where it exists."""

from __future__ import annotations

import asyncio
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
    with asyncio.Runner(loop_factory=_NEW_LOOP) as runner:
        return runner.run(work)
