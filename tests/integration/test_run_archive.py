"""A run's archive: what it keeps, and that the same requests can be sent again from it alone."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from headrace.errors import SpecError
from headrace.events import Warned
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import RunOptions, RunResult, execute

ROWS = [{"id": f"r{n}", "text": f"Größe {n} \u2028 <b>{n}</b>", "n": n / 7} for n in range(12)]
SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}, "required": ["b"]}
NEW = RunOptions(new=True)


class Recorder:
    """A server that keeps each request's bytes, and answers what the schema wants."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        message = {"role": "assistant", "content": '{"b": "x"}'}
        usage = {"prompt_tokens": 10, "completion_tokens": 3}
        return web.json_response(
            {"model": "m-2026", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
        )

    def run(self, job: Path, options: RunOptions | None = None, *overrides: str) -> tuple[list[bytes], RunResult, list[str]]:
        """Bodies in the order in which they came, how the run ended, and what was warned of."""
        said: list[str] = []

        async def running() -> RunResult:
            app = web.Application()
            app.router.add_post("/v1/chat/completions", self.answer)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            try:
                loaded = load_job(job, [f"endpoint.url=http://{host}:{port}/v1", *overrides])
                return await execute(
                    loaded, options, [lambda event: said.append(event.message) if isinstance(event, Warned) else None]
                )
            finally:
                await runner.cleanup()

        self.bodies = []
        result = asyncio.run(running())
        return self.bodies, result, said


@pytest.fixture
def put(mill: Any) -> Any:
    """A job that reads its prompt and its schema from files, keeps the order, and sends one at a time."""
    mill.put_rows(ROWS)
    (mill.folder / "prompt.md").write_text("Sort {{ text }} of {{ n }}.\n", encoding="utf-8")
    (mill.folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    mill.put_job(
        "http://127.0.0.1:9/v1",
        prompt={"user": None, "system": "You sort.", "user_file": "prompt.md"},
        model={"name": "m", "temperature": 0.1, "max_tokens": 64, "extra": {"top_p": 0.9, "stop": ["\n\n"]}},
        endpoint={"concurrency": 1, "identity": "x"}, answer={"schema": "schema.json"}, limits={"order": "input"},
    )  # fmt: skip
    return mill


@pytest.mark.slow
def test_the_same_requests_are_sent_again_byte_for_byte_though_the_job_is_gone(put: Any) -> None:
    recorder = Recorder()
    first, done, _ = recorder.run(put.folder / "job.toml")
    assert (done.exit_code, len(first)) == (0, len(ROWS))
    for name in ("job.toml", "prompt.md", "schema.json"):
        (put.folder / name).unlink()
    again, repeated, said = recorder.run(done.folder, NEW)
    assert again == first
    assert repeated.folder != done.folder
    assert (repeated.exit_code, said) == (0, [])
    assert len(recorder.run(done.folder / "run.json", NEW, "model.temperature=0.2")[0]) == len(ROWS)


@pytest.mark.slow
def test_without_new_it_is_the_run_itself_that_goes_on_or_is_finished(put: Any) -> None:
    recorder = Recorder()
    _, part, _ = recorder.run(put.folder / "job.toml", None, "limits.max_requests=5")
    assert (part.exit_code, part.status["items"]["done"]) == (5, 5)
    (put.folder / "job.toml").unlink()
    rest, whole, _ = recorder.run(part.folder, None, "limits.max_requests=100")
    assert (whole.folder, whole.exit_code, len(rest)) == (part.folder, 0, len(ROWS) - 5)
    assert recorder.run(part.folder)[0] == []


@pytest.mark.slow
def test_a_whole_folder_that_was_moved_is_run_again_where_it_is(put: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    first, done, _ = recorder.run(put.folder / "job.toml")
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.move(str(put.folder), moved)
    try:
        archived = moved / done.folder.relative_to(put.folder)
        again, repeated, _ = recorder.run(archived, NEW, "output.path=again.jsonl")  # the old output lies elsewhere now
        assert again == first
        assert repeated.folder.parent == archived.parent
        assert repeated.output is not None
        assert repeated.output.is_relative_to(moved)
    finally:
        shutil.rmtree(moved)


@pytest.mark.slow
def test_an_input_that_has_changed_is_said(put: Any) -> None:
    recorder = Recorder()
    _, done, _ = recorder.run(put.folder / "job.toml")
    put.put_rows(ROWS[:-1])
    _, _, said = recorder.run(done.folder, NEW)
    assert said == [f"the input is not what run {done.run} has read: its requests cannot all be sent again."]


@pytest.mark.slow
def test_what_it_keeps(put: Any) -> None:
    _, done, _ = Recorder().run(put.folder / "job.toml")
    kept = json.loads((done.folder / "run.json").read_bytes())
    assert kept["configuration"]["prompt"]["user"] == "Sort {{ text }} of {{ n }}.\n"
    assert kept["configuration"]["answer"]["schema"] == SCHEMA
    assert kept["configuration"]["limits"]["max_attempts"] == 6
    assert kept["models"] == ["m-2026"]
    assert kept["libraries"].keys() >= {"python", "jinja2", "orjson"}
    assert [one["size"] for one in kept["input"]] == [(put.folder / "in.jsonl").stat().st_size]
    assert kept["figures"]["items"]["done"] == len(ROWS)
    other = load_job(put.folder / "job.toml", ["prompt.system=Sort well."])
    assert kept["hashes"]["prompt"] != ""
    assert kept["hashes"]["content"] not in {"", other.spec.content_hash()}


def test_a_folder_without_a_run_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    for path in (tmp_path / "run.json", tmp_path):
        with pytest.raises(SpecError, match="no archive of a run"):
            load_job(path)
    (tmp_path / "run.json").write_text("[")
    with pytest.raises(SpecError, match="cannot be read"):
        load_job(tmp_path)


def test_a_run_that_is_named_is_meant_though_a_newer_one_is_equal(put: Any) -> None:
    recorder = Recorder()
    _, first, _ = recorder.run(put.folder / "job.toml")
    _, second, _ = recorder.run(put.folder / "job.toml", NEW)
    assert first.run != second.run
    bodies, meant, said = recorder.run(first.folder)
    assert (bodies, meant.run, meant.folder) == ([], first.run, first.folder)
    assert any(first.run in line for line in said)


def test_a_finished_run_s_folder_that_was_moved_alone_sends_nothing(put: Any, tmp_path: Path) -> None:
    recorder = Recorder()
    _, done, _ = recorder.run(put.folder / "job.toml")
    moved = tmp_path / "kept"
    shutil.move(str(done.folder), moved)
    bodies, again, _ = recorder.run(moved)
    assert (bodies, again.folder, again.exit_code) == ([], moved, 0)


def test_a_named_run_is_never_paid_for_again_by_accident(put: Any) -> None:
    recorder = Recorder()
    _, done, _ = recorder.run(put.folder / "job.toml")
    put.put_rows([*ROWS, {"id": "more", "text": "more", "n": 0}])
    with pytest.raises(SpecError, match=f"run {done.run} was named, and the input has changed since"):
        recorder.run(done.folder)
    assert recorder.bodies == []
