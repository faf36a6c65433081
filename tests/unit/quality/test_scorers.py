"""How answers are held against what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.quality.scorers import ScoringError, check_expected, normal, scorer_of
from headrace.spec import QualitySpec


def score(scorer: str, answer: Any, expected: Any, base: Path = Path(), record: Any = None, **more: Any) -> float:
    return scorer_of(QualitySpec(scorer=scorer, **more), base)(answer, expected, record or {})


@pytest.mark.parametrize(
    ("scorer", "answer", "expected", "right"),
    [
        ("exact", " Red\n", "red", 1),
        ("exact", "ﬁne  day", "FINE day", 1),
        ("exact", "red.", "red", 0),
        ("exact", {"a": 1, "b": [1.0, "X"]}, {"b": [1, "x"], "a": 1.0}, 1),
        ("exact", {"a": 1}, {"a": 1, "b": 2}, 0),
        ("exact", True, 1, 0),
        ("exact", "3", 3, 1),
        ("exact", None, None, 1),
        ("exact", None, "", 0),
        ("exact", [1], "[1]", 0),
        ("exact", [1, 2], [1], 0),
        ("numeric", "3.50", 3.5, 1),
        ("numeric", 3.6, 3.5, 0),
        ("numeric", "three", 3, 0),
        ("numeric", "nan", 3, 0),
        ("numeric", True, 1, 0),
        ("contains", "The answer is  RED, surely", "answer is red", 1),
        ("contains", "red and blue", ["red", "blue"], 1),
        ("contains", "red", ["red", "blue"], 0),
        ("contains", {"a": "Red"}, "red", 1),
        ("regex", "order 4711", r"\b\d{4}\b", 1),
        ("regex", "order 47", r"\b\d{4}\b", 0),
        ("json_subset", {"a": 1, "b": {"c": [1, 2, 3]}}, {"b": {"c": [3, 1]}}, 1),
        ("json_subset", {"a": 1}, {"b": 1}, 0),
        ("json_subset", {"a": [1]}, {"a": [1, 2]}, 0),
        ("json_subset", "text", {"a": 1}, 0),
    ],
)
def test_right_or_wrong(scorer: str, answer: Any, expected: Any, right: int) -> None:
    assert score(scorer, answer, expected) == right


def test_a_tolerance_is_how_far_off_is_right() -> None:
    assert score("numeric", 10.4, 10, tolerance=0.5) == 1
    assert score("numeric", 10.6, 10, tolerance=0.5) == 0


def test_a_field_is_scored_alone() -> None:
    assert score("field", {"a": "X", "b": 1}, {"a": "x"}, field="a") == 1
    assert score("field", {"a": "X", "b": 1}, "x", field="a") == 1
    assert score("field", {"b": 1}, "x", field="a") == 0
    assert score("field", "x", "x", field="a") == 0
    with pytest.raises(SpecError, match=r"needs quality\.field"):
        score("field", {}, {})


def test_a_function_beside_the_job_scores(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def leave(*_):\n    raise SystemExit(3)\n\n\ndef half(answer, expected, record):\n    return 0.5 if record['n'] else 1 / 0\n\n\ndef odd(*_):\n    return 7\n\n\nword = 3\n"
    )
    assert score("python:mine:half", "a", "b", tmp_path, {"n": 1}) == 0.5
    with pytest.raises(ScoringError, match="half raised ZeroDivisionError: division by zero"):
        score("python:mine:half", "a", "b", tmp_path, {"n": 0})
    with pytest.raises(ScoringError, match="leave raised SystemExit: 3"):
        score("python:mine:leave", "a", "b", tmp_path)
    (tmp_path / "gone.py").write_text("import sys\n\nsys.exit(3)\n")
    with pytest.raises(SpecError, match="cannot be used"):
        score("python:gone:f", "a", "b", tmp_path)
    with pytest.raises(ScoringError, match="'7', and not a number from 0 to 1"):
        score("python:mine:odd", "a", "b", tmp_path)
    for name, why in (("nowhere:f", "there is no"), ("mine:lacking", "cannot be used"), ("mine:word", "is no function")):
        with pytest.raises(SpecError, match=why):
            score(f"python:{name}", "a", "b", tmp_path)


def test_what_a_function_prints_is_no_output_and_the_record_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loud.py").write_text(
        "print('in')\n\n\ndef f(answer, expected, record):\n    print('x')\n    record.clear()\n    return 1\n"
    )
    record = {"n": 1}
    assert score("python:loud:f", "a", "b", tmp_path, record) == 1.0
    assert record == {"n": 1}
    assert capsys.readouterr() == ("", "in\nx\n")


def test_what_cannot_be_expected_is_found_before_anything_is_asked() -> None:
    assert check_expected(QualitySpec(scorer="regex"), "[") is not None
    assert check_expected(QualitySpec(scorer="regex"), 3) is not None
    assert check_expected(QualitySpec(scorer="regex"), "a+") is None
    assert check_expected(QualitySpec(scorer="numeric"), "many") is not None
    assert check_expected(QualitySpec(scorer="numeric"), "3") is None
    assert check_expected(QualitySpec(), "anything") is None


def test_normal_text() -> None:
    assert normal("  Straße\u00a0 A\n") == "strasse a"
