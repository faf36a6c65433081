"""The embedded model's server, with the real llama.cpp: who gets in, what is served, what is cached."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.endpoints.open import open_endpoint
from headrace.errors import SpecError
from headrace.local.server import LocalServer, Serving
from headrace.local.weights import Weights, find_weights
from headrace.testing.contracts.endpoint import job
from headrace.values import Capacity, Gauges

PATIENCE_S = 120.0
OPEN = {("GET", "/health"): 200, ("GET", "/v1/health"): 200, ("GET", "/"): 404, ("GET", "/index.html"): 404}
CLOSED = [
    *(
        ("GET", path)
        for path in ("/v1/models", "/models", "/api/tags", "/props", "/slots", "/metrics", "/lora-adapters", "/tools")
    ),
    *(("GET", path) for path in ("/health/", "/v1/models/local", "/nonsense", "/bundle.js", "/cors-proxy")),
    *(("POST", path) for path in ("/tokenize", "/detokenize", "/apply-template", "/infill", "/props", "/slots/0?action=save")),
    *(
        ("POST", path)
        for path in ("/slots/0?action=restore", "/slots/0?action=erase", "/lora-adapters", "/tools", "/models/load")
    ),
    *(("POST", path) for path in ("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions")),
    *(("POST", path) for path in ("/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/api/chat", "/api/show")),
    *(("POST", path) for path in ("/embedding", "/embeddings", "/v1/embeddings", "/rerank", "/v1/rerank", "/reranking")),
    *(("POST", path) for path in ("/v1/audio/transcriptions",)),
    ("DELETE", "/v1/models/local"),
]


def ask(server: LocalServer, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(server.url + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            status, content = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            status, content = error.code, error.read()
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content.decode()


@pytest.fixture(scope="module")
def server(small: Path) -> Iterator[LocalServer]:
    with LocalServer(find_weights({}, chosen=small), Serving(slots=4, context=2048)) as running:
        yield running.wait_ready()


@pytest.mark.slow
def test_without_the_key_no_route_answers_but_the_one_that_says_it_is_there(server: LocalServer):
    for (method, path), status in OPEN.items():
        assert ask(server, method, path)[0] == status, path
    assert ask(server, "GET", "/health")[1] == {"status": "ok"}
    for method, path in CLOSED:
        body = {} if method == "POST" else None
        assert ask(server, method, path, body)[0] == 401, path
        assert ask(server, method, path, body, key=server.api_key[:-1])[0] == 401, path


@pytest.mark.slow
def test_with_the_key_it_completes_tokenizes_and_tells_how_it_is(server: LocalServer):
    chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
    status, reply = ask(server, "POST", "/v1/chat/completions", chat, server.api_key)
    assert (status, reply["model"], reply["usage"]["completion_tokens"]) == (200, "one-layer", 3)
    status, reply = ask(server, "POST", "/tokenize", {"content": "a database"}, server.api_key)
    assert (status, len(reply["tokens"])) == (200, 2)
    status, props = ask(server, "GET", "/props", None, server.api_key)
    assert (status, props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (200, 4, 2048)
    assert len(ask(server, "GET", "/slots", None, server.api_key)[1]) == 4
    assert "llamacpp:prompt_tokens_total" in ask(server, "GET", "/metrics", None, server.api_key)[1]
    assert ask(server, "POST", "/v1/embeddings", {"input": "x"}, server.api_key)[0] == 501


@pytest.mark.slow
def test_a_page_in_a_browser_is_given_nothing(server: LocalServer):
    request = urllib.request.Request(
        server.url + "/v1/chat/completions", method="OPTIONS",
        headers={"Origin": "http://page.invalid", "Access-Control-Request-Method": "POST"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        assert not reply.headers["Access-Control-Allow-Origin"]


@pytest.mark.slow
def test_the_key_stands_in_no_command_line_environment_log_or_repr(server: LocalServer):
    process = Path("/proc") / str(server.pid)
    if process.exists():
        shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        assert server.api_key.encode() not in shown
        assert b"GOMP_SPINCOUNT=0" in shown
    assert server.api_key not in repr(server)
    assert server.api_key not in "".join(server._log)
    server._log.append(f"0.00.000.001 E said {server.api_key} aloud\n")
    assert server.last_words().endswith("said [redacted] aloud")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are listed by Linux alone")
def test_the_child_holds_no_file_of_ours(server: LocalServer, small: Path, tmp_path: Path):
    ours = os.open(tmp_path / "run.lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(ours, True)
    try:
        with LocalServer(find_weights({}, chosen=small), Serving(slots=1, context=64)) as second:
            second.wait_ready()
            held = {str(entry.readlink()) for entry in Path(f"/proc/{second.pid}/fd").iterdir()}
            assert not [name for name in held if str(tmp_path) in name]
            assert Path(f"/proc/{second.pid}/cwd").readlink() == Path("/")
            assert os.getsid(second.pid) == second.pid != os.getsid(0)
    finally:
        os.close(ours)


@pytest.mark.slow
def test_requests_with_one_long_head_find_it_in_the_cache_of_every_slot(server: LocalServer):
    shots = [
        {"role": role, "content": f"example {n}: a library that reads and writes files of kind {n}"}
        for n in range(32)
        for role in ("user",)
    ]
    cached = []
    for n in range(12):
        chat = {"messages": [*shots, {"role": "user", "content": f"and this is tail {n}"}], "max_tokens": 1, "temperature": 0}
        status, reply = ask(server, "POST", "/v1/chat/completions", chat, server.api_key)
        assert status == 200, reply
        usage = reply["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
    assert usage["prompt_tokens"] > 500
    assert min(cached[1:]) > 0.95


@pytest.mark.slow
def test_started_for_embeddings_it_embeds_by_the_mean(small: Path):
    with LocalServer(find_weights({}, chosen=small), Serving(slots=1, context=256, embeddings=True)) as server:
        server.wait_ready()
        status, reply = ask(server, "POST", "/v1/embeddings", {"input": ["a", "b"]}, server.api_key)
    assert status == 200
    assert [len(entry["embedding"]) for entry in reply["data"]] == [576, 576]


# -- what cannot be served


def failure(path: Path, serving: Serving | None = None) -> str:
    with LocalServer(find_weights({}, chosen=path), serving or Serving(slots=1, context=64)) as server:
        with pytest.raises(SpecError) as caught:
            server.wait_ready()
        assert server.has_ended
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_an_architecture_that_llama_cpp_does_not_know_is_named(small: Path, tmp_path: Path):
    content = bytearray(small.read_bytes())
    place = content.index(b"general.architecture") + len("general.architecture") + 12
    content[place : place + 5] = b"blama"
    (tmp_path / "new.gguf").write_bytes(content)
    assert failure(tmp_path / "new.gguf").endswith("llama.cpp cannot serve this model: unknown model architecture: 'blama'")


@pytest.mark.slow
def test_a_model_that_does_not_fit_says_so(real_weights: Weights):
    told = failure(real_weights.path, Serving(slots=256, context=60_000))  # 350 GB
    assert "insufficient memory" in told
    assert "256 slots of 60,000 tokens do not fit" in told


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(small: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in failure(small, Serving(slots=1, context=64, port=port))


@pytest.mark.slow
def test_a_tensor_of_a_wrong_shape_is_told_in_llama_cpps_words(small: Path, tmp_path: Path):
    content = bytearray(small.read_bytes())
    place = content.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight") + 4
    struct.pack_into("<Q", content, place, 288)
    (tmp_path / "odd.gguf").write_bytes(content)
    assert "cannot serve this model: gguf_init_from_reader: tensor 'blk.0." in failure(tmp_path / "odd.gguf")


@pytest.mark.slow
def test_an_endpoint_reads_what_it_holds_and_how_it_is_loaded(server: LocalServer):
    spec = job(url=f"{server.url}/v1", api_key_env="K")
    endpoint = open_endpoint(spec, 0, base=Path(), environ={"K": server.api_key})

    async def both() -> tuple[Capacity | None, Gauges | None]:
        try:
            return await endpoint.capacity(), await endpoint.gauges()
        finally:
            await endpoint.close()

    capacity, gauges = asyncio.run(both())
    assert capacity is not None
    assert (capacity.server, capacity.requests, capacity.context, capacity.models) == ("llama.cpp", 4, 2048, ("one-layer",))
    assert capacity.gauges == ("running", "waiting")
    assert gauges == Gauges(running=0, waiting=0)
