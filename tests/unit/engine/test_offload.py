"""Short work runs inline; work that takes long goes to a thread until it is short again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.engine.offload import ShortOffload


def test_work_moves_to_the_thread_once_it_takes_long_and_back_when_it_is_short() -> None:
    times = iter([0.0, 0.001, 1.0, 1.1, 2.0, 2.003, 3.0, 3.001, 4.0, 4.001])

    async def main() -> list[bool]:
        offload = ShortOffload("test", timer=lambda: next(times))
        here = threading.get_ident()
        try:
            return [await offload(lambda: threading.get_ident() == here) for _ in range(5)]
        finally:
            offload.close()

    assert asyncio.run(main()) == [True, True, False, False, True]


def test_an_error_reaches_the_one_who_waits_and_not_the_one_who_calls() -> None:
    async def main() -> None:
        offload = ShortOffload("test")
        try:
            pending = offload(lambda: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                await pending
        finally:
            offload.close()

    asyncio.run(main())
