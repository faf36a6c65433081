"""What a run says when it stops names the endpoint once, says each thing once, and stays one line."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from headrace.events import Stopping
from headrace.observe.wording import said
from headrace.testing.sim import Rule

LIMITS = ["limits.give_up_after=1s", "endpoint.concurrency=4"]
STOPS: list[tuple[str, Rule | None]] = [
    ("auth", Rule(status=401, body={"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})),
    ("auth", Rule(status=403)),
    ("model_missing", Rule(status=404, body={"error": {"message": "The model `m` does not exist.", "code": "model_not_found"}})),
    ("quota", Rule(status=429, body={"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})),
    ("bad_endpoint", Rule(status=404, body={"error": {"message": "Unknown request URL.", "code": "unknown_url"}})),
    ("bad_endpoint", Rule(status=302, headers={"location": "http://elsewhere.invalid/"})),
    ("bad_endpoint", Rule(action="html")),
    ("misconfigured", Rule(status=500, body={"error": {"message": "Internal error"}})),
    ("endpoint_down", Rule(status=503)),
    ("endpoint_down", Rule(status=503, headers={"retry-after": "7200"})),
    ("endpoint_down", Rule(action="reset")),
    ("bad_endpoint", None),
]


def repeated(text: str) -> list[str]:
    """Addresses, and runs of three words, that stand in a line more than once."""
    words = re.findall(r"[\w:/.']+", text.lower())
    phrases = [
        *re.findall(r"http://[^\s;,]+?(?=:?[\s;,]|$)", text),
        *map(" ".join, zip(words, words[1:], words[2:], strict=False)),
    ]
    return sorted({phrase for phrase in phrases if phrases.count(phrase) > 1})


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "rule"), STOPS, ids=[f"{reason}-{number}" for number, (reason, _) in enumerate(STOPS)])
def test_a_stop_says_each_thing_once(mill: Any, reason: str, rule: Rule | None) -> None:
    mill.put_texts(12)
    mill.put_job("http://127.0.0.1:9/v1")
    limits = ["limits.give_up_after=60s", LIMITS[1]] if reason == "misconfigured" else LIMITS
    if rule is None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            gone = f"endpoint.url=http://127.0.0.1:{nobody.getsockname()[1]}/v1"
            ended = mill.rehearse(overrides=[*limits, gone])
    else:
        ended = mill.rehearse(rule, overrides=limits)
    assert ended.result.reason == reason, ended.result.message
    lines = [line for line in map(said, ended.events) if line is not None]
    for line in [ended.result.message, *lines]:
        assert repeated(line) == []
        assert "\n" not in line
        assert "?:" not in line
    assert [event.message for event in ended.events if isinstance(event, Stopping)] == [ended.result.message]


def test_after_a_stop_nothing_is_said_of_pauses_any_more(mill: Any) -> None:
    mill.put_texts(12)
    mill.put_job("http://127.0.0.1:9/v1")
    ended = mill.rehearse(Rule(status=503, headers={"retry-after": "7200"}), overrides=[*LIMITS, "model.name=sim"])
    lines = [line for line in map(said, ended.events) if line is not None]
    assert [line for line in lines if not line.startswith("stopping: ")] == []


def test_a_phrase_that_is_said_twice_is_found() -> None:
    assert repeated("http://h/v1 refuses: http://h/v1: connection refused") == ["http://h/v1"]
    assert repeated("the name is wrong; see whether the name is right") == ["the name is"]
    assert repeated("the name is wrong; see whether it is right") == []
