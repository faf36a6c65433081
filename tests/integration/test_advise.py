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
