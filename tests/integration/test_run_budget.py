"""Runs over HTTP with prices and limits: what a server bills stays within them, and each attempt's use is booked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.events import Warned
from headrace.runs.pipeline import RunOptions
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
PRICES = {"input_per_million": 1.0, "output_per_million": 4.0, "cached_input_per_million": 0.25}
NO_PRICES = dict.fromkeys(PRICES)
BILLED = "1,4,0.25"  # the same, as the server is told them
ANSWER = 16  # tokens of an answer at most
CAPS = {"max_cost": 0.012, "max_total_tokens": 6_000, "max_requests": 70}


def put(mill: Any, limits: dict[str, Any], count: int = 200, **more: Any) -> None:
    mill.put_rows([{"id": n, "text": f"text {n} " + "word " * (n * 7 % 60)} for n in range(count)])
    sections = {"model": {"name": "sim", "max_tokens": ANSWER}, "answer": {"on_truncated": "keep"}, "prices": PRICES, **more}
    mill.put_job(URL, limits=limits, **sections)


def billed(done: Any) -> dict[str, float]:
    """What the server counted of each limit."""
    tokens = done.seen["tokens"]
    total = tokens["prompt"] + tokens["completion"]
    return {"max_cost": done.seen["bill"], "max_total_tokens": total, "max_requests": done.seen["requests"]}


def reply(content: str, prompt: int, completion: int, finish: str = "stop", **details: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, **details}
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": finish}], "usage": usage}


@pytest.mark.parametrize("concurrency", [1, 4, 16, 64, 256])
@pytest.mark.parametrize("limit", CAPS)
@pytest.mark.slow
def test_what_the_server_bills_stays_within_the_limit(mill, limit: str, concurrency: int):
    put(mill, {limit: CAPS[limit]}, endpoint={"concurrency": concurrency})
    stopped = mill.rehearse(prices=BILLED, latency_ms=5, jitter=0.5)
    assert (stopped.result.exit_code, stopped.result.reason) == (5, limit)
    assert 0.8 * CAPS[limit] < billed(stopped)[limit] <= CAPS[limit] * (1 + 1e-9)
    assert stopped.seen["in_flight"]["now"] == 0
    assert stopped.items == {"done": stopped.seen["requests"], "pending": 200 - stopped.seen["requests"]}
    assert stopped.result.status["cost"]["spent"] == pytest.approx(stopped.seen["bill"])
    assert [event.message.partition(":")[0] for event in stopped.events if isinstance(event, Warned)] == [f"limits.{limit}"]


@pytest.mark.slow
def test_raised_it_goes_on_to_the_end_and_pays_for_nothing_twice(mill):
    put(mill, {"max_cost": 0.004})
    first = mill.rehearse(prices=BILLED)
    second = mill.rehearse(prices=BILLED, overrides=["limits.max_cost=0.008"])
    third = mill.rehearse(prices=BILLED, overrides=["limits.max_cost=1"])
    assert [done.result.exit_code for done in (first, second, third)] == [5, 5, 0]
    assert first.seen["bill"] + second.seen["bill"] <= 0.008
    assert sum(done.seen["requests"] for done in (first, second, third)) == 200
    assert len(mill.runs) == 1
    assert third.result.status["cost"]["spent"] == pytest.approx(sum(done.seen["bill"] for done in (first, second, third)))


def test_the_same_limit_again_sends_nothing_and_says_why(mill):
    put(mill, {"max_requests": 5})
    mill.rehearse()
    again = mill.rehearse()
    assert (again.result.exit_code, again.result.reason, again.seen["requests"]) == (5, "max_requests", 0)
    assert again.result.status["message"].endswith("5 requests spent, and the next request is one more; raise the limit to go on")


def test_useful_wasted_and_unknown_are_told_apart(mill):
    mill.put_texts(4)
    mill.put_job(URL, prices=PRICES, endpoint={"concurrency": 1}, answer={"schema": {"type": "object"}})
    done = mill.rehearse(
        Rule(match="row 0.", body=reply("{}", 1000, 100)),
        Rule(match="row 1.", times=1, body=reply("no json", 1000, 200)),
        Rule(match="row 1.", body=reply("{}", 2000, 100)),
        Rule(match="row 2.", body=reply('{"a":', 1000, 400, "length")),
        Rule(match="row 3.", times=1, action="close"),
        Rule(match="row 3.", body=reply("{}", 1000, 100)),
    )
    assert done.items == {"done": 3, "quarantined": 1}
    status = done.result.status
    assert (status["tokens"]["wasted"], status["tokens"]["unknown_requests"]) == (1200 + 1400, 1)
    cost = status["cost"]
    assert cost["useful"] == pytest.approx((4000 * 1 + 300 * 4) / 1e6)
    assert cost["wasted"] == pytest.approx((2000 * 1 + 600 * 4) / 1e6)
    assert cost["spent"] == pytest.approx(cost["useful"] + cost["wasted"])
    assert not cost["known"]
    assert cost["at_most"] > cost["spent"]
    told = mill.command("status").out
    assert "2,600 wasted, and 1 request whose use is unknown" in told
    assert "at least 0.00960 USD, 0.00440 of it wasted; at most 0.5356 USD with what is not known" in told


def test_cached_and_reasoning_tokens_have_their_own_price(mill):
    mill.put_texts(1)
    mill.put_job(URL, prices={**PRICES, "reasoning_per_million": 10.0, "per_request": 0.5})
    details = {"prompt_tokens_details": {"cached_tokens": 400}, "completion_tokens_details": {"reasoning_tokens": 150}}
    done = mill.rehearse(Rule(body=reply("ok", 1000, 200, **details)))
    cost = done.result.status["cost"]
    assert cost["spent"] == pytest.approx(0.5 + (600 * 1 + 400 * 0.25 + 50 * 4 + 150 * 10) / 1e6)
    assert (cost["known"], cost["useful"], cost["wasted"]) == (True, cost["spent"], 0.0)


def test_refusals_by_status_cost_nothing(mill):
    put(mill, {"max_cost": 1.0}, count=20)
    done = mill.rehearse(prices=BILLED, fail_once_rate=0.5)
    assert done.items == {"done": 20}
    assert done.result.status["requests"]["retries"] > 0
    assert done.result.status["cost"]["known"]
    assert done.result.status["cost"]["spent"] == pytest.approx(done.seen["bill"])


def test_answers_taken_over_cost_nothing(mill):
    put(mill, {}, count=20)
    mill.rehearse(prices=BILLED)
    overrides = ["endpoint.identity='same'"]
    mill.rehearse(prices=BILLED, overrides=overrides, options=RunOptions(new=True))
    taken = mill.rehearse(
        prices=BILLED, overrides=[*overrides, "limits.max_cost=0.0001"], options=RunOptions(new=True, reuse="last")
    )
    assert (taken.result.exit_code, taken.seen["requests"]) == (0, 0)
    assert taken.result.status["cost"] == {
        "spent": 0.0, "currency": "USD", "known": True, "useful": 0.0, "wasted": 0.0, "at_most": 0.0,
    }  # fmt: skip


def test_without_prices_the_cost_is_unknown_and_never_nothing(mill):
    put(mill, {}, count=3, prices=NO_PRICES)
    mill.write("job.toml", (mill.folder / "job.toml").read_text().replace("[prices]\n", ""))
    done = mill.rehearse(prices=BILLED)
    cost = done.result.status["cost"]
    assert (cost["known"], cost["at_most"]) == (False, None)
    assert "cost       unknown" in mill.command("status").out


def test_a_servers_own_list_is_asked_for_once(mill):
    put(mill, {"max_cost": 1.0}, count=5, prices={**NO_PRICES, "file": "endpoint"})
    done = mill.rehearse(prices=BILLED, model="sim")
    assert done.result.exit_code == 0
    assert done.result.status["cost"]["spent"] == pytest.approx(done.seen["bill"])


def test_a_server_that_lists_nothing_just_now_does_not_keep_its_run_from_going_on(mill):
    put(mill, {"max_cost": 0.004}, prices={**NO_PRICES, "file": "endpoint"}, endpoint={"identity": "one server"})
    mill.rehearse(prices=BILLED, model="sim")
    raised = ["limits.max_cost=0.008"]
    locked = mill.rehearse(prices=BILLED, model="sim", api_key="another", overrides=raised)
    assert (locked.result.exit_code, locked.result.reason) == (4, "auth")
    told = [event.message for event in locked.events if isinstance(event, Warned)]
    assert told[0].endswith(
        "the endpoint answers with HTTP 401 where its list of models is asked for; what it said before is taken."
    )
    done = mill.rehearse(prices=BILLED, model="sim", overrides=raised)
    assert done.result.exit_code == 5
    assert 0.004 < done.result.status["cost"]["spent"] <= 0.008


def test_what_a_server_said_of_another_model_is_not_taken(mill):
    put(mill, {"max_cost": 0.004}, prices={**NO_PRICES, "file": "endpoint"}, endpoint={"identity": "one server"})
    mill.rehearse(prices=BILLED, model="sim")
    with pytest.raises(SpecError, match="the endpoint answers with HTTP 401 where its list"):
        mill.rehearse(prices=BILLED, api_key="another", overrides=["endpoint.model=sim-2"])


def test_max_cost_with_a_model_that_the_servers_list_has_not_is_refused(mill):
    put(mill, {"max_cost": 1.0}, count=5, prices={**NO_PRICES, "file": "endpoint"}, model={"name": "gpt-40"})
    with pytest.raises(
        SpecError, match=r"max_cost: the price of 'gpt-40' is not known: .*not in the endpoint's list .near: gpt-4o"
    ):
        mill.rehearse(prices=BILLED, model="gpt-4o")
    with pytest.raises(SpecError, match="the endpoint's list has no price for it"):
        mill.rehearse(model="gpt-40")
    assert not mill.runs


def test_a_file_in_the_public_layout_prices_a_run(mill):
    put(mill, {"max_cost": 1.0}, count=5, prices={**NO_PRICES, "file": "list.json"})
    mill.write("list.json", json.dumps({"sim": {"input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6}}))
    done = mill.rehearse(prices="1,4")
    assert done.result.status["cost"]["spent"] == pytest.approx(done.seen["bill"])


def test_each_answer_costs_what_it_did_when_it_came(mill):
    put(mill, {"max_requests": 10}, count=20)
    first = mill.rehearse(prices=BILLED)
    doubled = mill.rehearse(
        prices="2,8,0.5", overrides=["limits.max_requests=20", *(f"prices.{key}={2 * price}" for key, price in PRICES.items())]
    )
    assert doubled.result.exit_code == 0
    assert doubled.result.status["cost"]["spent"] == pytest.approx(first.seen["bill"] + doubled.seen["bill"])


def test_a_price_for_one_token_in_a_millions_place_is_said(mill):
    put(mill, {}, count=1, prices={**PRICES, "input_per_million": 1.5e-7})
    said = [event.message for event in mill.rehearse().events if isinstance(event, Warned)]
    assert said == [
        "prices.input_per_million = 1.5e-07 is the price of a million tokens; 0.15 is what it would be for one token's."
    ]


def test_the_next_command_knows_what_requests_take_as_long_as_it_asks_the_same(mill):
    """By bytes and what the server puts around them, not by what a chat template may add at most."""
    put(mill, {"max_cost": 0.004}, endpoint={"concurrency": 1, "identity": "one server"})
    mill.rehearse(prices=BILLED)
    raised = mill.rehearse(prices=BILLED, overrides=["limits.max_cost=0.0041"])
    assert raised.result.exit_code == 5
    assert raised.seen["requests"] > 0
    other = mill.rehearse(prices=BILLED, overrides=["limits.max_cost=0.0042", "endpoint.model=sim-2"])
    assert other.seen["requests"] == 0


def test_a_limit_on_tokens_counts_reasoning_that_stands_beside_the_answer(mill):
    put(mill, {"max_total_tokens": 4_000}, count=20, endpoint={"concurrency": 1}, model={"name": "sim", "max_tokens": 1_000})
    thinking = reply("yes", 50, 10, completion_tokens_details={"reasoning_tokens": 600})
    done = mill.rehearse(Rule(match="text", body=thinking))
    assert (done.result.exit_code, done.result.reason) == (5, "max_total_tokens")
    assert done.seen["requests"] == 5
    again = mill.rehearse(Rule(match="text", body=thinking))
    assert again.seen["requests"] == 0
