"""What a run finds out before its fan-out, as a user meets it: one sentence, the exit code, and the units left pending."""

from __future__ import annotations

import json

import pytest

# As a Pydantic model writes it: optional properties, a default, a reference.
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "default": "x"}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a"],
    "$defs": {"B": {"type": "object", "properties": {"c": {"type": "integer"}}}},
}


def test_a_model_that_is_not_listed_costs_nothing_and_the_near_one_is_named(mill):
    mill.put_texts(50)
    with mill.sim("--style", "vllm", "--kv-tokens", "60000", "--model", "big-model", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, model={"name": "big-modle"})
        told = mill.run()
        assert (told.code, told.document["reason"], told.document["items"]["pending"]) == (4, "model_missing", 50)
        assert sim.stats()["requests"] == 0
        assert 'it does not serve the model "big-modle"; it lists "big-model"' in told.err
        again = mill.run("--set", "model.name=big-model", "--new")
        assert (again.code, again.document["items"]["done"]) == (0, 50)


def test_a_server_that_tells_little_is_asked_once(mill):
    mill.put_texts(50)
    with mill.sim("--model", "big-model", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, model={"name": "big-modle"})
        told = mill.run()
        assert (told.code, told.document["items"]["pending"], sim.stats()["requests"]) == (4, 50, 1)
        assert 'it lists "big-model"' in told.err


def test_a_wrong_key_costs_one_request(mill):
    mill.put_texts(50)
    mill.put_job("http://127.0.0.1:9/v1", endpoint={"concurrency": 32})
    told = mill.rehearse(api_key="right", latency_ms=20)
    assert (told.result.exit_code, told.result.reason, told.items) == (4, "auth", {"pending": 50})
    assert told.seen["requests"] == 1


def test_an_answer_for_which_the_context_has_no_room_is_told_of(mill):
    mill.put_texts(300)
    with mill.sim("--style", "vllm", "--kv-tokens", "60000", "--context", "40", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, model={"name": "sim", "max_tokens": 64}, endpoint={"concurrency": 2})
        told = mill.run()
        assert "model.max_tokens = 64 leaves no room for a prompt in the server's context of 40 tokens" in told.err


def test_the_longest_prompt_is_held_against_the_context(mill):
    mill.put_rows([{"text": f"row {n} " + "many more words " * (200 if n == 250 else 1)} for n in range(300)])
    with mill.sim("--style", "vllm", "--kv-tokens", "60000", "--context", "400", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, model={"name": "sim", "max_tokens": 64}, endpoint={"concurrency": 2})
        told = mill.run()
        assert "the server's context is 400: such records fail alone, the others go on" in told.err
        assert (told.code, told.document["items"]["done"], told.document["items"]["failed"]) == (3, 299, 1)


def test_req_05_a_schema_that_a_strict_server_refuses_costs_one_request(mill):
    mill.put_texts(40)
    (mill.folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    with mill.sim("--strict-schema", "--answer", "json", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, answer={"schema": "schema.json"}, endpoint={"concurrency": 16})
        told = mill.run()
        assert (told.code, told.document["items"]["done"]) == (0, 40)
        assert sim.stats()["by_status"] == {"200": 40, "400": 1}
        assert "at /properties/a: default" in told.err


def test_a_server_without_schemas_is_told_of_once(mill):
    mill.put_texts(40)
    (mill.folder / "schema.json").write_text('{"type": "string"}', encoding="utf-8")
    with mill.sim("--no-schema", "--answer", 'text:"yes"', "--latency-ms", "20") as sim:
        mill.put_job(sim.url, answer={"schema": "schema.json"}, endpoint={"concurrency": 16})
        told = mill.run()
        assert (told.code, told.document["items"]["done"]) == (0, 40)
        assert sim.stats()["by_status"]["400"] == 1
        assert told.err.count("no response_format is sent from now on") == 1


def test_net_14_empty_replies_of_one_endpoint_are_answered_by_the_other(mill):
    mill.put_texts(60)
    with mill.sim("--latency-ms", "10", script=[{"action": "empty"}]) as gone, mill.sim("--latency-ms", "10") as well:
        mill.put_job(gone.url, well.url)
        told = mill.run()
        assert (told.code, told.document["items"]["done"]) == (0, 60)
        assert gone.stats()["requests"] < 30


@pytest.mark.slow
def test_per_11_one_of_three_endpoints_is_lost_and_no_unit_with_it(mill, until):
    mill.put_texts(1500)
    with (
        mill.sim("--latency-ms", "20") as one, mill.sim("--latency-ms", "20") as doomed, mill.sim("--latency-ms", "20") as three,
    ):  # fmt: skip
        mill.put_job(one.url, doomed.url, three.url)
        run = mill.start("run", "job.toml", "--json")
        until(lambda: doomed.stats()["requests"] > 20)
        doomed.stop()
        _, err = run.communicate()
        assert run.returncode == 0, err
        assert mill.answers() == [f"row {n}." for n in range(1500)]
        assert min(one.stats()["requests"], three.stats()["requests"]) > 20


@pytest.mark.slow
def test_net_04_connections_that_are_reset_at_the_start_lose_nothing(mill):
    mill.put_texts(200)
    with mill.sim("--max-sockets", "10", "--latency-ms", "20") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 64})
        told = mill.run()
        assert (told.code, told.document["items"]["done"]) == (0, 200)


@pytest.mark.slow
def test_scl_05_a_server_that_counts_tokens_in_flight_answers_all(mill):
    rows = [{"text": f"row {n} " + "x" * (50_000 if n % 20 == 7 else 1_000)} for n in range(200)]
    mill.put_rows(rows)
    with mill.sim("--max-in-flight-tokens", "50000", "--latency-ms", "30", "--answer", "echo:7") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 64})
        told = mill.run()
        assert (told.code, told.document["items"]["done"]) == (0, 200)


def test_planned_told_and_observed_stand_side_by_side(mill):
    mill.put_texts(200)
    with mill.sim("--style", "llama.cpp", "--slots", "8", "--context", "4096", "--latency-ms", "20") as sim:
        mill.put_job(sim.url)
        told = mill.run()
        assert told.code == 0
    archive = json.loads(next(mill.folder.glob(".headrace/runs/*/run.json")).read_text(encoding="utf-8"))
    (found,) = archive["capacity"]
    assert found["server"] == {"kind": "llama.cpp", "requests": 8, "tokens": 32_768, "context": 4096, "from": "GET /props"}
    assert found["planned"]["requests"] == 8
    assert found["planned"]["tokens_per_request"] > 0
    assert set(found["observed"]) == {"knee", "most_in_flight", "window"}
    shown = mill.command("show").document
    assert shown["capacity"] == archive["capacity"]
