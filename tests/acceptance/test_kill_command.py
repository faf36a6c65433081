"""`headrace run`, killed without warning: what was paid for stays, what was in flight is asked again, nothing is missing."""

from __future__ import annotations

import json
import random
import shutil
import signal

import pytest

UNITS = 5000
CONCURRENCY = 16
LATENCY_S = 0.02
KILLS = 20


@pytest.mark.slow
def test_per_01_killed_twenty_times_a_run_resends_only_what_was_in_flight(mill, until):
    mill.put_rows([{"id": n, "text": f"unit {n} of many"} for n in range(UNITS)])
    with mill.sim("--latency-ms", str(1000 * LATENCY_S)) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": CONCURRENCY}, input={"id": "id"})
        last_tenth = 0.1 * CONCURRENCY / LATENCY_S  # the most that can complete in 0.1 s
        rng = random.Random(7)
        marks = sorted(rng.sample(range(200, UNITS - 200, 200), KILLS))
        repeats = 0
        for mark in marks:
            process = mill.start("run", "job.toml", "--quiet")
            until(lambda mark=mark: sim.stats()["prompts"] >= mark + rng.randrange(100))
            process.kill()
            mill.told(process)
            now = sim.stats()["repeats"]
            assert now - repeats <= CONCURRENCY + last_tenth
            repeats = now
        status = mill.status()
        assert (status["state"], status["exit_code"]) == ("interrupted", None)
        assert status["items"]["done"] + status["items"]["pending"] == status["items"]["total"]
        told = mill.run()
        seen = sim.stats()
    assert told.code == 0
    assert len(mill.runs) == 1
    sent = told.document["requests"]
    assert seen["prompts"] == UNITS
    assert seen["requests"] == UNITS + seen["repeats"]
    assert sent["sent"] - sent["possibly_sent"] <= seen["requests"] <= sent["sent"]
    rows = mill.rows()
    assert [row["id"] for row in rows] == list(range(UNITS))
    assert all(row["answer"] == row["text"] and row["answer_status"] == "done" for row in rows)


@pytest.mark.slow
def test_per_01_what_is_done_can_be_exported_before_the_run_goes_on(mill, until):
    mill.put_texts(100)
    with mill.sim("--latency-ms", "50") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 5})
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 60)
        process.kill()
        mill.told(process)
        assert not mill.output.exists()
        done = mill.status()["items"]["done"]
        assert done >= 60 - 5 - 10
        exported = mill.command("export", "--to", "sofar.jsonl", "--only", "done")
        assert exported.code == 0
        assert len(mill.rows(mill.folder / "sofar.jsonl")) == done
        assert mill.command("export", "--to", "all.csv").code == 0
        seen = sim.stats()["requests"]
        told = mill.run()
        assert (told.code, sim.stats()["requests"] - seen) == (0, 100 - done)
    assert sim_total_is_bounded(seen, done)
    assert mill.answers() == [f"row {n}." for n in range(100)]


def sim_total_is_bounded(seen: int, done: int) -> bool:
    """What had been sent and was not durable: in flight, or completed in the last 0.1 s."""
    return seen - done <= 5 + 10


@pytest.mark.slow
@pytest.mark.parametrize("dedupe", [True, False])
def test_per_03_equal_records_survive_a_kill(mill, until, dedupe: bool):
    mill.put_rows([{"text": text} for text in "AAAB"])
    with mill.sim(script=[{"after": 1, "times": 1, "action": "hang"}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 1}, input={"dedupe": dedupe})
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["requests"] == 2)
        until(lambda: mill.runs and mill.status()["items"]["done"] >= 1)
        process.send_signal(signal.SIGKILL)
        mill.told(process)
        assert mill.run().code == 0
        assert sim.stats()["requests"] == (2 if dedupe else 4) + 1  # the hanging one again
    assert mill.answers() == ["A", "A", "A", "B"]


@pytest.mark.slow
def test_a_kill_while_the_input_is_still_read_loses_no_record(mill, until):
    count = 30_000
    mill.write("in.csv", "id,text\n" + "".join(f"{n},text {n}\n" for n in range(count)))
    with mill.sim("--latency-ms", "5") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4}, input={"path": "in.csv", "id": "id", "where": "id | int % 20 == 0"})
        for _ in range(2):
            seen = sim.stats()["requests"]
            process = mill.start("run", "job.toml", "--quiet")
            until(lambda seen=seen: sim.stats()["requests"] > seen + 5)
            process.kill()
            mill.told(process)
        told = mill.run()
    assert told.code == 0, told.err
    assert told.document["items"]["done"] == count // 20
    assert told.document["excluded"] == count - count // 20
    assert [row["id"] for row in mill.rows()] == [str(n) for n in range(0, count, 20)]


@pytest.mark.slow
def test_per_02_an_output_is_whole_or_not_there(mill):
    mill.put_texts(50)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        assert mill.run().code == 0
    content = mill.output.read_bytes()
    assert content.count(b"\n") == 50
    assert all(json.loads(line) for line in content.splitlines())
    assert sorted(path.name for path in mill.folder.iterdir() if "out" in path.name) == ["out.jsonl"]


@pytest.mark.slow
def test_per_02_a_log_torn_anywhere_loses_its_tail_alone(mill, until):
    mill.put_texts(300)
    with mill.sim("--latency-ms", "10") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4})
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 150)
        process.kill()
        mill.told(process)
    (folder,) = mill.runs
    kept = mill.folder / "kept"
    shutil.copytree(folder, kept)
    whole = (kept / "ledger.db-wal").read_bytes()
    assert whole
    found = []
    for share in (0.0, 0.13, 0.5, 0.77, 0.999):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        (folder / "ledger.db-wal").write_bytes(whole[: int(len(whole) * share)])
        (folder / "ledger.db-shm").unlink(missing_ok=True)
        mill.output.unlink(missing_ok=True)
        finished = mill.rehearse()
        assert finished.items == {"done": 300}
        assert mill.answers() == [f"row {n}." for n in range(300)]
        found.append(300 - finished.seen["requests"])
    assert found == sorted(found)
    assert found[-1] > 100
