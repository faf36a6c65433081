"""The eval set in a run: asked first, scored, held against an earlier run; a gate that refuses spends nothing on the batch."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from headrace.events import Warned
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
LABELS = ["red", "green", "blue"]


def put(mill: Any, count: int = 12, golden: int = 60, url: str = URL, **quality: Any) -> None:
    """A batch and an eval set, both answered by one table."""
    mill.put_rows([{"id": n, "text": f"row {n}."} for n in range(count)])
    mill.put_rows([{"id": n, "text": f"gold {n}.", "expected": LABELS[n % 3]} for n in range(golden)], "golden.jsonl")
    mill.put_job(
        url, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, quality={"evalset": "golden.jsonl", **quality}
    )


TABLE = {f"gold {n}.": LABELS[n % 3] for n in range(60)} | {f"row {n}.": "red" for n in range(300)}


def evaluated(mill: Any) -> dict[str, Any]:
    told = mill.command("show", mill.runs[-1].name)
    return json.loads(told.out)["evaluation"]


def test_the_eval_set_is_asked_first_and_scored(mill: Any) -> None:
    put(mill)
    wrong = Rule(match="gold 3.", content='{"label": "blue"}')
    done = mill.rehearse(wrong, answer="label", table=TABLE)
    assert done.items == {"done": 12}
    assert done.seen["requests"] == done.result.status["requests"]["sent"] == 72
    assert done.result.status["units"]["total"] == 12
    quality = done.result.status["quality"]
    assert quality["eval_score"] == pytest.approx(59 / 60)
    assert (quality["eval"]["n_total"], quality["eval"]["n_error"], quality["eval"]["gate"]) == (60, {}, "none")
    found = evaluated(mill)
    assert found["per_class"]["red"] == {"precision": 1.0, "recall": 0.95, "f1": pytest.approx(0.9744, abs=1e-4), "n": 20}
    assert len(mill.rows()) == 12
    assert "eval set   score 0.9833, 60 of 60 scored\n" in mill.command("status").out


def test_a_refused_gate_spends_nothing_on_the_batch_and_the_mended_job_starts_anew(mill: Any) -> None:
    put(mill, gate={"min_score": 0.9})
    refused = mill.rehearse(answer='text:{"label": "red"}', table=TABLE)
    assert (refused.result.exit_code, refused.result.reason) == (6, "gate")
    assert refused.seen["requests"] == 60
    assert refused.result.status["items"]["pending"] == refused.result.status["items"]["total"] == 12
    assert "the score 0.3333 of 60 is below quality.gate.min_score = 0.9" in refused.result.message
    assert not mill.output.exists()
    again = mill.rehearse(answer="label", table=TABLE)
    assert (again.result.exit_code, again.seen["requests"]) == (6, 0)
    mended = mill.rehearse(answer="label", table=TABLE, overrides=["prompt.system=Sort."])
    assert (mended.result.exit_code, mended.seen["requests"]) == (0, 72)
    assert mended.result.run != refused.result.run


def test_another_least_score_judges_the_stored_answers_again(mill: Any) -> None:
    put(mill, gate={"min_score": 0.9})
    first = mill.rehearse(answer='text:{"label": "red"}')
    second = mill.rehearse(answer="label", table=TABLE, overrides=["quality.gate.min_score=0.3"])
    assert (second.result.exit_code, second.seen["requests"], second.result.run) == (0, 12, first.result.run)


def test_a_run_that_is_worse_than_the_last_is_refused_with_what_got_worse(mill: Any) -> None:
    put(mill, gate={"baseline": "last"})
    first = mill.rehearse(answer="label", table=TABLE)
    assert first.result.exit_code == 0
    assert any("nothing is compared" in event.message for event in first.events if isinstance(event, Warned))
    worse = [Rule(match=f"gold {n}.", content='{"label": "blue"}') for n in range(0, 30, 3)]
    second = mill.rehearse(*worse, answer="label", table=TABLE, overrides=["prompt.system=Sort badly."])
    assert second.result.exit_code == 6
    assert f"worse than run {first.result.run} by 0.1667 on 60 common records" in second.result.message
    found = evaluated(mill)["baseline"]
    assert (found["verdict"], found["n_common"], found["difference"]) == ("worse", 60, pytest.approx(-1 / 6))
    assert {"id": "0", "expected": "red", "old": "red", "new": "blue"} in found["worse"]
    # What was refused is no baseline: the one before it stays.
    third = mill.rehearse(*worse, answer="label", table=TABLE, overrides=["prompt.system=Sort worse."])
    assert third.result.exit_code == 6
    assert first.result.run in third.result.message


def test_failed_and_quarantined_answers_are_told_apart(mill: Any) -> None:
    put(mill, golden=20, gate={"min_score": 0.5})
    rules = [
        Rule(match="gold 1.", status=400, body={"error": {"message": "no", "type": "invalid_request_error"}}),
        Rule(match="gold 2.", content="no label at all"),
    ]
    done = mill.rehearse(*rules, answer="label", table=TABLE)
    found = evaluated(mill)
    assert (found["n_total"], found["n_scored"], found["n_error"]) == (20, 19, {"bad_request": 1})
    assert found["score"] == pytest.approx(18 / 19)
    assert done.result.exit_code == 0
    assert "1 of 20 records of the eval set could not be scored" in found["warnings"]


def test_eval_alone_leaves_the_batch_and_is_not_asked_again(mill: Any) -> None:
    put(mill)
    with mill.sim("--answer", "label", "--table", str(mill.write("table.json", json.dumps(TABLE)))) as sim:
        put(mill, url=sim.url)
        told = mill.command("eval", "job.toml", "--json")
        assert (told.code, told.document["score"], told.document["gate"]) == (0, 1.0, "none")
        status = mill.status()
        assert (status["state"], status["reason"], status["items"]["total"]) == ("stopped", "evaluated", 0)
        assert sim.stats()["requests"] == 60
        assert "eval set  60 records, 60 scored" in mill.command("eval", "job.toml").out
        assert mill.run().code == 0
        assert sim.stats()["requests"] == 72
        assert mill.command("eval", "job.toml", "--set", "quality.gate={ min_score = 1.0 }").code == 0
        assert mill.status()["state"] == "finished"
        assert sim.stats()["requests"] == 72


@pytest.mark.slow
def test_a_kill_in_the_middle_of_the_eval_set_pays_nothing_twice_but_what_was_in_flight(mill: Any, until: Any) -> None:
    put(mill)
    table = str(mill.write("table.json", json.dumps(TABLE)))
    with mill.sim("--answer", "label", "--table", table, "--latency-ms", "150") as sim:
        put(mill, url=sim.url)
        mill.put_job(
            sim.url, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, endpoint={"concurrency": 4},
            quality={"evalset": "golden.jsonl"},
        )  # fmt: skip
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["requests"] > 20)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert mill.run().code == 0
        assert 72 <= sim.stats()["requests"] <= 72 + 8
    assert mill.status()["quality"]["eval_score"] == 1.0


@pytest.mark.parametrize(
    ("rows", "quality", "why"),
    [
        ([{"text": "a"}], {}, "record 1: it has no field 'expected'"),
        ([], {}, "no record"),
        ([{"text": "a", "expected": "["}], {"scorer": "regex"}, "no regular expression"),
        ([{"text": "a", "expected": "many"}], {"scorer": "numeric"}, "expected is no number"),
        ([{"text": "a", "expected": "b"}], {"scorer": "field"}, "needs quality.field"),
        ([{"text": "a", "expected": "b"}], {"scorer": "judge"}, "needs [quality.judge]"),
        ([{"text": "a", "expected": "b"}], {"scorer": "judge", "judge": {"model": {"name": "j"}, "prompt": {}}}, "quality.judge"),
        ([{"text": "a", "expected": "b"}], {"scorer": "bleu"}, "quality.scorer"),
        ([{"text": "a", "expected": "b"}], {"gate": {"min_score": 1.5}}, "quality.gate.min_score"),
        ([{"text": "a", "expected": "b"}], {"gate": {"baseline": "nobody"}}, "no run answers to 'nobody'"),
        ([{"text": "a", "expected": "b"}], {"evalset": "nowhere.jsonl"}, "quality.evalset: input"),
        ([{"text": "a", "expected": "b"}], {"evalset": None, "gate": {"min_score": 0.5}}, "quality.gate needs quality.evalset"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_before_anything_is_sent(mill: Any, rows: Any, quality: dict[str, Any], why: str) -> None:
    mill.put_texts(3)
    mill.put_rows(rows, "golden.jsonl")
    mill.put_job(URL, quality={"evalset": "golden.jsonl", **quality})
    told = mill.command("run", "job.toml")
    assert told.code == 2
    assert why in told.err
    assert told.err.count("\n") == 1
    assert mill.runs == []


def test_a_record_that_cannot_be_asked_is_an_error_and_what_is_expected_is_not_in_the_prompt(mill: Any) -> None:
    mill.put_texts(2)
    mill.put_rows([{"text": "row 0.", "expected": "row 0."}, {"other": "x", "expected": "y"}], "golden.jsonl")
    mill.put_job(URL, model={"name": "sim"}, quality={"evalset": "golden.jsonl"})
    mill.rehearse()
    found = evaluated(mill)
    assert (found["n_total"], found["n_scored"], found["n_error"], found["score"]) == (2, 1, {"bad_input": 1}, 1.0)
    mill.put_job(URL, model={"name": "sim"}, prompt={"user": "{{ text }} {{ expected }}"}, quality={"evalset": "golden.jsonl"},
                 output={"path": "b.jsonl"})  # fmt: skip
    mill.put_rows([{"text": f"row {n}.", "expected": "in the batch it may stand"} for n in range(3)])
    mill.rehearse()
    assert evaluated(mill)["n_error"] == {"bad_input": 2}


@pytest.mark.slow
def test_it_stands_on_the_page_and_in_a_comparison(mill: Any) -> None:
    put(mill, gate={"min_score": 0.1})
    one = mill.rehearse(answer="label", table=TABLE).result
    wrong = Rule(match="gold 3.", content='{"label": "blue"}')
    other = mill.rehearse(wrong, answer="label", table=TABLE, overrides=["prompt.system=Sort."]).result
    assert mill.command("report", other.run, "--to", "page.html").code == 0
    page = (mill.folder / "page.html").read_text()
    assert "Is it right? The eval set" in page
    assert "score is 0.983" in page
    assert "The gate: passed." in page
    found = mill.command("compare", one.run, other.run, "--json").document
    assert found["quality"]["eval_score"] == [1.0, pytest.approx(59 / 60)]
    assert "eval_score  1  0.9833" in mill.command("compare", one.run, other.run).out


def judged(mill: Any, url: str, judge_url: str | None = None, **judge: Any) -> None:
    endpoint = {"endpoint": {"url": judge_url}} if judge_url is not None else {}
    mill.put_rows([{"id": n, "text": f"row {n}."} for n in range(12)])
    mill.put_rows([{"id": n, "text": f"gold {n}.", "expected": LABELS[n % 3]} for n in range(20)], "golden.jsonl")
    model = {"name": "judge", "temperature": 0}
    prompt = {"system": "Judge.", "user": "Is {{ answer }} as good as {{ expected }} for {{ text }}?"}
    mill.put_job(
        url, input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS},
        quality={"evalset": "golden.jsonl", "scorer": "judge", "judge": {"model": model, "prompt": prompt, **endpoint, **judge}},
    )  # fmt: skip


@pytest.mark.slow
def test_a_judge_scores_by_its_own_endpoint_model_and_prompt(mill: Any) -> None:
    table = str(mill.write("table.json", json.dumps(TABLE)))
    script = [{"match": "gold 3.", "status": 400, "body": {"error": {"message": "no", "type": "invalid_request_error"}}},
              {"match": "gold 4.", "content": "no number"},
              {"match": "gold 5.", "content": '{"score": 0.5, "reason": "half"}'},
        {"match": "Is red as good as red for gold 0.?", "content": '{"score": 0}'},
              {"content": '{"score": 1}'}]  # fmt: skip
    with (
        mill.sim("--answer", "label", "--table", table) as sim,
        mill.sim("--model", "judge", script=script) as judge,
    ):
        judged(mill, sim.url, judge.url)
        assert mill.run().code == 0
        assert (sim.stats()["requests"], judge.stats()["requests"]) == (32, 21)  # one was asked again
        found = evaluated(mill)
        assert (found["n_total"], found["n_scored"]) == (20, 18)
        assert found["n_error"] == {"scorer": 2}
        assert found["score"] == pytest.approx(16.5 / 18)
        assert mill.status()["requests"]["sent"] == 53
        assert mill.command("eval", "job.toml").code == 0  # the judge is not asked again
        assert judge.stats()["requests"] == 21


@pytest.mark.slow
def test_a_judge_that_is_away_stops_the_run_before_the_batch(mill: Any) -> None:
    table = str(mill.write("table.json", json.dumps(TABLE)))
    with mill.sim("--answer", "label", "--table", table) as sim, mill.sim("--api-key", "k") as locked:
        judged(mill, sim.url, locked.url)
        told = mill.run()
        assert (told.code, told.document["reason"]) == (4, "auth")
        assert sim.stats()["requests"] == 20
        assert told.document["items"]["pending"] == 12


def test_an_estimate_names_what_is_asked_beside_the_batch(mill: Any) -> None:
    put(mill, repeat=5)
    told = mill.command("estimate", "job.toml")
    assert told.code == 0
    words = " ".join(told.out.replace("note:", " ").split())
    assert "the eval set takes 60 requests more" in words
    assert "quality.repeat asks 5 units a second time" in words


def test_a_group_that_no_record_has_is_told_before_anything_is_asked(mill: Any) -> None:
    put(mill, group="document")
    told = mill.command("eval", "job.toml")
    assert told.code == 2
    assert told.err.strip() == "headrace: quality.group: no record of quality.evalset has a field 'document'"
    assert not mill.runs


def test_a_function_that_scores_nothing_says_why_and_lets_nothing_through(mill: Any) -> None:
    put(mill, golden=6, scorer="python:mine:f", gate={"min_score": 0.0})
    mill.write("mine.py", "def f(answer, expected, record):\n    return record['lacks']\n")
    refused = mill.rehearse(answer="label", table=TABLE)
    assert (refused.result.exit_code, refused.seen["requests"]) == (6, 6)
    told = mill.command("eval", "job.toml")
    assert told.code == 6
    assert "6, scorer: f raised KeyError: 'lacks'; 0 is one\n" in told.out


def test_a_scorer_that_there_is_not_names_those_that_there_are(mill: Any) -> None:
    put(mill, scorer="fuzzy")
    told = mill.command("eval", "job.toml")
    assert "quality.scorer: found 'fuzzy'; allowed: exact, field, numeric" in told.err
    assert "or python:module:function" in told.err


@pytest.mark.slow
def test_what_a_judge_with_its_own_endpoint_costs_is_in_the_run_s_figures(mill: Any) -> None:
    table = str(mill.write("table.json", json.dumps(TABLE)))
    with (
        mill.sim("--answer", "label", "--table", table) as sim,
        mill.sim("--model", "judge", script=[{"content": '{"score": 1}'}]) as judge,
    ):
        judged(mill, sim.url, judge.url)
        priced = "prices={input_per_million=1, output_per_million=1}"
        assert mill.command("eval", "job.toml", "--set", priced).code == 0
        found = mill.status()
        tokens = found["tokens"]["prompt"] + found["tokens"]["completion"]
        assert judge.stats()["tokens"]["prompt"] > 0
        assert found["cost"]["known"] is True
        assert found["cost"]["spent"] == pytest.approx(tokens / 1e6)
