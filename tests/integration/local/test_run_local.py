"""`headrace run` with url = "local": the real llama.cpp, started by the run and ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from headrace.events import EndpointDown
from headrace.local.weights import CARRIERS, Weights
from headrace.runs import embedded
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import RunResult, execute

LABELS = ["database", "fonts", "games"]


def done_units(mill) -> int:
    """How many units of the job's only run are done by now."""
    if not (mill.runs and (mill.runs[0] / "ledger.db").exists()):
        return 0
    with contextlib.closing(sqlite3.connect(mill.runs[0] / "ledger.db")) as ledger, contextlib.suppress(sqlite3.OperationalError):
        return ledger.execute("SELECT count(*) FROM unit WHERE state = 2").fetchone()[0]
    return 0


def asked(mill) -> dict[int, tuple[int, int]]:
    """State and number of attempts of each unit of the job's only run."""
    with contextlib.closing(sqlite3.connect(mill.runs[0] / "ledger.db")) as ledger:
        rows = ledger.execute("SELECT seq, state, (SELECT count(*) FROM attempt WHERE attempt.unit = unit.seq) FROM unit")
        return {seq: (state, attempts) for seq, state, attempts in rows}


def run_here(mill, events: list | None = None) -> RunResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(mill.state))
        patch.setenv("HF_HUB_CACHE", str(mill.folder / "no-cache"))
        return asyncio.run(execute(load_job(mill.folder / "job.toml"), None, [] if events is None else [events.append]))


@pytest.mark.slow
def test_twelve_records_are_sorted_by_the_model_that_a_package_carries(mill, processes, real_weights: Weights):
    mill.env["HF_HUB_CACHE"] = str(mill.folder / "no-cache")
    mill.put_texts(12)
    mill.put_job("local", model={"name": "smollm2-135m-instruct", "temperature": 0, "max_tokens": 32}, answer={"labels": LABELS})
    process = mill.start("run", "job.toml", "--json")
    server = processes.server_of(process.pid)
    told = mill.told(process)
    assert told.code == 0, told.err
    assert processes.are_gone(server)
    assert told.document["items"]["done"] == 12
    assert set(mill.answers()) <= set(LABELS)
    assert told.document["requests"]["sent"] == 12
    (folder,) = mill.runs
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        assert ledger.execute("SELECT identity FROM endpoint").fetchall() == [(f"local:sha256:{CARRIERS[0].sha256}",)]


@pytest.mark.slow
def test_labels_are_scored_with_its_own_tokenizer(mill, local_job, real_weights: Weights):
    local_job(
        6,
        prompt={"user": "{{ text }} Does it draw? Answer Yes or No."},
        model={"weights": None, "extra": None},
        answer={"labels": ["Yes", "No"], "method": "score"},
    )
    told = mill.run()
    assert told.code == 0, told.err
    assert set(mill.answers()) <= {"Yes", "No"}
    assert all(0 < row["answer_confidence"] <= 1 for row in mill.rows())


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_asks_nothing_twice(mill, local_job, processes, until):
    count = 40
    local_job(count, endpoint={"concurrency": 1})
    process = mill.start("run", "job.toml", "--quiet")
    server = processes.server_of(process.pid)
    until(lambda: done_units(mill) >= 5)
    process.kill()
    mill.told(process)
    assert processes.are_gone(server)
    done = asked(mill)
    assert 5 <= sum(state == 2 for state, _ in done.values()) < count
    told = mill.run()
    assert told.code == 0, told.err
    assert told.document["items"]["done"] == count
    after = asked(mill)
    assert all(after[unit] == (2, 1) for unit, (state, _) in done.items() if state == 2)
    requests = told.document["requests"]
    assert requests["sent"] - requests["possibly_sent"] == count
    assert all(len(answer) == 3 for answer in mill.answers())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_drains_what_is_in_flight_while_the_server_still_answers(mill, local_job, processes, until, number, code):
    local_job(400)
    process = mill.start("run", "job.toml", "--json", process_group=0)
    server = processes.server_of(process.pid)
    until(lambda: done_units(mill) >= 5)
    os.killpg(process.pid, number)  # as a terminal sends it: to all of the group
    told = mill.told(process)
    assert told.code == code, told.err
    assert processes.are_gone(server)
    document = told.document
    assert document["requests"]["by_kind"] == {}
    assert document["items"]["done"] == document["requests"]["sent"] < 400


@pytest.mark.slow
def test_the_second_signal_ends_run_and_server_at_once(mill, local_job, processes, until):
    local_job(20, model={"extra": {"grammar": "root ::= [a-z] root"}})  # answers without an end: something is in flight
    process = mill.start("run", "job.toml", "--json")
    server = processes.server_of(process.pid)
    until(lambda: mill.runs and mill.status()["concurrency"]["now"] > 0)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    told = mill.told(process)
    assert told.code in {130, 143}, told.err
    assert processes.are_gone(server)


@pytest.mark.slow
def test_interrupted_while_the_model_loads_it_ends_and_so_does_the_server(mill, local_job, processes):
    local_job()
    process = mill.start("run", "job.toml")
    server = processes.server_of(process.pid)
    process.send_signal(signal.SIGINT)
    told = mill.told(process)
    assert told.code in {0, 130}, told.err
    assert processes.are_gone(server)


@pytest.mark.slow
def test_a_server_that_dies_is_started_again_and_the_run_goes_on(mill, local_job, processes, until):
    local_job(100)
    process = mill.start("run", "job.toml", "--json")
    first = processes.server_of(process.pid)
    until(lambda: done_units(mill) >= 5)
    os.kill(first, signal.SIGKILL)
    told = mill.told(process)
    assert told.code == 0, told.err
    assert processes.are_gone(first)
    assert told.document["items"]["done"] == 100
    assert set(told.document["requests"]["by_kind"]) == {"connection"}
    assert "the embedded model's server died: it was killed (signal 9)" in told.err


@pytest.mark.slow
def test_other_weights_in_their_place_answer_nothing_under_the_old_name(mill, local_job, processes, small: Path, until):
    copy = mill.folder / "w.gguf"
    shutil.copy(small, copy)
    local_job(100, model={"weights": "w.gguf"})
    process = mill.start("run", "job.toml", "--json")
    first = processes.server_of(process.pid)
    until(lambda: done_units(mill) >= 5)
    other = mill.folder / "other.gguf"
    shutil.copy(small, other)
    other.replace(copy)
    os.kill(first, signal.SIGKILL)
    told = mill.told(process)
    assert (told.code, told.document["reason"]) == (4, "bad_endpoint")
    assert "is not the file that it had loaded" in told.document["message"]
    assert told.document["items"]["pending"] > 0


@pytest.mark.slow
def test_a_server_that_dies_again_and_again_stops_the_run_with_the_rest_pending(mill, local_job, monkeypatch):
    local_job(40)
    monkeypatch.setattr(embedded, "RESTARTS", 0)
    opened = embedded.open_embedded

    async def opening(*given):
        endpoint = await opened(*given)
        send, sent = endpoint.send, []

        async def killing(request):
            sent.append(request)
            if len(sent) == 12:
                os.kill(endpoint._server.pid, signal.SIGKILL)
            return await send(request)

        monkeypatch.setattr(endpoint, "send", killing)
        return endpoint

    monkeypatch.setattr("headrace.runs.answerers.open_embedded", opening)
    events: list = []
    result = run_here(mill, events)
    assert (result.exit_code, result.reason) == (4, "bad_endpoint")
    assert result.message is not None
    assert "the embedded model's server died 1 times in a row; it was killed (signal 9)" in result.message
    items = result.status["items"]
    assert items["pending"] == 40 - items["done"] > 0
    assert not [event for event in events if isinstance(event, EndpointDown) and "\n" in event.why]


@pytest.mark.slow
def test_a_finished_job_starts_nothing_and_needs_no_weights_any_more(mill, local_job, small: Path):
    local_job(3)
    assert mill.run().code == 0
    small.rename(small.with_suffix(".away"))
    try:
        told = mill.run()
    finally:
        small.with_suffix(".away").rename(small)
    assert told.code == 0, told.err
    assert "nothing is sent" in told.err


@pytest.mark.slow
def test_other_weights_in_the_middle_of_a_run_are_told(mill, local_job, small: Path):
    local_job(100, model={"weights": "model.gguf"}, endpoint={"concurrency": 1})
    first = mill.folder / "model.gguf"
    kept = small.read_bytes()
    first.write_bytes(kept)
    process = mill.start("run", "job.toml", "--quiet")
    while done_units(mill) < 5:
        pass
    process.send_signal(signal.SIGINT)
    assert mill.told(process).code == 130
    first.write_bytes(kept + b"another hash")
    told = mill.run()
    assert told.code == 0, told.err
    one, other = (f"local:sha256:{hashlib.sha256(content).hexdigest()[:12]}" for content in (kept, kept + b"another hash"))
    assert f"answers so far came from {one}, the rest comes from {other}; --new asks all of one." in told.err


@pytest.mark.slow
def test_the_key_stands_in_no_file_of_the_run(mill, local_job, monkeypatch):
    key = "zq7-" + "k" * 30
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: key)
    local_job(3, output={"path": "out.jsonl", "details": True})
    events: list = []
    result = run_here(mill, events)
    assert result.exit_code == 0
    written = [path for path in mill.folder.rglob("*") if path.is_file()]
    assert {"ledger.db", "run.json", "out.jsonl"} <= {path.name for path in written}
    assert not [path for path in written if key.encode() in path.read_bytes()]
    assert key not in repr(events) + repr(result)


@pytest.mark.slow
def test_a_dead_weight_is_exit_2_and_leaves_no_run_behind(mill, local_job, small: Path):
    cut = mill.folder / "cut.gguf"
    cut.write_bytes(small.read_bytes()[:-1_000_000])
    local_job(3, model={"weights": "cut.gguf"})
    told = mill.run()
    assert (told.code, told.document["error"]["key"]) == (2, "model.weights")
    assert told.err == f"headrace: model.weights: {cut}: the file is cut short; fetch it again\n"
    assert not mill.runs
    local_job(3, model={"name": "llama-9b"})
    told = mill.run()
    assert (told.code, told.document["error"]["key"]) == (2, "model.name")
    assert 'it is "local" or names what was found: one-layer (model.weights)' in told.err
    assert not mill.runs


@pytest.mark.slow
def test_what_llama_cpp_will_not_load_is_exit_2_and_leaves_no_run_behind(mill, local_job, small: Path):
    content = bytearray(small.read_bytes())
    place = content.index(b"general.architecture") + len("general.architecture") + 12
    content[place : place + 5] = b"blama"
    (mill.folder / "new.gguf").write_bytes(content)
    local_job(3, model={"weights": "new.gguf"})
    told = mill.run()
    assert (told.code, told.document["error"]["key"]) == (2, "model.weights")
    assert "unknown model architecture: 'blama'" in told.err
    assert told.err.count("\n") == 1
    assert not mill.runs
