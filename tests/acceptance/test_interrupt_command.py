"""Ctrl-C and SIGTERM: once drains, twice ends at once, and the same command goes on."""

from __future__ import annotations

import signal

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_per_06_the_first_signal_drains_and_keeps_what_is_in_flight(mill, until, number: signal.Signals, code: int):
    mill.put_texts(100)
    with mill.sim("--latency-ms", "400") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 10})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 30)
        before = sim.stats()["requests"]
        process.send_signal(number)
        told = mill.told(process)
        seen = sim.stats()
        assert told.code == code
        document = told.document
        assert (document["state"], document["reason"], document["exit_code"]) == ("interrupted", "interrupted", code)
        assert seen["requests"] <= before + 10
        assert seen["aborted_by_client"] == 0
        done = document["items"]["done"]
        assert done == seen["requests"] == document["requests"]["sent"]
        assert document["items"]["pending"] == 100 - done
        assert not mill.output.exists()
        assert mill.statuses(mill.folder / "out.partial.jsonl") == ["done"] * done
        assert mill.status()["exit_code"] == code
        again = mill.run()
        assert (again.code, sim.stats()["requests"]) == (0, 100)
    assert mill.answers() == [f"row {n}." for n in range(100)]
    assert not (mill.folder / "out.partial.jsonl").exists()


@pytest.mark.slow
def test_per_06_the_second_signal_ends_at_once_and_loses_no_committed_answer(mill, until):
    mill.put_texts(40)
    with mill.sim(script=[{"after": 20, "times": 10, "action": "hang"}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 10})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["requests"] >= 30)
        until(lambda: sim.stats()["in_flight"]["now"] == 10)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        for line in process.stderr:  # said once dispatch has stopped; the drain would last 30 s from here
            if "interrupted" in line:
                break
        process.send_signal(signal.SIGINT)
        told = mill.told(process)
        assert told.code == 130
        done = told.document["items"]["done"]
        assert done == 20
        assert told.document["requests"]["sent"] == sim.stats()["requests"] == 30
        assert told.document["tokens"]["unknown_requests"] == 10
        assert len(mill.rows(mill.folder / "out.partial.jsonl")) == 20
        assert mill.run().code == 0
        assert sim.stats()["requests"] == 50
    assert mill.answers() == [f"row {n}." for n in range(40)]


@pytest.mark.slow
def test_the_drain_has_its_limit(mill, until):
    mill.put_texts(10)
    with mill.sim(script=[{"after": 5, "action": "hang"}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 3}, limits={"drain": "0.3s"})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["in_flight"]["now"] == 3 and sim.stats()["requests"] == 8)
        process.send_signal(signal.SIGTERM)
        told = mill.told(process)
        assert told.code == 143
        assert told.document["items"]["done"] == 5


@pytest.mark.slow
def test_with_retry_ambiguous_never_what_was_cut_is_failed_and_not_sent_again(mill, until):
    mill.put_texts(10)
    with mill.sim(script=[{"after": 5, "times": 3, "action": "hang"}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 3}, limits={"drain": "0.2s", "retry_ambiguous": "never"})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["in_flight"]["now"] == 3 and sim.stats()["requests"] == 8)
        process.send_signal(signal.SIGINT)
        assert mill.told(process).code == 130
        told = mill.run()
        assert told.code == 3
        assert told.document["items"] == told.document["items"] | {"done": 7, "failed": 3}
        assert sim.stats()["requests"] == 10
    assert [row["answer_error"].partition(":")[0] for row in mill.rows() if row["answer_error"]] == ["ambiguous"] * 3
