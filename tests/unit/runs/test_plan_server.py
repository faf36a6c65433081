"""What a server is asked for a plan, and what is made of its replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.endpoints.transport import Reason, Response, TransportError
from headrace.errors import FetchError, HeadraceError, SpecError
from headrace.models.description import Description
from headrace.models.served import Served
from headrace.runs.planserver import ask_server, shown_address
from headrace.values import Sent

URL = "http://127.0.0.1:8000/v1"
KEY = "sk-not-to-be-shown"
LLAMA = {
    "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.context_length": 131_072,
}  # fmt: skip


class FakeServer:
    """Replies by path: a value is JSON in a 200, bytes are a body in a 200, a number is a status; 404 for the rest."""

    def __init__(self, **replies: Any) -> None:
        self.replies = {"/" + path.replace("__", "/"): reply for path, reply in replies.items()}
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.closed = False

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        path = url.removeprefix("http://127.0.0.1:8000")
        self.asked.append((method, path, json.loads(body) if body else None))
        self.headers.append(headers)
        reply = self.replies.get(path, 404)
        if callable(reply):
            reply = reply(json.loads(body))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, int):
            return Response(reply, f'{{"error": "no, {KEY}"}}'.encode(), lambda _: None)
        return Response(200, reply if isinstance(reply, bytes) else json.dumps(reply).encode(), lambda _: None)

    async def close(self) -> None:
        self.closed = True

    def ask(self, url: str = URL, name: str | None = None, key: str | None = None) -> Description | Served:
        return asyncio.run(ask_server(url, name, key, {}, self))


def ollama(*names: str, show: Any = None) -> FakeServer:
    models = [{"name": name, "size": 4_700_000_000} for name in names]
    return FakeServer(
        api__version={"version": "0.20"}, api__tags={"models": models}, api__show={"model_info": LLAMA} if show is None else show
    )


def test_ollama_describes_its_one_model():
    server = ollama("llama3.1:latest")
    found = server.ask()
    assert isinstance(found, Description)
    assert found.attention is not None
    assert (found.attention.name, found.context, found.weights) == ("gqa", 131_072, 4_700_000_000)
    assert "OLLAMA_NUM_PARALLEL" in found.notes[-1]
    assert server.asked[-1] == ("POST", "/api/show", {"model": "llama3.1:latest", "verbose": False})
    assert server.closed


def test_a_model_of_ollama_is_meant_without_its_tag_too():
    found = ollama("a:latest", "b:7b").ask(name="a")
    assert isinstance(found, Description)
    assert found.weights == 4_700_000_000


def test_lists_that_ollama_leaves_out_are_asked_for():
    def show(asked: dict[str, Any]) -> Any:
        heads = [8] * 32 if asked["verbose"] else []
        return {"model_info": {**LLAMA, "llama.attention.head_count_kv": heads}}

    server = ollama("a", show=show)
    found = server.ask()
    assert isinstance(found, Description)
    assert found.attention is not None
    assert [asked["verbose"] for _, path, asked in server.asked if path == "/api/show"] == [False, True]


@pytest.mark.parametrize(("names", "name"), [((), None), (("a", "b"), None), (("a", "b"), "c")])
def test_which_of_several_models_is_to_be_said(names: tuple[str, ...], name: str | None):
    with pytest.raises(SpecError, match=r"--name: .* (has none|has 'a', 'b')") as caught:
        ollama(*names).ask(name=name)
    assert caught.value.key == "--name"


@pytest.mark.parametrize("show", [404, 500, b"", b"[]", {"model_info": []}, {"license": "x"}])
def test_a_show_that_shows_nothing_is_told(show: Any):
    with pytest.raises(FetchError, match=r"127\.0\.0\.1"):
        ollama("a", show=show).ask()


METRICS = b'vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="458352"} 1.0\n'
PROPS = {"total_slots": 4, "default_generation_settings": {"n_ctx": 8192}}


@pytest.mark.parametrize(
    ("replies", "server", "tokens", "context"),
    [
        ({"metrics": METRICS, "v1__models": {"data": [{"id": "m", "max_model_len": 32_768}]}}, "vllm", 458_352, 32_768),
        ({"server_info": {"max_total_num_tokens": 9_000, "context_length": 2048}}, "sglang", 9_000, 2048),
        ({"get_server_info": {"max_total_num_tokens": 9_000}, "metrics": b"sglang:x 1"}, "sglang", 9_000, None),
        ({"props": PROPS}, "llama.cpp", 8192, 8192),
        ({"info": {"max_concurrent_requests": 128, "max_total_tokens": 4096}}, "tgi", None, 4096),
        ({"v1__models": {"data": [{"id": "gpt-5"}]}}, "unknown", None, None),
    ],
)
def test_a_server_is_known_by_what_it_tells(replies: dict[str, Any], server: str, tokens: int | None, context: int | None):
    found = FakeServer(**replies).ask()
    assert isinstance(found, Served)
    assert (found.server, found.tokens, found.context) == (server, tokens, context)


def test_a_name_that_the_server_does_not_list_is_refused():
    server = FakeServer(metrics=METRICS, v1__models={"data": [{"id": "m"}]})
    assert isinstance(server.ask(name="m"), Served)
    with pytest.raises(SpecError, match="found 'other'; the server has 'm'"):
        server.ask(name="other")


def test_the_key_is_sent_and_never_shown():
    server = FakeServer(v1__models=401, metrics=METRICS)
    with pytest.raises(FetchError, match="HTTP 401: it wants a key; --api-key-env names it"):
        server.ask(key=KEY)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    shown = ollama("a", show=500)
    with pytest.raises(FetchError, match="HTTP 500") as caught:
        shown.ask(key=KEY)
    assert KEY not in str(caught.value)


def test_nobody_there_is_told_in_one_line():
    lost = TransportError(Reason.REFUSED, Sent.NO, "connection refused")
    with pytest.raises(FetchError, match=r"http://127\.0\.0\.1:8000: connection refused") as caught:
        FakeServer(api__version=lost).ask()
    assert caught.value.exit_code == 4
    with pytest.raises(FetchError, match="no server that is known here"):
        FakeServer().ask()


@pytest.mark.parametrize(
    "url",
    ["http://", "ftp://host", "http://host:x", "http://[", "http://a b", "http://u:p@host", "http://host/?key=1", "http://h\n"],
)
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(SpecError) as caught:
        FakeServer().ask(url)
    error: HeadraceError = caught.value
    assert str(error).startswith("--model: ")
    assert "u:p" not in str(error)
    assert "\n" not in str(error)


def test_an_address_is_shown_without_its_route():
    assert shown_address("http://127.0.0.1:8000/v1/") == "http://127.0.0.1:8000"
    assert shown_address("https://host/some/v1") == "https://host/some"
