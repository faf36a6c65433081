"""Work that a signal may end before an engine listens to signals."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from headrace.runs.signals import unless_signalled


async def value() -> int:
    return 5


async def never() -> int:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def test_work_that_nothing_ends_gives_its_value_and_leaves_the_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert asyncio.run(unless_signalled(value())) == (5, None)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_says_its_exit_code(number: signal.Signals, code: int) -> None:
    async def main() -> tuple[int | None, int | None]:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        return await unless_signalled(never())

    assert asyncio.run(main()) == (None, code)


def test_who_is_cancelled_otherwise_stays_cancelled() -> None:
    async def main() -> None:
        task = asyncio.ensure_future(unless_signalled(never()))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
