"""`headrace advise`: staged illnesses, each named by the run's own figures, and no other."""

from __future__ import annotations

import json

import pytest

from headrace.runs.jobfile import load_job
from headrace.runs.nextrun import next_run
from headrace.testing.sim import Rule


def named(mill):
    found = next_run(load_job(mill.folder / "job.toml"))
    return [one.name for one in found.advice]


def put(mill, count=200, **sections):
    mill.put_texts(count)
    mill.put_job("http://127.0.0.1:9/v1", model={"name": "sim", "temperature": 0, **sections.pop("model", {})}, **sections)


@pytest.mark.slow
def test_a_healthy_run_gets_none(mill):
    put(mill)
    done = mill.rehearse(latency_ms=10, slots=8)
    assert done.result.exit_code == 0
    assert named(mill) == []
    assert done.result.status["advice"] == []


@pytest.mark.slow
def test_answers_that_were_cut_call_for_more_tokens(mill):
    put(mill, model={"max_tokens": 8})
    done = mill.rehearse(Rule(content="Half of", finish="length"))
    assert done.items == {"quarantined": 200}
    assert named(mill) == ["max_tokens"]
    assert done.result.status["advice"][0].endswith("model.max_tokens = 16")


@pytest.mark.slow
def test_a_number_in_flight_that_the_endpoint_refuses_calls_for_auto(mill):
    put(mill, endpoint={"concurrency": 64})
    done = mill.rehearse(latency_ms=30, max_in_flight=8, overload_status=429)
    by_kind = done.result.status["requests"]["by_kind"]
    assert sum(by_kind.values()) > 10, by_kind
    assert named(mill) == ["concurrency"]


@pytest.mark.slow
def test_answers_that_are_asked_for_again_call_for_less_variety(mill):
    put(mill, model={"temperature": 1.0}, answer={"labels": ["red", "green"]})
    done = mill.rehearse(Rule(content="purple", every=4), answer="label")
    assert sum(done.result.status["requests"]["by_kind"].values()) > 10
    assert named(mill) == ["wasted"]


@pytest.mark.slow
def test_the_command_writes_lines_for_the_job_file(mill):
    put(mill, 60)
    nothing = mill.command("advise", "job.toml")
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)
    assert "no run yet" in nothing.err
    with mill.sim(script=[{"content": "Half of", "finish": "length"}]) as sim:
        mill.put_job(sim.url, model={"name": "sim", "max_tokens": 8})
        assert mill.run().code == 3
    told = mill.command("advise", "job.toml")
    assert told.code == 0
    assert "\nmodel.max_tokens = 16\n" in told.out
    document = json.loads(mill.command("advise", "job.toml", "--json").out)
    assert [(one["name"], one["key"], one["value"]) for one in document["advice"]] == [("max_tokens", "model.max_tokens", "16")]


@pytest.mark.slow
def test_pauses_after_refusals_call_for_an_even_pace(mill):
    put(mill)
    mill.rehearse(Rule(every=40, status=429, headers={"retry-after": "1"}), latency_ms=20)
    assert named(mill) == ["paused"]


def grouped(groups, each, shared, spread=True):
    """Records of `groups` long beginnings, `each` of each, those of one group far from one another."""
    rows = [(group, n) for n in range(each) for group in range(groups)]
    beginnings = [" ".join(f"g{group}w{word}" for word in range(shared)) for group in range(groups)]
    return [{"id": f"{group}-{n}", "text": f"{beginnings[group]} question {n}"} for group, n in rows]


@pytest.mark.slow
def test_prompts_that_begin_alike_and_stand_apart_call_for_another_order(mill):
    put(mill, limits={"order": "input"}, endpoint={"concurrency": 4})
    mill.put_rows(grouped(40, 5, 60))
    mill.rehearse(cache_blocks=120)
    assert named(mill) == ["prefix_order"]
    put(mill, endpoint={"concurrency": 4}, output={"path": "other.jsonl"})
    mill.put_rows(grouped(40, 5, 60))
    mill.rehearse(cache_blocks=120)
    assert named(mill) == []


@pytest.mark.slow
def test_requests_that_wait_beside_an_empty_cache_call_for_more_seats(mill):
    put(mill, 500)
    mill.rehearse(style="vllm", slots=4, kv_tokens=1_000_000, decode_ms_per_token=20, answer="text:a b c d e f g h")
    assert named(mill) == ["server_limit"]
    mill.put_job("http://127.0.0.1:9/v1", model={"name": "sim", "temperature": 0, "seed": 1}, output={"path": "b.jsonl"})
    mill.rehearse(style="vllm", kv_tokens=1500, decode_ms_per_token=20, answer="text:a b c d e f g h")
    assert named(mill) == []


@pytest.mark.slow
def test_texts_that_are_cut_less_than_before_are_said(mill):
    put(mill, slice={"truncate": "20 chars"})
    mill.put_rows([{"id": f"r{n}", "text": f"row {n} " + "and more of it " * 20} for n in range(100)])
    mill.rehearse()
    put(mill, slice={"truncate": "200 chars"}, output={"path": "b.jsonl"})
    mill.put_rows([{"id": f"r{n}", "text": f"row {n} " + "and more of it " * 20} for n in range(100)])
    mill.rehearse()
    assert named(mill) == ["slicing"]


@pytest.mark.slow
def test_a_few_long_requests_at_the_end_call_for_another_order(mill):
    put(mill, limits={"order": "input"}, endpoint={"concurrency": 16})
    rows = [{"id": f"r{n}", "text": f"row {n}."} for n in range(400)]
    mill.put_rows([*rows, *({"id": f"long{n}", "text": f"long {n} " + "and more of it " * 40} for n in range(3))])
    mill.rehearse(latency_ms=200, decode_ms_per_token=60, answer="echo")
    assert named(mill) == ["tail"]


@pytest.mark.slow
def test_a_schema_that_the_server_refuses_is_said(mill):
    put(mill, answer={"schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}})
    refusal = {"error": {"message": "Invalid schema for response_format 'answer': 'a' is not permitted", "type": "invalid_request_error",
                         "param": "response_format", "code": None}}  # fmt: skip
    done = mill.rehearse(Rule(status=400, body=refusal))
    assert done.result.reason == "schema_refused", done.result.message
    assert named(mill) == ["schema_refused"]
