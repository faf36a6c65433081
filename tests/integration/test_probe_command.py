"""`headrace probe` against simulated servers of each kind, over both transports."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.app import invoke
from headrace.endpoints.open import open_endpoint
from headrace.errors import EndpointError
from headrace.runs.probing import Asking, probe
from headrace.testing.contracts.endpoint import job
from headrace.testing.sim import Rule, SimOptions, SimServer
from headrace.values import Capacity, Gauges

TRANSPORTS = ("pyreqwest", "aiohttp")


def probed(options: SimOptions, environ: dict[str, str] | None = None, **asking: Any) -> tuple[dict[str, Any], SimServer]:
    async def play() -> tuple[dict[str, Any], SimServer]:
        async with SimServer(options) as sim:
            found = await probe(Asking(sim.url, **asking), environ or {}, Path())
            return found.document(), sim

    return asyncio.run(play())


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("style", "requests", "tokens"), [("vllm", None, 9000), ("sglang", 8, 9000), ("llama.cpp", 8, 32_768)])
def test_a_server_that_tells_is_not_asked_for_an_answer(style: str, requests: int | None, tokens: int, transport: str) -> None:
    options = SimOptions(style=style, slots=8, kv_tokens=9000, context=4096, model="m")
    document, sim = probed(options, {"HEADRACE_TRANSPORT": transport})
    assert (document["server"], document["models"], document["context"]) == (style, ["m"], 4096)
    assert (document["capacity"]["requests"], document["capacity"]["tokens"]) == (requests, tokens)
    assert (document["json_schema"], document["logprobs"], document["asked"]) == (True, True, [])
    assert {"running", "waiting"} <= set(document["gauges"])
    assert sim.stats.requests == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_gauges_are_read_over_the_wire(transport: str) -> None:
    async def play() -> tuple[Capacity | None, Gauges | None]:
        async with SimServer(SimOptions(style="vllm", kv_tokens=1600)) as sim:
            spec = job(url=sim.url)
            endpoint = open_endpoint(spec, 0, base=Path(), environ={"HEADRACE_TRANSPORT": transport})
            try:
                return await endpoint.capacity(), await endpoint.gauges()
            finally:
                await endpoint.close()

    capacity, gauges = asyncio.run(play())
    assert capacity is not None
    assert capacity.tokens == 1600
    assert gauges == Gauges(0, 0, 0, 0.0, 0, 0.0, 0.0)


def test_of_a_server_that_says_nothing_one_token_is_asked_for_each_feature() -> None:
    document, sim = probed(SimOptions())
    assert document == {
        "server": "unknown",
        "models": ["sim"],
        "context": None,
        "capacity": {"requests": None, "tokens": None, "from": None},
        "json_schema": True,
        "logprobs": True,
        "gauges": [],
        "asked": ["json_schema", "logprobs"],
    }
    assert sim.stats.requests == 2
    assert sim.stats.completion_tokens <= 2


def test_what_a_server_refuses_is_said() -> None:
    document, _ = probed(SimOptions(schema=False, logprobs=0, max_tokens_field="max_completion_tokens"))
    assert (document["json_schema"], document["logprobs"]) == (False, False)


def test_what_cannot_be_found_out_is_null() -> None:
    document, _ = probed(SimOptions(script=(Rule(status=429),)))
    assert (document["json_schema"], document["logprobs"]) == (None, None)


def test_a_server_that_lists_no_models_needs_a_name() -> None:
    async def play() -> list[dict[str, Any]]:
        async with SimServer(SimOptions(model="m")) as sim:
            there = sim.url.removesuffix("/v1") + "/v1"
            return [(await probe(Asking(there, model), {}, Path())).document() for model in (None, "m")]

    for document in asyncio.run(play()):
        assert document["json_schema"] is True


def test_a_wrong_key_ends_with_one_line() -> None:
    with pytest.raises(
        EndpointError, match=r"^http://127\.0\.0\.1:\d+/v1: HTTP 401 .*--api-key-env or --api-key-file names one$"
    ):
        probed(SimOptions(api_key="secret-key"))
    document, _ = probed(SimOptions(api_key="secret-key", style="llama.cpp", slots=2), {"K": "secret-key"}, api_key_env="K")
    assert document["capacity"]["requests"] == 2


def test_nobody_there_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["probe", "http://127.0.0.1:9/v1", "--json"]) == 4
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["kind"] == "endpoint"
    assert said.err == "headrace: http://127.0.0.1:9/v1: connection refused\n"


def test_an_address_that_is_none_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["probe", "local"]) == 2
    assert invoke(["probe", "ftp://x/v1"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_with_a_sweep_nothing_is_waited_for_longer_than_that_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    async def found(asking: Asking, *_: Any) -> None:
        asked.append(asking.seconds)
        raise EndpointError("nobody")

    monkeypatch.setattr("headrace.runs.probing.probe", found)
    for more in ([], ["--sweep"], ["--sweep", "--max-seconds", "5"]):
        assert invoke(["probe", "http://127.0.0.1:9/v1", *more]) == 4
    assert asked == [60.0, 60.0, 5.0]


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    async def play() -> None:
        async with SimServer(SimOptions(script=(Rule(action="hang"),))) as sim:
            await probe(Asking(sim.url, "m", seconds=1.0), {}, Path())

    with pytest.raises(EndpointError, match="no reply came within the limit"):
        asyncio.run(play())
