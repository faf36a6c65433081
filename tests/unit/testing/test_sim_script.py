"""Scripted replies: which rule means which request, and what a script file may hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.testing.sim import Rule
from headrace.testing.sim.options import SimOptions
from headrace.testing.sim.script import Script


def picked(rules: list[Rule], count: int) -> list[int | None]:
    script = Script(rules)
    return [rule.status if (rule := script.pick(n, n * 0.5, f"record {n}")) else None for n in range(1, count + 1)]


def test_a_rule_means_requests_by_number():
    assert picked([Rule(index=3, status=500)], 4) == [None, None, 500, None]
    assert picked([Rule(every=2, status=500)], 5) == [None, 500, None, 500, None]
    assert picked([Rule(after=3, status=429)], 5) == [None, None, None, 429, 429]


def test_a_rule_means_requests_by_prompt_and_by_time():
    assert picked([Rule(match="record 2", status=400)], 3) == [None, 400, None]
    assert picked([Rule(seconds=(1, 2), status=503)], 5) == [None, 503, 503, None, None]


def test_all_conditions_of_a_rule_must_hold():
    assert picked([Rule(every=2, match="4", status=500)], 4) == [None, None, None, 500]


def test_a_rule_used_up_leaves_the_request_to_the_next():
    assert picked([Rule(times=2, status=429), Rule(times=1, status=500)], 4) == [429, 429, 500, None]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"action": "explode"}, "action must be one of"),
        ({"status": 42}, "status"),
        ({"index": 0}, "from 1"),
        ({"delay_s": -1}, "delay_s"),
        ({"headers": {"x": "a\r\nevil: 1"}}, "one line"),
        ({"headers": {"bad name": "x"}}, "headers"),
        ({"colour": 500}, "colour"),
    ],
)
def test_impossible_rules_are_refused(wrong: dict[str, Any], says: str):
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.convert(wrong, Rule)


def test_a_body_is_text_or_json():
    assert Rule(body="<html>").body_bytes() == b"<html>"
    assert Rule(body={"choices": None}).body_bytes() == b'{"choices":null}'
    assert Rule(body=None).body_bytes() == b"null"
    assert Rule().body_bytes() is None


def test_the_key_is_in_no_repr():
    assert "hush" not in repr(SimOptions(api_key="hush"))
