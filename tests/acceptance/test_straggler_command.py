"""What a running command says of the oldest request, and what becomes of one whose process was stopped for a while."""

from __future__ import annotations

import signal
import time

import pytest


@pytest.mark.slow
def test_net_01_the_oldest_request_in_flight_is_named_with_its_record_and_its_age(mill, until):
    mill.put_texts(30)
    with mill.sim(script=[{"match": "row 7.", "action": "hang"}]) as sim:
        mill.put_job(sim.url, input={"id": "id"}, endpoint={"concurrency": 4})
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["by_status"].get("200", 0) == 29)
        status = until(lambda: (found := mill.status())["in_flight"]["oldest_s"] and found)
        assert status["state"] == "running"
        assert status["in_flight"]["now"] == 1
        assert status["in_flight"]["oldest_item"] == "r7"
        assert 0 < status["in_flight"]["oldest_s"] < 60
        words = mill.command("status").out
        process.kill()
        mill.told(process)
        assert next(line for line in words.splitlines() if line.startswith("oldest")).startswith("oldest     item r7, for ")
        ended = mill.status()
    assert ended["in_flight"] == {"now": 0, "oldest_s": None, "oldest_item": None}
    assert "oldest" not in mill.command("status").out


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["pyreqwest", "aiohttp"])
def test_a_process_that_was_stopped_while_requests_were_in_flight_spends_no_attempt_on_them(mill, until, transport: str):
    mill.put_texts(12)
    with mill.sim("--latency-ms", "700") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4}, limits={"attempt_timeout": 2.5, "max_attempts": 1})
        process = mill.start("run", "job.toml", "--json", env={"HEADRACE_TRANSPORT": transport})
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 4 and sim.stats()["in_flight"]["now"] >= 3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)  # longer than an attempt may take
        process.send_signal(signal.SIGCONT)
        told = mill.told(process)
    assert told.code == 0, told.err
    assert told.document["items"]["done"] == 12
    assert set(told.document["requests"]["by_kind"]) <= {"timeout"}
