"""Priorities on the wire: what a whole run sends, and what it makes of a server that refuses them."""

from __future__ import annotations

import pytest

from headrace.events import Warned

URL = "http://127.0.0.1:9/v1"


def test_a_number_reaches_the_server_with_each_request(mill):
    mill.put_texts(12)
    mill.put_job(URL, endpoint={"priority": -7})
    done = mill.rehearse()
    assert done.items == {"done": 12}
    assert done.seen["priorities"] == {"-7": 12}


@pytest.mark.parametrize("how", ["unknown", "disabled"])
def test_a_server_that_refuses_them_is_asked_without_and_no_attempt_is_spent(mill, how: str):
    mill.put_texts(30)
    mill.put_job(URL, endpoint={"priority": 100, "concurrency": 4}, limits={"max_attempts": 1})
    done = mill.rehearse(priority=how)
    assert done.items == {"done": 30}
    assert done.seen["priorities"] == {}
    assert 31 <= done.seen["requests"] <= 34


def test_the_class_decides_no_priority_and_an_unknown_server_is_sent_none(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    assert mill.rehearse().seen["priorities"] == {}
    mill.put_texts(4)
    mill.put_job(URL, endpoint={"priority": "low"})
    done = mill.rehearse()
    assert done.items == {"done": 4}
    assert done.seen["priorities"] == {}
    (told,) = [event.message for event in done.events if isinstance(event, Warned) and "priority" in event.message]
    assert "it cannot be told which server this is" in told


def test_a_priority_is_no_part_of_what_is_asked(mill):
    mill.put_texts(5)
    mill.put_job(URL)
    first = mill.rehearse()
    mill.put_job(URL, endpoint={"priority": 3})
    again = mill.rehearse()
    assert first.result.run == again.result.run
    assert again.seen["requests"] == 0
