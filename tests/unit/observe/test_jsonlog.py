"""A log for programs: each line is one object, equal ones are counted, and nothing in it commands anything."""

from __future__ import annotations

import io
import json
from typing import Any

from headrace.events import EndpointDown, Event, Progress, Stopping, Tried, Warned
from headrace.observe.jsonlog import JsonPainter, JsonWords, log_line
from headrace.observe.progress import Display
from headrace.observe.repeats import DISTINCT

SNAPSHOT = Progress(
    total=10, done=4, failed=0, quarantined=0, rejected=0, reading=False, in_flight=2, window=8, retries=0, prompt_tokens=0,
    completion_tokens=0, units_per_second=1.0, oldest_in_flight_s=1.23456, waiting=0, bound_by=None, paused_for_s=None,
    paused_why=None,
)  # fmt: skip


class Log:
    """A display that logs to memory; the test turns its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        words = JsonWords(lambda: 1_000_000_000.5)
        self.display = Display(JsonPainter(self.stream, words), lambda: self.now, words)

    def tell(self, *events: Event, last: bool = False) -> list[dict[str, Any]]:
        for event in events:
            self.display(event)
        self.display.paint(last=last)
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_an_event_is_an_object_with_time_level_and_its_fields() -> None:
    assert Log().tell(EndpointDown("http://a/v1", 2.0, "refused")) == [
        {
            "time": "2001-09-09T01:46:40.500Z", "level": "error", "event": "endpoint_down", "endpoint": "http://a/v1",
            "message": "http://a/v1 is held to be down, next try in 2 s: refused", "seconds": 2.0, "why": "refused", "times": 1,
        }
    ]  # fmt: skip
    assert [line["event"] for line in Log().tell(Stopping("quota", "no money", 3))] == ["stopping"]


def test_equal_errors_are_one_line_and_a_count() -> None:
    lines = Log().tell(*(Warned(f"item {number} failed") for number in range(150)), last=True)
    assert [(line["event"], line["times"]) for line in lines] == [("warned", 1), ("warned", 100), ("repeated", 150)]
    assert lines[-1]["message"] == "warning: item 149 failed"


def test_many_kinds_of_messages_are_only_counted() -> None:
    lines = Log().tell(*(Warned(f"kind {'x' * number}") for number in range(1000)), last=True)
    assert len(lines) == DISTINCT + 2
    assert "times" not in lines[-1]
    assert lines[-1]["message"] == f"{1000 - DISTINCT} messages of other kinds were not shown"


def test_hostile_text_is_escaped_and_stays_one_line() -> None:
    log = Log()
    (line,) = log.tell(EndpointDown("http://a/v1", 1.0, 'x"}\n{"event": "forged"}\x1b[2J\u2028\u202e' + "y" * 5000))
    written = log.stream.getvalue()
    assert written.isascii()
    assert written.count("\n") == 1
    assert "\x1b" not in line["why"]
    assert len(line["why"]) <= 400
    assert len(log_line(0.0, "error", "refused", "z" * 5000)) < 600


def test_figures_come_every_ten_seconds_and_at_the_end() -> None:
    log = Log()
    for log.now in (0.0, 1.0, 9.9, 10.0):
        lines = log.tell(Progress(**{name: getattr(SNAPSHOT, name) for name in SNAPSHOT.__struct_fields__}))
    assert [line["event"] for line in lines] == ["progress", "progress"]
    assert lines[0]["oldest_in_flight_s"] == 1.235
    assert len(log.tell(SNAPSHOT, last=True)) == 3


def test_single_requests_are_not_logged() -> None:
    assert Log().tell(Tried("a", None, 0.1, 1, 1, 0, goes_on=False)) == []
