"""`headrace run` with limits: exit codes, one line of why, raised and gone on with, and nothing forgotten by a kill."""

from __future__ import annotations

import pytest

LIMIT = 0.045
PRICES = {"input_per_million": 1.0, "output_per_million": 4.0}
LAWS = ("--prices", "1,4", "--latency-ms", "40", "--jitter", "0.5")


def put(mill, url: str, **limits) -> None:
    mill.put_rows([{"id": n, "text": f"text {n} " + "word " * (n * 7 % 60)} for n in range(400)])
    mill.put_job(
        url, model={"max_tokens": 16}, answer={"on_truncated": "keep"}, endpoint={"concurrency": 16}, prices=PRICES, limits=limits
    )


@pytest.mark.slow
def test_a_limit_ends_a_run_with_5_and_the_same_command_goes_on_once_it_is_raised(mill):
    with mill.sim(*LAWS) as sim:
        put(mill, sim.url, max_cost=0.01)
        stopped = mill.command("run", "job.toml")
        assert stopped.code == 5
        lines = stopped.err.splitlines()
        assert sum(line.startswith("warning: limits.max_cost: ") for line in lines) == 1
        (why,) = [line for line in lines if line.startswith("headrace: ")]
        assert why.startswith("headrace: limits.max_cost = 0.0100 USD: 0.00")
        assert why.endswith("; raise the limit to go on")
        assert 0.008 < sim.stats()["bill"] <= 0.01
        assert mill.status()["state"] == "stopped"
        done = mill.run("--set", "limits.max_cost=1")
        assert done.code == 0
        assert sim.stats()["requests"] == 400
        assert done.document["cost"]["spent"] == pytest.approx(sim.stats()["bill"])
    assert len(mill.runs) == 1


@pytest.mark.slow
def test_a_kill_forgets_nothing_of_what_was_reserved(mill, until):
    with mill.sim(*LAWS) as sim:
        put(mill, sim.url, max_cost=LIMIT)
        for mark in (30, 60, 90):
            process = mill.start("run", "job.toml", "--quiet")
            until(lambda mark=mark, process=process: sim.stats()["requests"] >= mark or process.poll() is not None)
            process.kill()
            mill.told(process)
        told = mill.run()
        bill = sim.stats()["bill"]
        raised = mill.run("--set", "limits.max_cost=9")
    cost = told.document["cost"]
    assert told.document["requests"]["possibly_sent"] > 0
    assert not cost["known"]
    assert cost["spent"] <= bill <= LIMIT
    assert (
        bill <= cost["at_most"]
    )  # which may be more than the limit: what was leased counts whole, though not all of it had left
    assert (told.code, told.document["reason"]) == (5, "max_cost")
    assert (raised.code, raised.document["items"]["done"]) == (0, 400)


def test_a_limit_in_money_without_a_price_is_refused_before_anything_is_sent(mill):
    mill.put_texts(3)
    mill.put_job("http://127.0.0.1:9/v1", limits={"max_cost": 1.0})
    told = mill.command("run", "job.toml")
    assert told.code == 2
    (line,) = told.err.splitlines()
    assert line.startswith("headrace: limits.max_cost: the price of 'm' is not known: the job has no [prices]; write ")
    assert not mill.runs
