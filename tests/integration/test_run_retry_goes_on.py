"""A retry under changed content keys that was interrupted goes on with those keys, whichever command follows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import headrace
from headrace.errors import SpecError
from headrace.runs.registry import RunFolder
from headrace.runs.retry import retry
from headrace.testing.sim import Rule, SimOptions, SimServer

RECORDS = 40


def spec(url: str) -> dict[str, object]:
    return {
        "name": "again",
        "input": {"path": "in.jsonl"},
        "prompt": {"user": "{{ text }}"},
        "model": {"name": "m", "max_tokens": 1},
        "endpoint": {"url": url, "concurrency": 4},
        "output": {"path": "out.jsonl"},
    }


async def interrupted_retry(folder: Path) -> tuple[RunFolder, dict[str, object]]:
    """A finished run whose answers were all cut, and a retry with room for them that its endpoint's quota ended half way."""
    rows = "".join(json.dumps({"text": f"a text of several words, number {n}"}) + "\n" for n in range(RECORDS))
    (folder / "in.jsonl").write_text(rows, encoding="utf-8")
    quota = Rule(status=429, body={"error": {"code": "insufficient_quota", "message": "no credit"}}, after=RECORDS + 15)
    async with SimServer(SimOptions(script=(quota,))) as sim:
        job = spec(sim.url)
        first = await headrace.arun(headrace.Job(base=folder, **job))
        assert first.status["items"]["quarantined"] == RECORDS
        run = RunFolder(first.folder)
        stopped = await retry(run, None, ["model.max_tokens=64"])
        assert (stopped.exit_code, stopped.reason) == (4, "quota")
        assert stopped.status["items"]["done"] == 15
    return run, job


def finish(folder: Path, how: str) -> dict[str, object]:
    async def main() -> dict[str, object]:
        run, job = await interrupted_retry(folder)
        async with SimServer(SimOptions()) as sim:
            url = f"endpoint.url={sim.url}"
            if how == "run":
                job["endpoint"] = {"url": sim.url, "concurrency": 4}
                return (await headrace.arun(headrace.Job(base=folder, **job))).status
            overrides = [url, "model.max_tokens=64"] if how == "the same retry" else [url]
            return (await retry(run, None, overrides)).status

    return asyncio.run(main())


@pytest.mark.parametrize("how", ["run", "retry", "the same retry"])
def test_it_goes_on_with_the_keys_it_had(tmp_path: Path, how: str) -> None:
    status = finish(tmp_path, how)
    assert status["items"] == {"total": RECORDS, "done": RECORDS, "failed": 0, "quarantined": 0, "rejected": 0, "pending": 0}
    assert status["exit_code"] == 0


def test_other_keys_are_refused_while_it_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        run, _ = await interrupted_retry(tmp_path)
        await retry(run, None, ["model.max_tokens=128"])

    with pytest.raises(SpecError, match="is not finished"):
        asyncio.run(main())
