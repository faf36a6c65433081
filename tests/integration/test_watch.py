"""A run that is watched from outside: scraped over HTTP, and logged as JSON lines."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request

import pytest


def page_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


@pytest.mark.slow
def test_a_scrape_says_what_the_server_saw_and_the_log_is_json(mill, until):
    mill.put_texts(60)
    script = [{"match": "row 1.", "times": 2, "status": 500, "body": {"error": {"message": "\x1b[2Jno"}}}]
    with mill.sim("--latency-ms", "300", script=script) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4})
        process = mill.start("run", "job.toml", "--log-json", "--metrics-port", "0")
        first = json.loads(process.stderr.readline())
        assert first["event"] == "metrics"
        page = until(lambda: text if 'kind="ok"' in (text := page_of(first["url"])) else None)
        assert re.search(r'headrace_requests_total\{endpoint="[^"]+",kind="ok"\} [1-9]', page)
        assert re.search(r"^headrace_in_flight [0-4]\.0$", page, re.MULTILINE)
        assert re.search(r"^headrace_window 4\.0$", page, re.MULTILINE)
        told = mill.told(process)
        assert told.code == 0
        with pytest.raises(urllib.error.URLError):
            page_of(first["url"])
    lines = [json.loads(line) for line in told.err.splitlines()]
    assert (lines[-1]["event"], lines[-1]["exit_code"], lines[-1]["items"]["done"]) == ("ended", 0, 60)


@pytest.mark.slow
def test_a_port_in_use_is_refused_before_anything_is_sent(mill):
    mill.put_texts(3)
    with mill.sim() as sim, socket.create_server(("127.0.0.1", 0)) as taken:
        mill.put_job(sim.url)
        port = taken.getsockname()[1]
        told = mill.run("--metrics-port", str(port))
        assert told.code == 2
        assert told.err.count("\n") == 1
        assert f"127.0.0.1:{port} cannot be listened on" in told.err
        logged = mill.run("--metrics-port", str(port), "--log-json")
        assert json.loads(logged.err) | {"event": "refused", "exit_code": 2} == json.loads(logged.err)
        assert sim.stats()["requests"] == 0
