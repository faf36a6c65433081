"""Scores beside what could not be scored, comparisons on common records, and what the gate makes of them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scipy")

from headrace.quality.evaluation import Decision, Grade, by_class, compare, confusion, decide, document, interval
from headrace.spec import GateSpec


def grades(*scores: float | None, **more: Any) -> list[Grade]:
    return [
        Grade(f"k{n}", "x", "y", score, None if score is not None else "timeout: late", **more) for n, score in enumerate(scores)
    ]


def keyed(found: list[Grade]) -> dict[str, Grade]:
    return {grade.key: grade for grade in found}


def test_what_was_not_scored_stands_beside_the_score() -> None:
    found = document(grades(1.0, 0.0, 1.0, None, 1.0), None, Decision("none", [], []))
    assert (found["n_total"], found["n_scored"], found["n_error"], found["score"]) == (5, 4, {"timeout": 1}, 0.75)
    assert "not scored" in found["policy"]
    assert found["interval"] == pytest.approx([0.3006, 0.9544], abs=1e-4)


def test_why_records_were_not_scored_is_told_the_commonest_first() -> None:
    rare = Grade("k9", "x", None, None, "scorer: f raised ValueError: no")
    found = document([rare, *grades(None, 1.0, None)], None, Decision("none", [], []))
    assert found["causes"] == [
        {"error": "timeout: late", "count": 2, "id": "k0"},
        {"error": "scorer: f raised ValueError: no", "count": 1, "id": "k9"},
    ]


def test_nothing_scored_is_no_score() -> None:
    found = document(grades(None), None, Decision("none", [], []))
    assert (found["score"], found["interval"], found["per_class"]) == (None, [0.0, 1.0], {})


def test_graded_scores_have_an_interval_of_their_mean() -> None:
    low, high = interval([0.2, 0.4, 0.6, 0.8] * 10)
    assert 0.4 < low < 0.5 < high < 0.6


def test_classes() -> None:
    rows = [("red", "red"), ("red", "Red "), ("red", "blue"), ("blue", "blue"), ("blue", None), ("blue", "purple")]
    found = [Grade(str(n), expected, answer, float(expected == answer)) for n, (expected, answer) in enumerate(rows)]
    assert by_class(found)["red"] == {"precision": 1.0, "recall": pytest.approx(2 / 3), "f1": pytest.approx(0.8), "n": 3}
    assert by_class(found)["blue"]["precision"] == 0.5
    assert by_class(found)["purple"]["n"] == 0
    assert {(row["expected"], row["answer"]): row["count"] for row in confusion(found)} == {
        ("red", "red"): 2, ("red", "blue"): 1, ("blue", "blue"): 1, ("blue", None): 1, ("blue", "purple"): 1,
    }  # fmt: skip


def test_what_is_expected_only_once_each_are_no_classes() -> None:
    found = [Grade(str(n), f"text {n}", "x", 0.0) for n in range(10)]
    assert (by_class(found), confusion(found)) == ({}, [])
    assert by_class([Grade("a", 3, 3, 1.0)]) == {}


def test_only_what_both_have_scored_is_compared() -> None:
    old, new = grades(1.0, 1.0, None, 1.0), grades(1.0, None, 1.0, 0.0)
    found = compare("r", keyed(old), [*new, Grade("other", "x", "y", 1.0)], 0.02)
    assert (found.common, found.coverage) == (2, 0.4)
    assert [row["id"] for row in found.worse] == ["k3"]
    nothing = compare("r", {}, new, 0.02)
    assert (nothing.paired, nothing.verdict, nothing.as_json()["difference"]) == (None, "not enough to tell", None)


def test_graded_scores_and_groups_are_bootstrapped() -> None:
    old = keyed(grades(*[0.8] * 40))
    new = [Grade(f"k{n}", "x", "y", 0.5, group=n // 4 if n < 20 else None) for n in range(40)]
    found = compare("r", old, new, 0.02)
    assert found.verdict == "worse"
    assert found.paired is not None
    assert found.paired.difference == pytest.approx(-0.3)


GATE = GateSpec(min_score=0.8, baseline="last")


def test_no_gate_decides_nothing() -> None:
    assert decide(None, grades(0.0), None) == Decision("none", [], [])


@pytest.mark.parametrize(("scores", "gate", "said"), [
    ([1.0] * 9 + [0.0], "passed", ""),
    ([1.0] * 7 + [0.0] * 3, "refused", "the score 0.7 of 10 is below quality.gate.min_score = 0.8"),
])  # fmt: skip
def test_a_score_below_the_least_refuses(scores: list[float], gate: str, said: str) -> None:
    found = decide(GATE, grades(*scores), None)
    assert (found.gate, "; ".join(found.reasons)) == (gate, said)


def test_a_baseline_that_is_clearly_better_refuses() -> None:
    new = grades(*[0.0] * 20, *[1.0] * 80)
    found = decide(GateSpec(baseline="last"), new, compare("r", keyed(grades(*[1.0] * 100)), new, 0.02))
    assert found.gate == "refused"
    assert found.reasons == ["worse than run r by 0.2 on 100 common records"]


@pytest.mark.parametrize(("unclear", "gate"), [("warn", "passed"), ("refuse", "refused")])
def test_what_is_not_clear_warns_or_refuses(unclear: Any, gate: str) -> None:
    new = grades(*[0.0] * 3, *[1.0] * 27)
    found = decide(GateSpec(baseline="last", unclear=unclear), new, compare("r", keyed(grades(*[1.0] * 30)), new, 0.02))
    assert found.gate == gate
    (said,) = found.reasons or found.warnings
    assert said.startswith("whether it is worse than run r is not enough to tell; about ")


@pytest.mark.parametrize("unclear", ["warn", "refuse"])
def test_a_least_score_of_which_nothing_is_known_refuses(unclear: Any) -> None:
    found = decide(GateSpec(min_score=0.0, unclear=unclear), grades(None, None), None)
    assert found.gate == "refused"
    assert found.reasons[0] == "nothing could be scored, and quality.gate.min_score = 0 is wanted"


def test_evl_01_errors_neither_raise_the_score_nor_hide() -> None:
    """Run A scores 0.8 on each of ten; in run B the three hardest fail: seven are compared, and better is not said."""
    run_a = grades(*[0.8] * 10)
    run_b = grades(*[0.8] * 7, None, None, None)
    found = compare("a", keyed(run_a), run_b, 0.02)
    assert (found.common, found.coverage, found.verdict) == (7, 0.7, "not enough to tell")
    told = document(run_b, found.as_json(), decide(GateSpec(baseline="last", unclear="refuse"), run_b, found))
    assert (told["n_total"], told["n_scored"], told["n_error"]) == (10, 7, {"timeout": 3})
    assert told["gate"] == "refused"
    assert "3 of 10 records of the eval set could not be scored" in told["reasons"]
    assert "run a shares 70% of the eval set" in told["reasons"]


def test_all_that_got_worse_is_counted_and_named_as_people_know_it() -> None:
    old = {f'"r{n}"': Grade(f'"r{n}"', "x", "x", 1.0) for n in range(250)} | {"7": Grade("7", "x", "x", 1.0)}
    new = [Grade(key, "x", "y", 0.0) for key in old]
    found = compare("run", old, new, 0.02).as_json()
    assert (found["n_worse"], len(found["worse"])) == (251, 200)
    assert found["worse"][0] == {"id": "r0", "expected": "x", "old": "x", "new": "y"}
    assert (Grade("7", "x").id, Grade('"', "x").id, Grade('"a" (2)', "x").id) == ("7", '"', '"a" (2)')
