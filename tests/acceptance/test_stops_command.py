"""The installed command where the machine or the configuration is wrong: it stops with a line and a code, and goes on when mended."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow
KEY = "SECRET-TEST-123-abcdef"


def limited(what: int, amount: int) -> Callable[[], None]:
    """For a child that is about to start: no more of this than so much."""

    def limit() -> None:
        resource.setrlimit(what, (amount, amount))

    return limit


def test_per_10_a_full_disk_stops_the_run_and_nothing_is_done_that_is_not_durable(mill):
    mill.put_rows([{"id": n, "text": f"row {n} " + "x" * 2000} for n in range(600)])
    with mill.sim("--latency-ms", "5") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 8})
        told = mill.run(preexec_fn=limited(resource.RLIMIT_FSIZE, 500_000))
        assert told.code == 7, told.err
        assert told.document["reason"] == "disk"
        seen = sim.stats()["requests"]
        assert 0 < seen < 600
        assert not mill.output.exists()
        status = mill.status()
        done = status["items"]["done"]
        assert (status["items"]["failed"], status["items"]["quarantined"]) == (0, 0)
        assert done <= seen
        ledger = sqlite3.connect(mill.runs[0] / "ledger.db")
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        ledger.close()
        again = mill.run()
        assert again.code == 0
        assert len(mill.runs) == 1
        assert sim.stats()["prompts"] == 600
        assert sim.stats()["requests"] == seen + 600 - done
    assert [row["answer"] for row in mill.rows()] == [row["text"] for row in mill.rows()]
    assert len(mill.rows()) == 600


def test_a_folder_that_cannot_be_written_is_one_line_and_nothing_is_sent(mill):
    mill.put_texts(3)
    (mill.folder / ".headrace").write_text("a file stands in the way")
    with mill.sim() as sim:
        mill.put_job(sim.url)
        told = mill.run()
        assert sim.stats()["requests"] == 0
    assert told.code == 7
    assert len(told.err.splitlines()) == 1
    assert "--run-dir" in told.document["error"]["message"]


def _without_privilege() -> None:
    """Root may write anywhere; a child without these two capabilities may not."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_a_read_only_folder_is_one_line_and_nothing_is_sent(mill):
    mill.put_texts(3)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        mill.folder.chmod(0o555)
        try:
            told = mill.run(preexec_fn=_without_privilege)
        finally:
            mill.folder.chmod(0o755)
        assert sim.stats()["requests"] == 0
        assert told.code == 7
        assert len(told.err.splitlines()) == 1
        assert mill.run().code == 0


def test_an_output_folder_that_is_read_only_is_7_and_the_answers_are_kept(mill):
    mill.put_texts(20)
    results = mill.folder / "results"
    results.mkdir()
    with mill.sim() as sim:
        mill.put_job(sim.url, output={"path": "results/out.jsonl"})
        results.chmod(0o555)
        try:
            told = mill.run(preexec_fn=_without_privilege)
        finally:
            results.chmod(0o755)
        assert told.code == 7
        assert len([line for line in told.err.splitlines() if "headrace:" in line]) == 1
        sent = sim.stats()["requests"]
        again = mill.run()
        assert (again.code, sim.stats()["requests"]) == (0, 20)
        assert sent in {0, 20}  # refused before anything was sent, or all of it kept
    assert len(mill.rows(results / "out.jsonl")) == 20


def test_a_second_process_on_the_same_run_is_refused_and_the_first_goes_on(mill, until):
    mill.put_texts(60)
    with mill.sim(script=[{"match": "row 7.", "delay_s": 12}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4})
        first = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["requests"] == 60)
        second = mill.run()
        assert first.poll() is None
        assert second.code == 7
        assert second.document["error"]["kind"] == "lock"
        assert len(second.err.splitlines()) == 1
        assert str(first.pid) in second.err
        assert mill.told(first).code == 0
        assert sim.stats()["requests"] == 60
    assert len(mill.rows()) == 60


def test_few_open_files_lose_no_record(mill):
    mill.put_texts(300)
    with mill.sim("--latency-ms", "20") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 100})
        told = mill.run(preexec_fn=limited(resource.RLIMIT_NOFILE, 64))
        if told.code == 2:  # refused beforehand, in one line that says what to do
            assert len(told.err.splitlines()) == 1
            assert "concurrency" in told.err
            told = mill.run("--set", "endpoint.concurrency=16", preexec_fn=limited(resource.RLIMIT_NOFILE, 64))
        assert told.code == 0, told.err
        assert sim.stats()["prompts"] == 300
    assert mill.answers() == [f"row {n}." for n in range(300)]


@pytest.mark.parametrize(
    ("options", "wrong", "mended", "reason"),
    [
        (("--model", "m"), "model.name=other", None, "model_missing"),
        ((), "endpoint.url={url}x", None, "bad_endpoint"),
        (("--api-key", "right"), None, {"API_KEY": "right"}, "auth"),
    ],
    ids=["model", "path", "key"],
)
def test_what_is_wrong_is_mended_by_the_next_command(
    mill, options: tuple[str, ...], wrong: str | None, mended: dict[str, str] | None, reason: str
):
    mill.put_texts(30)
    with mill.sim(*options) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4, **({"api_key_env": "API_KEY"} if mended else {})})
        overrides = ["--set", wrong.format(url=sim.url)] if wrong else []
        told = mill.run(*overrides, env={"API_KEY": "wrong"})
        assert told.code == 4
        assert told.document["reason"] == reason
        assert told.document["items"]["pending"] == 30
        assert len([line for line in told.err.splitlines() if line.startswith("headrace: ")]) == 1
        assert sim.stats()["by_status"].get("200", 0) == 0
        told = mill.run(env=mended)
        assert told.code == 0
        assert sim.stats()["by_status"]["200"] == 30
    assert mill.answers() == [f"row {n}." for n in range(30)]


def test_killed_with_the_key_wrong_and_mended_a_run_still_ends_right(mill, until):
    mill.put_texts(200)
    with mill.sim("--latency-ms", "20", "--api-key", "right") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4, "api_key_env": "API_KEY"})
        process = mill.start("run", "job.toml", "--quiet", env={"API_KEY": "right"})
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 60)
        process.send_signal(signal.SIGKILL)
        mill.told(process)
        done = mill.status()["items"]["done"]
        stopped = mill.run(env={"API_KEY": "wrong"})
        assert (stopped.code, stopped.document["reason"]) == (4, "auth")
        assert stopped.document["items"]["done"] == done
        assert stopped.document["items"]["pending"] == 200 - done
        before = sim.stats()["by_status"]["200"]
        assert mill.run(env={"API_KEY": "right"}).code == 0
        assert sim.stats()["by_status"]["200"] - before == 200 - done
    assert mill.answers() == [f"row {n}." for n in range(200)]


def test_obs_01_the_key_is_in_nothing_that_is_written_or_said(mill):
    mill.put_texts(40)
    echo = f"<html>Authorization: Bearer {KEY} is wrong; see https://user:{KEY}@host/?api_key={KEY}</html>"
    script: list[dict[str, Any]] = [
        {"match": "row 1.", "status": 500, "body": echo},
        {"match": "row 2.", "status": 400, "body": {"error": {"message": f"bad header: Bearer {KEY}"}}},
        {"match": "row 3.", "content": "fine", "delay_s": 0.0},
        {"match": "row 4.", "action": "reset"},
        {"match": "row 5.", "body": {"error": {"code": 400, "message": f"{KEY} is not valid"}}},
        {"match": "row 6.", "status": 302, "headers": {"Location": f"http://127.0.0.1:9/?key={KEY}"}},
    ]
    told = []
    with mill.sim("--api-key", KEY, script=script) as sim:
        endpoint = {"api_key_env": "API_KEY", "headers_env": {"X-Team": "TEAM_KEY"}, "concurrency": 2}
        mill.put_job(sim.url, endpoint=endpoint, limits={"max_attempts": 2, "attempt_timeout": 2}, output={"details": True})
        (mill.folder / "script.jsonl").unlink()
        env = {"API_KEY": KEY, "TEAM_KEY": KEY}
        told.append(mill.command("run", "job.toml", env=env))
        assert told[0].code == 3
        told.append(mill.run("--new", "--set", "endpoint.url=http://nowhere.invalid/v1", env=env))
        assert told[1].code == 4
        told.append(mill.run("--new", env={**env, "API_KEY": KEY[::-1]}))
        told.append(mill.run("--set", f"endpoint.url={sim.url}?api_key={KEY}", env=env))
        told.append(mill.run("--set", f"endpoint.api_key={KEY}", env=env))
        told += [mill.command(name, "--json") for name in ("status", "failures", "runs", "show")]
        told.append(mill.command("export", "--to", "again.csv", "--details"))
    said = "".join(one.out + one.err for one in told)
    assert KEY not in said
    assert KEY[::-1] not in said
    files = [path for path in mill.folder.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.db" for path in files)
    for path in files:
        content = path.read_bytes()
        assert KEY.encode() not in content, path.name
        assert KEY[::-1].encode() not in content, path.name
