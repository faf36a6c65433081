"""Two runs held against each other as a whole: equal, shifted, too small to tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("scipy")

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


def test_a_run_is_not_held_against_itself(mill: Any) -> None:
    put(mill, 5)
    mill.rehearse(answer="label")
    told = mill.command("drift", "last", "last")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "is the same run as" in told.err
