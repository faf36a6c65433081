"""A run of each class over HTTP: the same job, the same faults; and what its archive and a retry make of the class."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace

from headrace.events import Warned
from headrace.policy.classes import CLASSES, Backoff
from headrace.runs.registry import RunFolder
from headrace.runs.retry import retry
from headrace.testing.sim import Rule, SimOptions, SimServer

URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(("name", "items", "posts"), [("online", {"done": 19, "failed": 1}, 22), ("batch", {"done": 20}, 23)])
@pytest.mark.slow
def test_the_class_decides_how_often_a_unit_is_tried(mill, monkeypatch, name: str, items: dict[str, int], posts: int):
    for known, manners in [*CLASSES.items()]:  # what follows from them, but for the waits
        monkeypatch.setitem(CLASSES, known, replace(manners, backoff=Backoff(0.02, 0.1)))
    mill.put_texts(20)
    mill.put_job(URL, limits={"class": name}, endpoint={"concurrency": 4})
    ended = mill.rehearse(Rule(match="row 3.", times=3, action="reset"))
    assert ended.items == items
    assert ended.seen["requests"] == posts


def test_the_archive_shows_what_followed_from_the_class(mill):
    mill.put_texts(2)
    mill.put_job(URL, limits={"class": "online", "drain": 7})
    folder = mill.rehearse().result.folder
    limits = json.loads((folder / "run.json").read_text())["configuration"]["limits"]
    assert (limits["class"], limits["max_attempts"], limits["give_up_after"], limits["drain"]) == ("online", 3, 120.0, 7.0)


def test_another_class_goes_on_with_the_same_run(mill):
    mill.put_texts(6)
    mill.put_job(URL, endpoint={"concurrency": 1})
    quota = Rule(after=3, status=429, body={"error": {"code": "insufficient_quota", "message": "no credit"}})
    first = mill.rehearse(quota)
    second = mill.rehearse(overrides=["limits.class=online"])
    assert first.result.run == second.result.run
    assert (second.items, second.seen["requests"]) == ({"done": 6}, 3)


def test_a_retry_takes_the_limits_of_another_class(mill, monkeypatch: pytest.MonkeyPatch):
    mill.put_texts(2)
    mill.put_job(URL, limits={"class": "online", "unit_deadline": 200})
    failed = mill.rehearse(Rule(status=400, match="row 1."))
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))

    async def again() -> dict[str, object]:
        async with SimServer(SimOptions()) as sim:
            ended = await retry(RunFolder(failed.result.folder), None, ["limits.class=batch", f"endpoint.url={sim.url}"])
            assert ended.exit_code == 0
        return json.loads((failed.result.folder / "run.json").read_text())["configuration"]["limits"]

    limits = asyncio.run(again())
    assert (limits["class"], limits["max_attempts"], limits["unit_deadline"]) == ("batch", 6, 200.0)


@pytest.mark.slow
def test_a_batch_that_is_marked_online_is_told_so_once_and_by_the_estimate(mill):
    mill.put_texts(1200)
    mill.put_job(URL, model={"name": "sim"}, limits={"class": "online"})
    told = [event.message for event in mill.rehearse().events if isinstance(event, Warned)]
    assert len(told) == 1
    assert told[0].endswith('limits.class = "batch"')
    mill.put_texts(1201)
    assert 'limits.class = "batch"' in " ".join(mill.command("estimate", "job.toml").out.split()).replace("note: ", "")
    mill.put_job(URL, model={"name": "sim"}, limits={"class": "batch"}, output={"path": "b.jsonl"})
    assert [event for event in mill.rehearse().events if isinstance(event, Warned) and "limits.class" in event.message] == []
