"""The prices that a job names: read, refused in one line, or not known for a reason; and what a request may take at most."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.policy.budget import TEMPLATE_TOKENS, UNTOLD_ANSWER
from headrace.policy.price import Prices
from headrace.runs.costs import find_costs, insist_on_prices, read_recorded, recorded, refuse_unpriced
from headrace.runs.jobfile import job_from_dict
from headrace.runs.prices import Found, in_own_list, most_of, prices_of

LIST = "prices.json"
ENTRY = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
JOB: dict[str, Any] = {
    "input": {"path": "in.jsonl"},
    "prompt": {"user": "{{ text }}"},
    "model": {"name": "m"},
    "endpoint": {"url": "http://127.0.0.1:9/v1"},
    "output": {"path": "out.jsonl"},
}


def job(base: Path, **sections: Any) -> Any:
    value = copy.deepcopy(JOB)
    for name, section in sections.items():
        value[name] = {**value.get(name, {}), **section} if isinstance(section, dict) else section
    return job_from_dict(value, base)


def put_list(base: Path, table: Any) -> None:
    (base / LIST).write_text(table if isinstance(table, str) else json.dumps(table), encoding="utf-8")


def test_prices_per_million_and_one_s_own_machine(tmp_path: Path) -> None:
    written = {"input_per_million": 0.15, "output_per_million": 0.6, "cached_input_per_million": 0.075}
    assert prices_of(job(tmp_path, prices=written).spec, tmp_path) == [Found(Prices(1.5e-07, 6e-07, 7.5e-08))]
    (own,) = prices_of(job(tmp_path, prices={"gpu_hour": 2, "tokens_per_second": 2500}).spec, tmp_path)
    assert own.prices.input == own.prices.output == pytest.approx(0.2222e-6, rel=1e-3)


def test_every_endpoint_has_the_price_of_its_own_model(tmp_path: Path) -> None:
    put_list(tmp_path, {"m": ENTRY, "big": {"input_cost_per_token": 5e-6, "output_cost_per_token": 6e-6}})
    urls = [{"url": "http://127.0.0.1:9/v1"}, {"url": "http://127.0.0.1:8/v1", "model": "big"}]
    found = prices_of(job(tmp_path, endpoint=urls, prices={"file": LIST}).spec, tmp_path)
    assert [one.prices.input for one in found] == [1e-6, 5e-6]


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({}, "prices: found none of them; allowed: prices per million"),
        ({"input_per_million": 1}, "prices.output_per_million is missing beside input_per_million; write 0 where it is free"),
        ({"gpu_hour": 1}, "prices.tokens_per_second is missing beside gpu_hour; what the server delivers in a second"),
        ({"tokens_per_second": 1}, "prices.gpu_hour is missing beside tokens_per_second; what one GPU costs for an hour"),
        ({"gpu_hour": 1, "file": LIST}, "prices: found gpu_hour and file"),
        ({"model": "x"}, "prices: found none of them"),
        ({"input_per_million": 1, "output_per_million": 1, "model": "x"}, "prices.model: names an entry of a list"),
        ({"input_per_million": -1, "output_per_million": 1}, "prices.input_per_million: found -1; allowed: 0.0 or more"),
        ({"input_per_million": float("nan"), "output_per_million": 1}, "prices.input_per_million: found nan"),
        (
            {"input_per_million": 1, "output_per_million": 1e300},
            "prices.output_per_million: found 1e+300; allowed: 100000.0 or less",
        ),
        ({"input_per_million": "2", "output_per_million": 1}, "prices.input_per_million: found '2'; allowed: a number"),
        ({"input_per_million": True, "output_per_million": 1}, "prices.input_per_million: found true"),
        ({"input_per_million": 1, "currency": "EUR"}, "unknown key `currency` in `prices`"),
        ({"gpu_hour": 1, "tokens_per_second": 0}, "prices.tokens_per_second: found 0; allowed: more than 0"),
        ({"gpu_hour": 1, "tokens_per_second": 1e-300}, "prices.tokens_per_second: makes 2.77778e+302 USD for a million tokens"),
        ({"gpu_hour": 1, "tokens_per_second": 1, "gpus": 0}, "prices.gpus: found 0; allowed: 1 or more"),
        ({"file": ""}, "prices.file: found ''"),
    ],
)
def test_bad_prices_are_refused_in_one_line(tmp_path: Path, prices: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        job(tmp_path, prices=prices)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_cost": 0}, "limits.max_cost: found 0; allowed: more than 0"),
        ({"max_cost": -2.5}, "limits.max_cost: found -2.5"),
        ({"max_cost": float("inf")}, "limits.max_cost: found inf"),
        ({"max_cost": "20 USD"}, "limits.max_cost: found '20 USD'; allowed: a number"),
        ({"max_requests": 0}, "limits.max_requests: found 0; allowed: 1 or more"),
        ({"max_total_tokens": 1.5}, "limits.max_total_tokens: found 1.5; allowed: a whole number"),
        ({"max_total_tokens": 10**20}, "limits.max_total_tokens: found"),
    ],
)
def test_bad_limits_are_refused_in_one_line(tmp_path: Path, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        job(tmp_path, limits=limits)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("{", "not valid JSON"),
        ([], "no price list in LiteLLM's layout"),
        ({"m": {"cost": {"input": 1}}}, "no price list in LiteLLM's layout"),
    ],
)
def test_a_file_of_another_layout_is_refused(tmp_path: Path, table: Any, words: str) -> None:
    put_list(tmp_path, table)
    with pytest.raises(SpecError, match=rf"prices\.file: .*{words}"):
        prices_of(job(tmp_path, prices={"file": LIST}).spec, tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"prices\.file: .*no such file"):
        prices_of(job(tmp_path, prices={"file": "nope.json"}).spec, tmp_path)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"x/m": ENTRY, "mm": ENTRY}, "'m' is not in 'prices.json' (near: x/m; prices.model names one)"),
        ({"other": ENTRY}, "'m' is not in 'prices.json'"),
        ({"m": {"input_cost_per_token": 1e-6}}, "'prices.json' has no price for it"),
        ({"m": {"input_cost_per_token": -1, "output_cost_per_token": 1}}, "has 1 USD for one token, as if it meant a million"),
        ({"m": {"input_cost_per_token": 2.5, "output_cost_per_token": 10}}, "has 10 USD for one token, as if it meant a million"),
    ],
)
def test_why_a_list_knows_no_price_is_said_and_max_cost_insists(tmp_path: Path, table: Any, why: str) -> None:
    put_list(tmp_path, table)
    made = job(tmp_path, prices={"file": LIST}, limits={"max_cost": 1})
    (found,) = prices_of(made.spec, tmp_path)
    assert not found.prices.known
    assert found.why is not None
    assert why in found.why
    with pytest.raises(SpecError, match=r"limits\.max_cost: the price of 'm' is not known: .*; write prices\.input_per_million"):
        refuse_unpriced(made)
    refuse_unpriced(job(tmp_path, prices={"file": LIST}))  # without the limit it is only not known


def test_which_of_several_endpoints_has_no_price_is_said(tmp_path: Path) -> None:
    put_list(tmp_path, {"m": ENTRY})
    urls = [{"url": "http://127.0.0.1:9/v1"}, {"url": "http://127.0.0.1:8/v1", "model": "other"}]
    made = job(tmp_path, endpoint=urls, prices={"file": LIST}, limits={"max_cost": 1})
    with pytest.raises(SpecError, match=r"the price of 'other' at endpoint\[1\] is not known"):
        insist_on_prices(made.spec, prices_of(made.spec, tmp_path))


def test_an_endpoints_own_list(tmp_path: Path) -> None:
    spec = job(tmp_path, prices="endpoint").spec
    endpoint = spec.endpoint[0]
    priced = {"id": "m", "pricing": {"prompt": "0.000001", "completion": "0.000002"}}
    assert in_own_list(spec, endpoint, [priced]) == Found(Prices(1e-6, 2e-6))
    assert in_own_list(spec, endpoint, "it is away").why == "it is away"
    assert in_own_list(spec, endpoint, "it is away", Prices(1e-6, 2e-6)) == Found(
        Prices(1e-6, 2e-6), "it is away; what it said before is taken"
    )
    assert not in_own_list(spec, endpoint, [{"id": "m"}], Prices(1e-6, 2e-6)).prices.known  # it says now that there is none
    assert in_own_list(spec, endpoint, [{"id": "m"}]).why == "the endpoint's list has no price for it"
    far = in_own_list(spec, endpoint, [{"id": "a/m\n\x1b[31m"}, {"id": "a/m"}, 7]).why
    assert far is not None
    assert far.isprintable()
    assert in_own_list(spec, endpoint, [{"id": "m", "pricing": {"prompt": "1", "completion": "2"}}]).prices == Prices()


@pytest.mark.parametrize(
    "part",
    [
        {"cache_read_input_token_cost": 1e308}, {"cache_creation_input_token_cost": 1e308},
        {"output_cost_per_reasoning_token": 3.0}, {"input_cost_per_token_above_1k_tokens": 2.5},
        {"tiered_pricing": [{"range": [5, 9], "output_cost_per_token": 1e308}]}, {"input_cost_per_request": 1e300},
    ],
)  # fmt: skip
def test_no_part_of_a_price_is_believed_that_can_only_be_a_slip(tmp_path: Path, part: dict[str, Any]) -> None:
    put_list(tmp_path, {"m": {**ENTRY, **part}})
    made = job(tmp_path, prices={"file": LIST}, limits={"max_cost": 1})
    with pytest.raises(SpecError, match=r"the price of 'm' is not known: '.*' has [0-9.e+]+ USD for one (token|request)"):
        refuse_unpriced(made)


def test_an_answer_as_long_as_no_model_gives_one_is_not_reserved_for(tmp_path: Path) -> None:
    put_list(tmp_path, {"m": {**ENTRY, "max_output_tokens": 10**18}})
    made = job(tmp_path, prices={"file": LIST})
    assert most_of(made.spec, prices_of(made.spec, tmp_path)).answer == UNTOLD_ANSWER


@pytest.mark.parametrize(
    ("sections", "answer"),
    [
        ({}, UNTOLD_ANSWER),
        ({"model": {"max_tokens": 64}}, 64),
        ({"model": {"extra": {"max_completion_tokens": 100}}}, 100),
        ({"model": {"max_tokens": 64, "extra": {"n": 3}}}, 192),
        ({"model": {"max_tokens": 64}, "answer": {"labels": ["a", "b"], "method": "score"}}, 1),
    ],
)
def test_an_answer_takes_what_the_job_allows_it(tmp_path: Path, sections: dict[str, Any], answer: int) -> None:
    most = most_of(job(tmp_path, **sections).spec, [Found(Prices())])
    assert most.answer == answer
    assert TEMPLATE_TOKENS <= most.beside <= TEMPLATE_TOKENS + 100


def test_without_a_word_of_the_job_the_lists_longest_answer_counts(tmp_path: Path) -> None:
    spec = job(tmp_path).spec
    assert most_of(spec, [Found(Prices(most_output=500)), Found(Prices(most_output=900))]).answer == 900
    assert most_of(spec, [Found(Prices(most_output=500)), Found(Prices())]).answer == UNTOLD_ANSWER


async def _costs(made: Any) -> list[str]:
    return (await find_costs(made, None, Path("none"))).warnings  # type: ignore[arg-type]  # nobody is asked


def test_what_people_should_know_is_said(tmp_path: Path) -> None:
    put_list(tmp_path, {"other": ENTRY})
    assert asyncio.run(_costs(job(tmp_path))) == []
    unknown = asyncio.run(_costs(job(tmp_path, prices={"file": LIST})))
    assert unknown == ["the price of 'm' is not known: 'm' is not in 'prices.json'."]
    cheap = {"input_per_million": 1.5e-7, "output_per_million": 0.0}
    (slip,) = asyncio.run(_costs(job(tmp_path, prices=cheap)))
    assert slip.startswith("prices.input_per_million = 1.5e-07 is the price of a million tokens")
    (unbounded,) = asyncio.run(_costs(job(tmp_path, limits={"max_total_tokens": 10})))
    assert "nothing bounds an answer" in unbounded


def test_what_was_found_is_kept_by_who_answers_and_the_dearer_of_two() -> None:
    cheap, dear = Prices(1e-6, 1e-6), Prices(2e-6, 3e-6)
    kept = recorded(["a", "a", "b", "c"], [Found(cheap), Found(dear), Found(cheap), Found(Prices())])
    assert read_recorded({"found_prices": json.loads(json.dumps(kept))}) == {"a": dear, "b": cheap}
    assert recorded(["a", "a"], [Found(cheap), Found(Prices())]) == {}
