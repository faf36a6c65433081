"""The installed command: its exit codes, its one JSON document, its few lines, and figures that equal the server's."""

from __future__ import annotations

import json

import pytest

from headrace import __version__

pytestmark = pytest.mark.slow
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}
DOCUMENT = {
    "run", "name", "state", "reason", "exit_code", "input_complete", "items", "units", "requests", "tokens", "cost", "rate",
    "latency_s", "context_tokens", "concurrency", "quality", "advice",
}  # fmt: skip


def test_the_document_of_run_and_status_holds_the_servers_own_figures(mill):
    mill.put_rows([{"id": n, "text": f"row {n % 150}."} for n in range(200)])
    with mill.sim("--error-rate", "0.02", "--seed", "3") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 8})
        told = mill.run()
        seen = sim.stats()
    assert told.code == 0
    document = told.document
    assert set(document) >= DOCUMENT
    assert document["state"] == "finished"
    assert document["items"] == {"total": 200, "done": 200, "failed": 0, "quarantined": 0, "rejected": 0, "pending": 0}
    assert document["units"] == {"total": 150, "done": 150, "duplicates_saved": 50}
    assert document["requests"]["sent"] == seen["requests"]
    assert document["requests"]["retries"] == seen["repeats"] == seen["by_status"]["500"]
    assert document["requests"]["by_kind"] == {"server_error": seen["by_status"]["500"]}
    assert {name: document["tokens"][name] for name in ("prompt", "completion", "cached")} == seen["tokens"]
    assert document["tokens"]["wasted"] == 0
    assert document["cost"] == {
        "spent": 0.0, "currency": "USD", "known": False, "useful": 0.0, "wasted": 0.0, "at_most": None,
    }  # fmt: skip
    assert document["latency_s"]["p50"] <= document["latency_s"]["p95"] <= document["latency_s"]["max"]
    stable = set(document) - {"rate", "output"}
    later = mill.status()
    assert {name: later[name] for name in stable} == {name: document[name] for name in stable}
    assert json.loads((mill.runs[0] / "run.json").read_bytes())["figures"]["items"] == document["items"]


def test_without_json_stdout_says_it_in_a_few_lines_and_quiet_says_nothing(mill):
    mill.put_texts(20)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        told = mill.command("run", "job.toml")
        assert told.code == 0
        assert "20 of 20 done" in told.out
        assert "out.jsonl" in told.out
        assert len(told.out.splitlines()) <= 4
        assert "\x1b" not in told.out + told.err
        quiet = mill.command("run", "job.toml", "--quiet", "--new")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_the_commands_that_read_tell_of_the_newest_run_and_exit_0(mill):
    mill.put_texts(20)
    with mill.sim(
        script=[
            {"match": "row 3.", "status": 400, "body": {"error": {"message": "no"}}},
            {"after": 10, "status": 429, "body": QUOTA},
        ]
    ) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 1}, limits={"order": "input"})
        stopped = mill.run()
    assert stopped.code == 4
    document = mill.status()
    assert (document["state"], document["reason"], document["exit_code"]) == ("stopped", "quota", 4)
    assert (document["items"]["done"], document["items"]["failed"], document["items"]["pending"]) == (9, 1, 10)
    words = mill.command("status")
    assert words.code == 0
    assert "9 of 20 done" in words.out
    run = document["run"]
    assert mill.status(run)["run"] == mill.status(run[:-1])["run"] == mill.status(str(mill.runs[0]))["run"] == run
    (entry,) = mill.command("runs", "--json").document["runs"]
    assert {name: entry[name] for name in ("run", "name", "state")} == {"run": run, "name": "job", "state": "stopped"}
    assert entry["items"] == document["items"]
    assert entry["started"].endswith("Z")
    groups = mill.command("failures", "--json").document["groups"]
    assert [(group["status"], group["kind"], group["count"], group["examples"]) for group in groups] == [
        ("failed", "bad_request", 1, [4]),
    ]  # fmt: skip
    assert "bad_request" in mill.command("failures").out
    shown = mill.command("show", "last").document
    assert shown["configuration"]["model"]["name"] == "m"
    exported = mill.command("export", "--to", "sofar.parquet", "--details")
    assert (exported.code, "20 records" in exported.out) == (0, True)
    below = mill.folder / "below" / "deeper"
    below.mkdir(parents=True)
    found = mill.told(mill.start("status", "--json"))
    assert found.document["run"] == run


def test_no_run_answers_to_that_name(mill):
    told = mill.command("status", "nope", "--json")
    assert told.code == 2
    assert told.document["error"]["kind"] == "run_not_found"
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("override", "key", "word"),
    [
        ("limits.max_attempt=3", "limits.max_attempt", "max_attempts"),
        ("limits.max_attempts=0", "limits.max_attempts", "1"),
        ("limits.attempt_timeout=0", "limits.attempt_timeout", "above 0"),
        ("limits.drain=soon", "limits.drain", "duration"),
        ("model.temperature=warm", "model.temperature", "number"),
        ("output.path=out.xlsx", "output.path", ".parquet"),
        ("prompt.user={{ text", "prompt.user", ""),
        ("input.where=text ==", "input.where", ""),
        ("answer.schema=nowhere.json", "answer.schema", "nowhere.json"),
        ("endpoint.url=ftp://host", "endpoint.url", "http"),
        ("model.route=embeddings", "model.route", "not served"),
        ("endpoint.api_key=sk-0123456789abcdef0123456789", "endpoint.api_key", "api_key_env"),
        ("endpoint.api_key_env=NOT_SET_ANYWHERE", "endpoint.api_key_env", "NOT_SET_ANYWHERE"),
        ("input.path=nowhere.jsonl", None, "nowhere.jsonl"),
        ("nonsense", None, ""),
    ],
)
def test_a_users_mistake_is_exit_2_in_one_line_and_one_document_and_sends_nothing(
    mill, override: str, key: str | None, word: str
):
    mill.put_texts(3)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        told = mill.run("--set", override)
        assert sim.stats()["sockets"]["total"] == 1  # this question's own
    assert told.code == 2
    assert len(told.err.splitlines()) == 1
    error = told.document["error"]
    assert set(error) == {"kind", "key", "found", "allowed", "message"}
    if key is not None:
        assert error["key"] == key
        assert key.rpartition(".")[2] in error["message"]
    assert word in error["message"] + str(error["allowed"])
    assert "0123456789" not in told.out + told.err
    assert mill.runs == []
    assert not mill.output.exists()


def test_net_02_null_means_the_default(mill):
    mill.put_texts(1)
    with mill.sim() as sim:
        mill.write(
            "job.yaml",
            json.dumps(
                {
                    "input": {"path": "in.jsonl", "limit": None}, "prompt": {"user": "{{ text }}"}, "model": {"name": "m"},
                    "endpoint": {"url": sim.url}, "output": {"path": "out.jsonl"}, "limits": {"attempt_timeout": None},
                }
            ),
        )  # fmt: skip
        told = mill.command("run", "job.yaml", "--json")
    assert told.code == 0
    assert mill.command("show").document["configuration"]["limits"]["attempt_timeout"] == "auto"


def test_inp_05_an_ascii_terminal_and_a_c_locale_change_no_byte_of_the_output(mill):
    mill.put_rows([{"text": "é"}, {"text": "🙂"}])
    ascii_only = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    with mill.sim() as sim:
        mill.put_job(sim.url, name="jöb.toml", output={"path": "äus.jsonl"})
        told = mill.command("run", "jöb.toml", env=ascii_only)
        assert told.code == 0, told.err
        assert told.out.isascii()
        status = mill.command("status", "--json", env=ascii_only)
    content = (mill.folder / "äus.jsonl").read_bytes()
    assert "é".encode() in content
    assert "🙂".encode() in content
    assert status.document["name"] == "jöb"
    assert mill.answers(mill.folder / "äus.jsonl") == ["é", "🙂"]


@pytest.mark.parametrize(("count", "paragraphs"), [(10_000, 10), (300, 2200)], ids=["many", "large"])
def test_obs_04_thousands_of_failures_are_a_few_lines(mill, count: int, paragraphs: int):
    mill.put_rows([{"text": f"row {n}"} for n in range(count)])
    page = "<html><body><h1>Bad request</h1>" + "<p>trace trace trace</p>" * paragraphs + "</body></html>"
    with mill.sim(script=[{"after": 1, "status": 400, "body": page}]) as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 32})
        told = mill.command("run", "job.toml")
        assert sim.stats()["requests"] == count
    assert told.code == 3
    lines = (told.out + told.err).splitlines()
    assert len(lines) < 100
    assert max(map(len, lines)) < 1000
    (group,) = mill.command("failures", "--json").document["groups"]
    assert (group["kind"], group["count"]) == ("bad_request", count - 1)
    assert sum(path.stat().st_size for path in mill.runs[0].iterdir()) < 20_000_000
    assert mill.statuses().count("failed") == count - 1


def test_a_reader_that_has_gone_does_not_change_the_exit_code(mill):
    mill.put_texts(3)
    with mill.sim() as sim:
        mill.put_job(sim.url)
        process = mill.start("run", "job.toml")
        process.stdout.close()
        process.stdout = None
        assert mill.told(process).code == 0
    assert len(mill.rows()) == 3


def test_help_version_and_schema_need_no_job(mill):
    assert mill.command("--version").out.strip() == __version__
    shown = mill.command("--help")
    assert shown.code == 0
    for name in ("run", "status", "runs", "failures", "retry", "export", "show", "schema", "sim"):
        assert name in shown.out
    schema = mill.command("schema")
    assert {"input", "prompt", "model", "endpoint", "output"} <= set(json.loads(schema.out)["properties"])
    assert mill.command("nonsense").code == 2
    assert mill.command("run", "nowhere.toml").code == 2


def test_a_key_that_is_not_served_is_refused_in_one_line(mill):
    mill.put_texts(1)
    mill.put_job("http://127.0.0.1:9/v1")
    told = mill.command("run", "job.toml", "--set", "model.route=embeddings", "--json")
    assert told.code == 2
    assert told.document["error"]["kind"] == "not_yet"
    assert mill.runs == []


def test_status_tells_where_a_run_stands_while_it_runs(mill, until):
    mill.put_texts(160)
    with mill.sim("--latency-ms", "150") as sim:
        mill.put_job(sim.url, endpoint={"concurrency": 4})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["by_status"].get("200", 0) >= 8)
        document = mill.status()
        assert (document["state"], document["exit_code"], document["reason"]) == ("running", None, None)
        assert 0 < document["items"]["done"] < 160
        assert document["items"]["total"] == 160
        followed = mill.command("status", "--follow", "--json")
        told = mill.told(process)
    assert followed.document["state"] == "finished"
    assert followed.document["items"]["done"] == 160
    assert told.code == 0


def test_the_other_transport_runs_the_same_job(mill):
    mill.put_texts(30)
    with mill.sim("--error-rate", "0.1") as sim:
        mill.put_job(sim.url)
        told = mill.run(env={"HEADRACE_TRANSPORT": "aiohttp"})
        assert told.code == 0
        assert told.document["requests"]["sent"] == sim.stats()["requests"]
    assert mill.answers() == [f"row {n}." for n in range(30)]


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(mill):
    mill.put_texts(3)
    nowhere = "http://127.0.0.1:9"
    with mill.sim() as sim:
        mill.put_job(sim.url)
        told = mill.run(env={"HTTP_PROXY": nowhere, "http_proxy": nowhere, "ALL_PROXY": nowhere})
        assert (told.code, sim.stats()["requests"]) == (0, 3)
