"""What a run keeps when its files, its input, its key or the clock do not behave."""

from __future__ import annotations

import gzip
import itertools
import os
from typing import Any

import pytest

from headrace.clock import WallClock
from headrace.errors import HeadraceError
from headrace.runs.pipeline import RunOptions
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}


def csv_rows(mill: Any, count: int) -> None:
    mill.write("in.csv", "id,text\n" + "".join(f"r{n},row {n}.\n" for n in range(count)))


def test_an_input_that_breaks_off_is_finished_as_far_as_it_was_read(mill):
    # Random bytes do not compress, so that a cut in the middle leaves records before it.
    rows = "".join(f'{{"id": "r{n}", "text": "row {n}.", "more": "{os.urandom(200).hex()}"}}\n' for n in range(5000))
    packed = gzip.compress(rows.encode())
    mill.write("in.jsonl.gz", packed[: len(packed) // 2])
    mill.put_job(URL, input={"path": "in.jsonl.gz"}, endpoint={"concurrency": 32})
    broken = mill.rehearse()
    status = broken.result.status
    assert (broken.result.exit_code, broken.result.reason) == (7, "input")
    assert status["input_complete"] is False
    assert 1000 < status["items"]["total"] < 5000
    assert status["items"]["pending"] == 0
    assert broken.seen["requests"] == status["items"]["done"] == status["items"]["total"]
    assert not mill.output.exists()


def test_per_02_a_torn_tail_of_the_copied_records_is_cut_back(mill):
    csv_rows(mill, 50)
    mill.put_job(URL, input={"path": "in.csv", "id": "id"}, endpoint={"concurrency": 1})
    stopped = mill.rehearse(Rule(after=10, status=429, body=QUOTA))
    assert stopped.items == {"done": 10, "pending": 40}
    with (stopped.result.folder / "records.jsonl").open("ab") as file:
        file.write(b'{"id": "torn", "text": "\xc3')
    finished = mill.rehearse()
    assert (finished.items, finished.seen["requests"]) == ({"done": 50}, 40)
    assert [(row["id"], row["answer"]) for row in mill.rows()] == [(f"r{n}", f"row {n}.") for n in range(50)]


def test_a_ledger_that_is_none_is_one_line(mill):
    mill.put_texts(5)
    mill.put_job(URL, endpoint={"concurrency": 1})
    stopped = mill.rehearse(Rule(after=2, status=429, body=QUOTA))
    for name in ("ledger.db", "ledger.db-wal"):
        (stopped.result.folder / name).write_bytes(b"this is no database, whatever it is called" * 200)
    try:
        done = mill.rehearse()
    except HeadraceError as refused:
        message = str(refused)
    else:  # passed over: it can neither go on nor end
        message = ""
        assert done.items == {"done": 5}
        assert done.result.run != stopped.result.run
    assert "\n" not in message


@pytest.mark.slow
def test_the_wall_clock_decides_nothing(mill, monkeypatch: pytest.MonkeyPatch):
    mill.put_texts(40)
    mill.put_job(URL, endpoint={"concurrency": 2})
    ticks = itertools.count()
    monkeypatch.setattr(WallClock, "now", lambda self: 1_700_000_000.0 - 3600.0 * next(ticks))
    stopped = mill.rehearse(Rule(after=10, status=429, body=QUOTA))
    assert stopped.items == {"done": 10, "pending": 30}
    monkeypatch.setattr(WallClock, "now", lambda self: 4_000_000_000.0)
    finished = mill.rehearse(Rule(index=5, status=500))
    assert (finished.items, finished.result.run) == ({"done": 40}, stopped.result.run)
    assert finished.seen["requests"] == 31


@pytest.mark.parametrize("as_list", [True, False])
def test_a_key_command_is_run_in_the_jobs_folder_and_again_after_a_401(mill, as_list: bool):
    mill.put_texts(20)
    mill.write("key.txt", "stale")
    command = "cat key.txt; printf fresh > key.txt"
    given = ["sh", "-c", command] if as_list else command
    mill.put_job(URL, endpoint={"api_key_command": given, "concurrency": 1}, limits={"max_attempts": 1})
    done = mill.rehearse(api_key="fresh")
    assert done.items == {"done": 20}
    assert done.seen["by_status"] == {"200": 20, "401": 1}
    assert done.result.status["requests"]["sent"] == 21


def test_reuse_by_the_runs_id_and_by_a_prefix_of_it(mill):
    mill.put_texts(6)
    mill.put_job(URL, endpoint={"identity": "prod"})
    first = mill.rehearse()
    mill.rehearse(overrides=["model.temperature=0.5"])
    for n, name in enumerate((first.result.run, first.result.run[:-1], str(first.result.folder))):
        done = mill.rehearse(
            options=RunOptions(reuse=name, new=True), overrides=["limits.max_attempts=2", f"output.path={n}.jsonl"]
        )
        assert (done.seen["requests"], done.items) == (0, {"done": 6})


def test_several_headers_reach_the_server_and_a_header_from_the_environment(mill, monkeypatch: pytest.MonkeyPatch):
    mill.put_texts(2)
    monkeypatch.setenv("TEAM", "Bearer from-env")
    mill.put_job(URL, endpoint={"headers_env": {"Authorization": "TEAM"}})
    assert mill.rehearse(api_key="from-env").items == {"done": 2}


def test_a_stop_finishes_reading_first(mill):
    mill.put_texts(4000)
    mill.put_job(URL, endpoint={"concurrency": 2})
    stopped = mill.rehearse(Rule(after=3, status=429, body=QUOTA))
    assert stopped.result.exit_code == 4
    assert stopped.result.status["input_complete"] is True
    assert stopped.items == {"done": 3, "pending": 3997}
