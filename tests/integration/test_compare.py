"""`headrace compare`: two real runs, and what is said of them."""

from __future__ import annotations

import json

import pytest

from headrace.reports.comparison import compare_runs
from headrace.runs.registry import RunFolder

SIM = ("--latency-ms", "20", "--jitter", "0.2", "--slots", "16", "--answer", "label")
LABELS = {"labels": ["red", "green", "blue"]}


def compared(mill):
    a, b = mill.runs
    return compare_runs(RunFolder(a), RunFolder(b))[0]


@pytest.mark.slow
def test_one_changed_key_is_named_as_the_only_explanation(mill):
    mill.put_texts(400)
    with mill.sim(*SIM) as sim:
        mill.put_job(sim.url, input={"id": "id"}, answer=LABELS, model={"name": "sim"}, endpoint={"concurrency": 2})
        assert mill.run("--new").code == 0
        assert mill.run("--new", "--set", "endpoint.concurrency=16").code == 0
    found = compared(mill)
    assert [change["key"] for change in found["configuration"]] == ["endpoint.concurrency"]
    assert found["configuration"][0] == {"key": "endpoint.concurrency", "a": 2, "b": 16}
    assert found["verdicts"]["items_per_minute"] == "differs"
    explained = {one["figure"]: one["keys"] for one in found["explanations"]}
    assert explained["items_per_minute"] == ["endpoint.concurrency"]
    assert set(map(tuple, explained.values())) <= {("endpoint.concurrency",)}
    answers = found["answers"]
    assert (answers["common"], answers["equal"], answers["changed"], answers["same_request"]) == (400, 400, 0, 400)


@pytest.mark.slow
def test_labels_that_changed_are_counted_by_pair_and_shown(mill):
    mill.put_texts(60)
    say = [{"match": f"row {n}.", "content": "red" if n % 3 else "blue"} for n in range(60)]
    with mill.sim(*SIM, script=say) as sim:
        mill.put_job(sim.url, input={"id": "id"}, answer=LABELS, model={"name": "sim"}, endpoint={"identity": "one"})
        assert mill.run("--new").code == 0
    say = [{"match": f"row {n}.", "content": "green" if n < 10 else "red" if n % 3 else "blue"} for n in range(60)]
    with mill.sim(*SIM, script=say) as sim:
        mill.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(5, 60)] + [{"id": "new", "text": "other"}])
        told = mill.run("--new", "--set", f"endpoint.url={sim.url}", "--set", "prompt.user=Sort: {{ text }}")
        assert told.code == 0
    found = compared(mill)
    assert {change["key"] for change in found["configuration"]} == {"prompt.user", "endpoint.url", "input.records"}
    answers = found["answers"]
    assert (answers["common"], answers["only_a"], answers["only_b"], answers["same_request"]) == (55, 5, 1, 0)
    # Records 5 to 9 changed: 6 and 9 were blue, the others red.
    assert (answers["equal"], answers["changed"]) == (50, 5)
    assert answers["pairs"] == [{"a": "red", "b": "green", "count": 3}, {"a": "blue", "b": "green", "count": 2}]
    shares = {one["label"]: (one["a"], one["b"]) for one in answers["labels"]}
    assert shares["green"] == (0.0, pytest.approx(5 / 55))
    assert {one["id"]: (one["a"], one["b"]) for one in answers["examples"]} == {
        "r5": ("red", "green"), "r6": ("blue", "green"), "r7": ("red", "green"), "r8": ("red", "green"), "r9": ("blue", "green"),
    }  # fmt: skip
    explained = {one["figure"]: set(one["keys"]) for one in found["explanations"]}
    assert explained["answers"] == {"input.records", "prompt.user", "endpoint.url"}


@pytest.mark.slow
def test_the_command_says_it_to_people_and_scripts_and_quotes_nothing_harmful(mill):
    mill.put_texts(3)
    with mill.sim(script=[{"content": "\x1b[2Jone"}]) as sim:
        mill.put_job(sim.url, input={"id": "id"}, model={"name": "sim"})
        assert mill.run("--new").code == 0
        sim_url = sim.url
    with mill.sim(script=[{"content": "two\x1b]0;x\x07"}]) as sim:
        assert mill.run("--new", "--set", f"endpoint.url={sim.url}").code == 0
        assert sim.url != sim_url
    a, b = (run.name for run in mill.runs)
    told = mill.command("compare", a, b)
    assert told.code == 0
    assert "\x1b" not in told.out
    assert "0 of 3 answers equal (0.0%), 3 changed" in told.out
    assert r"\x1b[2Jone" in told.out
    document = json.loads(mill.command("compare", a, "last", "--json").out)
    assert document["runs"] == [a, b]
    assert document["answers"]["changed"] == 3
    assert set(document) >= {"configuration", "operation", "answers"}
    same = mill.command("compare", a, a)
    assert (same.code, same.err.count("\n")) == (2, 1)
    assert "is the same run as" in same.err


@pytest.mark.slow
def test_divided_records_are_compared_by_what_their_pieces_come_to(mill):
    mill.put_rows([{"id": n, "text": f"Sentence number {n}. " * 30} for n in range(4)])
    with mill.sim() as sim:
        mill.put_job(sim.url, input={"id": "id"}, model={"name": "sim"}, slice={"split": {"size": "200 chars", "join": "list"}})
        assert mill.run("--new").code == 0
        assert mill.run("--new", "--set", "limits.order=input").code == 0
    found = compared(mill)
    assert [change["key"] for change in found["configuration"]] == ["limits.order"]
    assert (found["answers"]["common"], found["answers"]["equal"]) == (4, 4)
