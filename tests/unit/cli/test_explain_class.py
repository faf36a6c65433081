"""`headrace explain-class`: the decision table for people and for programs."""

from __future__ import annotations

import json

import pytest

from headrace.cli import app
from headrace.runs.classes import explain_classes
from headrace.values import Kind


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert app.invoke(["explain-class", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_each_kind_stands_there_with_both_classes_side_by_side_in_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    said = lines(capsys)
    assert max(map(len, said)) <= 100
    assert said[0].split() == ["batch", "online"]
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in said if line}
    assert set(Kind) <= set(rows)
    assert rows["max_attempts"] == "6 3"
    assert rows["unit_deadline"] == "1 h 5 min"
    assert rows["give_up_after"] == "30 min 2 min"
    assert rows["timeout"] == "sent again yes back-off failed after 6 failed after 3"
    assert rows["overloaded"] == "sent again no back-off or told failed after 1 h failed after 5 min"
    assert rows["auth"] == "run stops no exit 4, pending exit 4, pending"
    assert rows["invalid_json"] == "asked again yes quarantined after 2 quarantined after 2"
    assert rows["bad_request"] == "failed yes failed at once failed at once"


def test_one_class_is_one_column(capsys: pytest.CaptureFixture[str]) -> None:
    said = lines(capsys, "online")
    assert said[0].split() == ["online"]
    assert "failed after 6" not in "\n".join(said)


def test_json_is_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads("\n".join(lines(capsys, "--json"))) == explain_classes()
    assert json.loads("\n".join(lines(capsys, "batch", "--json"))) == explain_classes(["batch"])


def test_another_class_is_an_error_of_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["explain-class", "bath", "--json"]) == 2
    assert "bath" in json.loads(capsys.readouterr().out)["error"]["message"]
