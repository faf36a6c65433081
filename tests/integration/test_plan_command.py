"""`headrace plan` on real files and against servers on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.conftest import Mill

from headrace.errors import SpecError
from headrace.local.weights import find_weights

ASKED = ("--prompt", "900", "--output", "124")
LLAMA = {
    "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.context_length": 131_072,
}  # fmt: skip
OLLAMA: dict[str, Any] = {
    "/api/version": {"version": "0.20.0"},
    "/api/tags": {"models": [{"name": "llama3.1:8b", "size": 4_920_753_328}]},
    "/api/show": {"details": {"quantization_level": "Q4_K_M"}, "model_info": LLAMA},
}
VLLM: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 40_960}]},
    "/metrics": b'vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="643232"} 1.0\n',
}


class _Handler(BaseHTTPRequestHandler):
    replies: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        reply = self.replies.get(self.path)
        body = reply if isinstance(reply, bytes) else json.dumps(reply or {"error": "not found"}).encode()
        self.send_response(404 if reply is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        pass


@pytest.fixture
def serve() -> Iterator[Any]:
    """Serves the given replies; returns the address."""
    servers: list[ThreadingHTTPServer] = []

    def start(replies: dict[str, Any]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"replies": replies}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("transport", ["pyreqwest", "aiohttp"])
def test_a_model_of_ollama_is_planned_for(mill: Mill, serve: Any, transport: str):
    env = {"HEADRACE_TRANSPORT": transport}
    told = mill.command("plan", "--model", serve(OLLAMA), "--gpu-memory", "24GiB", *ASKED, "--json", env=env)
    assert told.code == 0, told.err
    document = told.document
    assert (document["attention"], document["bytes_per_token"]) == ("gqa", 131_072)
    assert (document["weights_bytes"], document["server"]) == (4_920_753_328, None)
    assert document["max_concurrency"] == (int(24 * 2**30 * 0.92) - 4_920_753_328 - 2 * 2**30) // (1024 * 131_072)


def test_a_servers_own_figure_is_taken(mill: Mill, serve: Any):
    url = serve(VLLM)
    told = mill.command("plan", "--model", f"{url}/v1", "--prompt", "40000", "--output", "960", "--json")
    assert told.code == 0, told.err
    document = told.document
    assert (document["known"], document["server"], document["context"]) == (True, "vllm", 40_960)
    # vLLM printed 15.70x for this pool and length
    assert (document["kv_pool_tokens"], document["times"], document["max_concurrency"]) == (643_232, 15.7, 15)
    assert (document["bytes_per_token"], document["weights_bytes"], document["kv_pool_bytes"]) == (None, None, None)
    words = mill.command("plan", "--model", url, "--prompt", "40000", "--output", "960", "--gpu-memory", "80GiB")
    assert "pool        643,232 tokens, told by the server" in words.out
    assert "what was said of its GPUs is not" in words.out


def test_slots_of_llama_cpp_are_a_bound(mill: Mill, serve: Any):
    url = serve({"/props": {"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}}})
    document = mill.command("plan", "--model", url, *ASKED, "--json").document
    assert (document["max_concurrency"], document["kv_pool_tokens"]) == (2, None)
    document = mill.command("plan", "--model", url, "--prompt", "100", "--output", "100", "--json").document
    assert document["max_concurrency"] == 4


def test_a_server_that_tells_nothing_is_unknown(mill: Mill, serve: Any):
    document = mill.command("plan", "--model", serve({"/v1/models": VLLM["/v1/models"]}), *ASKED, "--json").document
    assert (document["known"], document["server"], document["max_concurrency"]) == (False, "unknown", None)
    assert "how many fit is unknown" in document["notes"][-1]


def test_nobody_there_ends_with_4_and_one_line(mill: Mill):
    told = mill.command("plan", "--model", "http://127.0.0.1:9/v1", *ASKED)
    assert told.code == 4
    assert told.err.count("\n") == 1


def test_a_real_gguf_tells_its_attention_and_its_weights(mill: Mill, tmp_path_factory: pytest.TempPathFactory):
    """SmolLM2-135M: 30 layers, 3 of 9 heads for keys and values, each of 64."""
    try:
        found = find_weights({"HF_HUB_CACHE": str(tmp_path_factory.mktemp("no-cache"))})
    except SpecError as error:
        pytest.fail(f"this test reads real weights: type `make weights` ({error})")
    told = mill.command("plan", "--model", str(found.path), "--gpu-memory", "1GiB", "--overhead", "100MiB", *ASKED, "--json")
    assert told.code == 0, told.err
    document = told.document
    assert (document["known"], document["attention"], document["context"], document["family"]) == (True, "gqa", 8192, "llama")
    assert document["bytes_per_token"] == 30 * 3 * (64 + 64) * 2
    assert document["bytes_per_request"] == 1024 * document["bytes_per_token"]
    size = found.path.stat().st_size
    assert 0.9 * size < document["weights_bytes"] <= size
    pool = int(2**30 * 0.92) - document["weights_bytes"] - 100 * 2**20
    assert document["kv_pool_bytes"] == pytest.approx(pool, abs=1)
    assert document["max_concurrency"] == document["kv_pool_bytes"] // document["bytes_per_request"]


def test_a_cut_gguf_is_refused_in_one_line(mill: Mill):
    mill.write("m.gguf", b"GGUF" + bytes(30))
    told = mill.command("plan", "--model", "m.gguf", *ASKED)
    assert told.code == 2
    assert told.err.count("\n") == 1
    assert "m.gguf" in told.err


def test_the_command_answers_help_and_completion_without_the_work(mill: Mill):
    assert "--gpu-memory" in mill.command("plan", "--help").out
    env = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": "headrace\nplan\n--kv", "COMP_CWORD": "2"}
    assert mill.command(env=env).out.split() == ["--kv-dtype", "--kv-heads"]


def test_a_folder_is_read_where_it_lies(mill: Mill, tmp_path: Path):
    config = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
    }
    mill.write("config.json", json.dumps(config))
    mill.write("model.safetensors.index.json", json.dumps({"metadata": {"total_size": 16_060_522_496}}))
    told = mill.command("plan", "--model", ".", "--gpu-memory", "79.25GiB", "--prompt", "8000", "--output", "192", "--json")
    assert told.document["max_concurrency"] == 55
