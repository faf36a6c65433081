"""One job over several endpoints: real servers, real processes, counted on the servers' side."""

from __future__ import annotations

from typing import Any

ERROR = {"error": {"message": "unknown field", "type": "invalid_request_error"}}


def test_work_flows_to_all_endpoints_and_each_answer_says_who_gave_it(mill):
    mill.put_texts(300)
    with mill.sim("--latency-ms", "20") as one, mill.sim("--latency-ms", "20") as other:
        mill.put_job(one.url, other.url)
        told = mill.run()
        assert told.code == 0
        seen = [server.stats()["requests"] for server in (one, other)]
        assert sum(seen) == 300 == told.document["requests"]["sent"]
        assert min(seen) > 0
        assert mill.answers() == [f"row {n}." for n in range(300)]


def test_a_wrong_model_at_one_endpoint_costs_no_record(mill):
    mill.put_texts(200)
    with mill.sim("--latency-ms", "20", "--model", "other") as wrong, mill.sim("--latency-ms", "20") as right:
        mill.put_job(wrong.url, right.url)
        told = mill.run()
        assert told.code == 0
        assert told.document["items"]["done"] == 200
        assert "is not asked any more, 1 left" in told.err
        assert wrong.stats()["requests"] <= 10


def test_an_endpoint_that_is_killed_in_the_middle_costs_no_record(mill, until):
    mill.put_texts(2000)
    with mill.sim("--latency-ms", "20") as doomed, mill.sim("--latency-ms", "20") as steady:
        mill.put_job(doomed.url, steady.url)
        run = mill.start("run", "job.toml", "--json")
        until(lambda: doomed.stats()["requests"] > 200)
        doomed.stop()
        _, err = run.communicate()
        assert run.returncode == 0, err
        assert mill.answers() == [f"row {n}." for n in range(2000)]


def test_the_run_stops_with_the_rest_pending_when_no_endpoint_is_left(mill):
    mill.put_texts(50)
    with mill.sim("--model", "other") as one, mill.sim("--model", "another") as other:
        mill.put_job(one.url, other.url)
        told = mill.run()
        document: dict[str, Any] = told.document
        assert (told.code, document["reason"], document["items"]["pending"]) == (4, "model_missing", 50)


def test_answers_of_either_endpoint_are_taken_over(mill):
    mill.put_texts(100)
    with mill.sim("--latency-ms", "20") as one, mill.sim("--latency-ms", "20") as other:
        mill.put_job(one.url, other.url)
        assert mill.run().code == 0
        for server in (one, other):
            server.reset()
        told = mill.run("--reuse", "last", "--new", "--set", "output.path=again.jsonl")
        assert told.code == 0
        assert one.stats()["requests"] + other.stats()["requests"] == 0
        assert told.document["requests"]["reused"] == 100
