"""Two runs held against each other as a whole: equal, shifted, too small to tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("scipy")

from headrace.events import Warned
from headrace.runs.drifting import drift_between
from headrace.runs.pipeline import RunOptions
from headrace.runs.registry import RunFolder
from headrace.testing.sim import Rule

LABELS = ["red", "green", "blue"]
NEW = RunOptions(new=True)


def put(mill: Any, count: int = 400, **sections: Any) -> None:
    mill.put_rows([{"id": n, "text": f"row {n}."} for n in range(count)])
    mill.put_job("http://127.0.0.1:9/v1", input={"id": "id"}, model={"name": "sim"}, answer={"labels": LABELS}, **sections)


def drifted(mill: Any) -> dict[str, Any]:
    a, b = mill.runs[-2:]
    return drift_between(RunFolder(a), RunFolder(b))


def test_the_same_answers_are_the_same(mill: Any) -> None:
    put(mill)
    table = {f"row {n}.": LABELS[n % 3] for n in range(400)}
    for _ in range(2):
        mill.rehearse(options=NEW, answer="label", table=table)
    found = drifted(mill)
    assert (found["verdict"], found["flips"], found["common"]) == ("same", 0.0, 400)
    assert found["labels"]["p"] == 1.0
    assert found["rates"] == {"truncated": [0, 0], "refusal": [0, 0], "unusable": [0, 0]}


def test_labels_that_moved_are_drift_with_their_effect(mill: Any) -> None:
    put(mill)
    mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 3] for n in range(400)})
    mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 2 if n % 9 == 2 else n % 3] for n in range(400)})
    found = drifted(mill)
    assert found["verdict"] == "drifted"
    assert found["labels"]["cramers_v"] > 0.05
    assert found["tests"]["labels"]["adjusted"] < 0.01
    assert 0.05 < found["flips"] < 0.15
    told = mill.command("drift", mill.runs[-2].name, "last")
    assert told.code == 0
    assert "verdict    drifted" in told.out
    assert json.loads(mill.command("drift", mill.runs[-2].name, "last", "--json").out)["verdict"] == "drifted"


def test_refusals_that_began_are_drift(mill: Any) -> None:
    put(mill)
    table = {f"row {n}.": LABELS[n % 3] for n in range(400)}
    mill.rehearse(options=NEW, answer="label", table=table)
    mill.rehearse(
        *[Rule(match=f"row {n}.", content="no label") for n in range(0, 400, 20)], options=NEW, answer="label", table=table
    )
    found = drifted(mill)
    assert found["verdict"] == "drifted"
    assert found["rates"]["unusable"] == [0.0, pytest.approx(0.05, abs=0.01)]
    assert [name for name, test in found["tests"].items() if test["adjusted"] <= 0.05 and test["matters"]] == ["unusable"]


def test_few_answers_do_not_tell(mill: Any) -> None:
    put(mill, 12)
    for _ in range(2):
        mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 3] for n in range(12)})
    assert drifted(mill)["verdict"] == "not enough to tell"


def test_texts_have_no_labels_but_lengths(mill: Any) -> None:
    mill.put_rows([{"id": n, "text": f"row {n} " + "word " * (n % 40)} for n in range(300)])
    mill.put_job("http://127.0.0.1:9/v1", input={"id": "id"}, model={"name": "sim"})
    mill.rehearse(options=NEW)
    mill.rehearse(options=NEW, answer="echo:40")
    found = drifted(mill)
    assert (found["verdict"], found["labels"]) == ("drifted", None)
    assert found["length"][1] < found["length"][0]


def test_of_a_run_without_answers_no_length_is_told(mill: Any) -> None:
    put(mill, 20)
    mill.rehearse(options=NEW, answer="label")
    mill.rehearse(options=NEW, answer="text:neither")  # nothing but quarantined
    told = mill.command("drift", mill.runs[0].name, "last")
    assert told.code == 0
    assert "answers    20 and 0, 0 common" in told.out
    assert "length" not in told.out


def test_a_run_is_not_held_against_itself(mill: Any) -> None:
    put(mill, 5)
    mill.rehearse(answer="label")
    told = mill.command("drift", "last", "last")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "is the same run as" in told.err


def test_what_is_asked_twice_tells_how_often_the_configuration_flips(mill: Any) -> None:
    put(mill, 60, quality={"repeat": 20}, limits={"order": "input"})
    # After the batch's sixty, every fourth is answered otherwise.
    script = [Rule(after=60, every=4, content='{"label": "blue"}')]
    done = mill.rehearse(*script, answer="label", table={f"row {n}.": "red" for n in range(60)})
    assert done.items == {"done": 60}
    assert done.seen["requests"] == done.result.status["requests"]["sent"] == 80
    assert done.result.status["units"]["total"] == 60
    found = done.result.status["quality"]["repeat"]
    assert (found["asked"], found["answered"], found["flipped"]) == (20, 20, 5)
    assert found["interval"] == pytest.approx([0.1119, 0.4687], abs=1e-3)
    again = mill.rehearse(answer="label")
    assert (again.seen["requests"], again.result.exit_code) == (0, 0)


def test_repeats_that_were_interrupted_go_on_and_are_not_asked_a_third_time(mill: Any) -> None:
    put(mill, 30, quality={"repeat": 20}, endpoint={"concurrency": 1})
    stopped = mill.rehearse(overrides=["limits.max_requests=40"], answer="label")
    assert (stopped.result.exit_code, stopped.seen["requests"]) == (5, 40)
    went_on = mill.rehearse(overrides=["limits.max_requests=1000"], answer="label")
    assert (went_on.result.exit_code, went_on.seen["requests"], went_on.result.run) == (0, 10, stopped.result.run)
    assert went_on.result.status["quality"]["repeat"]["answered"] == 20


def test_flips_beyond_its_own_are_told(mill: Any) -> None:
    table = {f"row {n}.": LABELS[n % 3] for n in range(400)}
    put(mill, quality={"repeat": 100})
    mill.rehearse(options=NEW, answer="label", table=table)
    flips = {f"row {n}.": LABELS[(n + 1) % 3] if n % 10 == 0 else LABELS[n % 3] for n in range(400)}
    mill.rehearse(options=NEW, answer="label", table=flips)
    found = drifted(mill)
    assert (found["own_flips"], found["flips"]) == (0.0, pytest.approx(0.1))
    assert found["tests"]["flips"]["matters"]
    assert found["verdict"] == "drifted"


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_jsn_07_one_trivial_answer_to_all_is_an_alarm_and_with_a_gate_no_success(mill: Any) -> None:
    mill.put_texts(200)
    mill.put_rows([{"text": "gold", "expected": {}}], "golden.jsonl")
    mill.put_job("http://127.0.0.1:9/v1", model={"name": "sim"}, answer={"schema": OPEN})
    done = mill.rehearse(answer="text:{}")
    said = "identical outputs 100%: 200 of 200 distinct requests were answered {}"
    assert done.result.exit_code == 0
    assert said in [event.message for event in done.events if isinstance(event, Warned)]
    assert done.result.status["advice"][0] == said
    gate = ['quality.evalset="golden.jsonl"', "quality.gate={ min_score = 0.5 }"]
    gated = mill.rehearse(options=NEW, answer="text:{}", overrides=gate)
    assert (gated.result.exit_code, gated.result.reason) == (6, "gate")
    assert said in (gated.result.message or "")
    assert gated.result.status["items"]["done"] == 200
    mill.output.unlink()
    again = mill.rehearse(answer="text:{}", overrides=gate)  # a scheduler that tries twice does not pass the gate
    assert (again.result.run, again.result.exit_code, again.seen["requests"]) == (gated.result.run, 6, 0)
    assert not mill.output.exists()
    assert mill.command("export", gated.result.run, "--to", "all.jsonl").code == 0
    assert len(mill.rows(mill.folder / "all.jsonl")) == 200


def test_a_run_says_by_itself_that_its_answers_have_drifted(mill: Any) -> None:
    put(mill)
    first = mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 3] for n in range(400)})
    assert first.result.status["quality"]["drift"] is None
    same = mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 3] for n in range(400)})
    assert same.result.status["quality"]["drift"]["verdict"] == "same"
    other = mill.rehearse(options=NEW, answer="label", table={f"row {n}.": LABELS[n % 2] for n in range(400)})
    assert other.result.status["quality"]["drift"]["verdict"] == "drifted"
    told = [event.message for event in other.events if isinstance(event, Warned)]
    expected = (
        f"the answers are not as those of run {same.result.run}: labels differ; "
        f"`headrace drift {same.result.run} {other.result.run}` says how much."
    )
    assert told == [expected]
    assert mill.command("report", "--to", "page.html").code == 0
    page = (mill.folder / "page.html").read_text()
    assert "Do the answers differ from the last run" in page
    assert f"Against run {same.result.run}: drifted." in page
