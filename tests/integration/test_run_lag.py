"""A run whose own event loop is kept busy: by a template, a schema or whatever else costs time where requests are read."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace.answers.judge import AnswerJudge
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import execute
from headrace.values import Answer, Failure, Reply


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["plain", "pyreqwest", "aiohttp"])
def test_net_12_the_loops_own_lag_fails_no_request_and_is_told(mill, monkeypatch: pytest.MonkeyPatch, transport: str):
    judge = AnswerJudge.judge

    def slow(self: AnswerJudge, reply: Reply) -> Answer | Failure:
        time.sleep(0.25)  # several replies one after another keep the loop for longer than an attempt may take
        return judge(self, reply)

    monkeypatch.setattr(AnswerJudge, "judge", slow)
    monkeypatch.setenv("HEADRACE_TRANSPORT", transport)
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))
    mill.put_texts(16)
    with mill.sim() as sim:
        job = mill.put_job(sim.url, endpoint={"concurrency": 8}, limits={"attempt_timeout": 1.2})
        status = asyncio.run(execute(load_job(job))).status
        assert (status["items"]["done"], status["requests"]["by_kind"]) == (16, {})
        assert sim.stats()["requests"] == 16
    assert status["concurrency"]["loop_lag_max_s"] > 0.2
