"""`headrace probe --sweep` against simulated servers: bounded, honest about the knee, one line where it cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.app import invoke
from headrace.errors import EndpointError, SpecError
from headrace.runs.probing import Asking
from headrace.runs.sweep import Effort, Level, Swept, sweep
from headrace.testing.sim import Rule, SimOptions, SimServer


def swept(options: SimOptions, effort: Effort, model: str | None = "sim", cut_after_s: float | None = None) -> tuple[Swept, Any]:
    async def play() -> tuple[Swept, Any]:
        found = Swept()
        async with SimServer(options) as sim:
            try:
                async with asyncio.timeout(cut_after_s):
                    await sweep(Asking(sim.url, model), effort, {}, Path(), found)
            except TimeoutError:
                assert cut_after_s is not None
            return found, sim.stats

    return asyncio.run(play())


@pytest.mark.slow
def test_the_knee_of_a_server_with_four_slots_is_found() -> None:
    found, stats = swept(SimOptions(slots=4, latency_ms=100), Effort(most=64, output=8))
    assert found.knee == 4
    assert found.stopped == "more in flight bring no more"
    assert found.requests == stats.requests
    assert found.document()["levels"][0]["failed"] == 0


def test_the_requests_are_bounded() -> None:
    found, stats = swept(SimOptions(latency_ms=5), Effort(requests=14))
    assert stats.requests == found.requests == 13
    assert found.stopped == "--max-requests 14: 12 more are too many"
    assert found.knee is None


def test_the_time_is_bounded_and_what_is_whole_is_kept() -> None:
    found, stats = swept(SimOptions(latency_ms=5, script=(Rule(after=7, action="hang"),)), Effort(seconds=1.0))
    assert [level.concurrency for level in found.levels] == [1]
    assert found.stopped == "--max-seconds 1"
    assert stats.requests < 14


def test_a_sweep_that_is_cut_keeps_what_it_has() -> None:
    found, _ = swept(SimOptions(latency_ms=5, script=(Rule(after=7, action="hang"),)), Effort(), cut_after_s=1.0)
    assert [level.concurrency for level in found.levels] == [1]
    assert found.stopped == "interrupted"


def test_it_asks_no_more_of_a_server_that_turns_requests_away() -> None:
    found, _ = swept(SimOptions(latency_ms=20, max_in_flight=2), Effort())
    assert [level.concurrency for level in found.levels] == [1, 2, 4]
    assert "requests failed with 4 in flight" in found.stopped


def test_a_wrong_key_costs_one_request() -> None:
    async def play() -> int:
        async with SimServer(SimOptions(api_key="secret")) as sim:
            with pytest.raises(EndpointError, match="--api-key-env or --api-key-file names one"):
                await sweep(Asking(sim.url, "m"), Effort(), {}, Path(), Swept())
            return sim.stats.requests

    assert asyncio.run(play()) == 1


def test_without_a_model_there_is_nothing_to_ask() -> None:
    with pytest.raises(SpecError, match="--model names one"):
        swept(SimOptions(), Effort(), model=None)


@pytest.mark.parametrize("option", ["--max-concurrency", "--max-requests", "--max-seconds", "--prompt", "--output"])
def test_a_bad_value_is_exit_code_2(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["probe", "http://127.0.0.1:9/v1", "--sweep", option, "0"]) == 2
    assert option in capsys.readouterr().err


def test_a_document_says_what_was_seen() -> None:
    found = Swept([Level(1, 6, 0, 2.0, 20.0, 0.5, 0.6), Level(2, 6, 0, 2.0, None, None, None)], 13, "done")
    assert found.document() == {
        "levels": [
            {
                "concurrency": 1, "answered": 6, "failed": 0, "requests_per_minute": 120.0,
                "completion_tokens_per_second": 20.0, "latency_s": {"p50": 0.5, "p95": 0.6},
            },
            {
                "concurrency": 2, "answered": 6, "failed": 0, "requests_per_minute": 120.0,
                "completion_tokens_per_second": None, "latency_s": {"p50": None, "p95": None},
            },
        ],
        "knee": 1, "requests": 13, "stopped": "done",
    }  # fmt: skip
