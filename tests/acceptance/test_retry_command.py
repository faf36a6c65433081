"""`headrace retry`: what failed is sent again, and nothing else."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow
NO = {"error": {"message": "no"}}


def test_per_05_what_ended_badly_is_sent_again_on_request_and_by_kind(mill):
    mill.put_texts(10)
    script = [{"match": f"row {n}.", "times": 2, "content": "not json"} for n in (1, 4, 6)]
    script += [{"match": "row 8.", "times": 1, "status": 400, "body": NO}, {"content": '{"a": 1}'}]
    with mill.sim(script=script) as sim:
        mill.put_job(sim.url, answer={"schema": {"type": "object"}, "retry_invalid": 0})
        assert mill.run().code == 3
        assert sim.stats()["requests"] == 10
        assert mill.run().code == 3
        assert sim.stats()["requests"] == 10
        still = mill.command("retry", "--only", "invalid_json", "--json")
        assert still.code == 3
        assert sim.stats()["requests"] == 13
        assert still.document["items"] == still.document["items"] | {"done": 6, "quarantined": 3, "failed": 1}
        mended = mill.command("retry", "--json")
        assert mended.code == 0
        assert sim.stats()["requests"] == 17
        assert len(mill.runs) == 1
        assert mill.run().code == 0
        assert sim.stats()["requests"] == 17
    assert mill.answers() == [{"a": 1}] * 10


def test_a_retry_under_changed_content_says_which_configuration_made_which_answer(mill):
    mill.put_rows([{"id": n, "text": "x" * (100 if n < 3 else 4)} for n in range(8)])
    with mill.sim() as sim:
        mill.put_job(sim.url, model={"max_tokens": 5}, input={"dedupe": False})
        assert mill.run().code == 3
        assert mill.statuses() == ["quarantined"] * 3 + ["done"] * 5
        told = mill.command("retry", "--set", "model.max_tokens=50", "--json")
        assert told.code == 0, told.err
        assert sim.stats()["requests"] == 8 + 3
        assert [(made["config"], made["done"]) for made in told.document["configurations"]] == [(1, 5), (2, 3)]
        again = mill.run()  # content is compared with the first configuration
        assert (again.code, sim.stats()["requests"]) == (0, 11)
    assert mill.answers() == ["x" * 100] * 3 + ["xxxx"] * 5


def test_retry_with_nothing_to_do_is_success(mill):
    mill.put_texts(3)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        mill.run()
        told = mill.command("retry", "--json")
        assert (told.code, sim.stats()["requests"]) == (0, 3)


def test_retry_refuses_a_kind_that_is_none(mill):
    mill.put_texts(1)
    told = mill.command("retry", "--only", "invalid", "--json")
    assert told.code == 2
    assert "invalid_json" in json.loads(told.out)["error"]["message"]
