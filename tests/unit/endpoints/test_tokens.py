"""What the tokenizers of real servers say of a label, and everything that is no tokenizer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.tokens import Beginnings, ask_beginnings, tokenizer_urls
from headrace.endpoints.transport import Reason, Response, TransportError
from headrace.spec import JobSpec
from headrace.testing.contracts.endpoint import ANSWER, ScriptedTransport, job, open_scripted, refusal, response
from headrace.values import Sent

URLS = tokenizer_urls("http://h/v1/chat/completions", "/chat/completions")
HALF = b"\xf0\x9f".decode("utf-8", "surrogateescape")
LOST = TransportError(Reason.TIMEOUT, Sent.MAYBE, "no reply in 10 s")
Answers = Callable[[str, dict[str, Any]], Response]


def asked(labels: list[str], answers: Answers) -> Beginnings | None:
    async def post(url: str, body: bytes) -> Response:
        return answers(url, json.loads(body))

    return asyncio.run(ask_beginnings(labels, "m", URLS, post))


def llama_cpp(pieces: dict[str, list[Any]]) -> Answers:
    def answers(url: str, body: dict[str, Any]) -> Response:
        assert url == "http://h/tokenize"
        assert (body["with_pieces"], body["add_special"]) == (True, False)
        return response(200, {"tokens": [{"id": 7, "piece": piece} for piece in pieces[body["content"]]]})

    return answers


def splitting(words: dict[str, list[str]], joined: str) -> Answers:
    """vLLM (which joins to a `prompt`) or SGLang (to a `text`)."""
    vocabulary = sorted({token for tokens in words.values() for token in tokens})

    def answers(url: str, body: dict[str, Any]) -> Response:
        if url == "http://h/tokenize":
            assert (body["model"], body["add_special_tokens"]) == ("m", False)
            numbers = [vocabulary.index(token) for token in words[body["prompt"]]]
            return response(200, {"tokens": numbers, "count": len(numbers), "max_model_len": 4096})
        assert url == "http://h/detokenize"
        assert body["model"] == "m"
        return response(200, {joined: "".join(vocabulary[number] for number in body["tokens"])})

    return answers


def test_llama_cpp_says_the_pieces_themselves() -> None:
    pieces = {" web": [" web"], "web": ["web"], " games": [" games"], "games": ["g", "ames"]}
    assert asked(["web", "games"], llama_cpp(pieces)) == Beginnings({"web": [" web", "web"], "games": [" games", "g"]}, 100)


def test_a_piece_that_is_half_a_character_comes_as_bytes() -> None:
    pieces = {" 🎮": [[32, 240, 159], [142], [174]], "🎮": [[240, 159], [142], [174]]}
    assert asked(["🎮"], llama_cpp(pieces)) == Beginnings({"🎮": [" " + HALF, HALF]}, 100)


def test_digits_behind_a_space_of_their_own() -> None:
    assert asked(["1"], llama_cpp({" 1": [" ", "1"], "1": ["1"]})) == Beginnings({"1": [" ", "1"]}, 100)


def test_a_tokenizer_that_puts_a_space_before_every_text_leaves_both_forms() -> None:
    pieces = {" web": ["  ", "web"], "web": [" web"], " 1": ["  ", "1"], "1": [" ", "1"]}
    assert asked(["web", "1"], llama_cpp(pieces)) == Beginnings({"web": [" web", "web"], "1": [" ", "1"]}, 100)


@pytest.mark.parametrize("joined", ["prompt", "text"], ids=["vLLM", "SGLang"])
def test_servers_that_say_numbers_are_asked_to_join_the_first(joined: str) -> None:
    words = {" web": [" web"], "web": ["web"], " games": [" ga", "mes"], "games": ["games"]}
    found = asked(["web", "games"], splitting(words, joined))
    assert found == Beginnings({"web": [" web", "web"], "games": [" ga", "games"]}, 20)


def test_a_token_that_is_no_part_of_the_text_is_no_beginning() -> None:
    assert asked(["web"], splitting({" web": ["<s>", " web"], "web": ["<s>", "web"]}, "prompt")) is None
    assert asked(["é"], splitting({" é": ["\ufffd"], "é": ["\ufffd"]}, "prompt")) is None


def test_white_space_around_a_label_is_not_asked_for() -> None:
    found = asked([" web "], llama_cpp({" web": [" web"], "web": ["web"]}))
    assert found == Beginnings({" web ": [" web", "web"]}, 100)


NOT_TOKENIZERS = {
    "404": refusal("File Not Found", 404),
    "401": refusal("no key", 401),
    "500": response(500, b""),
    "a chat completion": response(200, ANSWER),
    "a page": response(200, b"<!doctype html><title>Sign in</title>"),
    "nothing": response(200, b""),
    "null": response(200, b"null"),
    "a list": response(200, b"[1]"),
    "no tokens": response(200, {"tokens": []}),
    "tokens null": response(200, {"tokens": None}),
    "words": response(200, {"tokens": ["web"]}),
    "truths": response(200, {"tokens": [True]}),
    "floats": response(200, {"tokens": [1.5]}),
    "no piece": response(200, {"tokens": [{"id": 1}]}),
    "empty piece": response(200, {"tokens": [{"id": 1, "piece": ""}]}),
    "no bytes": response(200, {"tokens": [{"id": 1, "piece": [300, -1, "x"]}]}),
    "too many": response(200, {"tokens": [1] * 1001}),
}


@pytest.mark.parametrize("reply", NOT_TOKENIZERS.values(), ids=NOT_TOKENIZERS.keys())
def test_what_is_no_tokenizer_says_nothing(reply: Response) -> None:
    assert asked(["web", "games"], lambda *_: reply) is None


@pytest.mark.parametrize("joined", [{}, {"prompt": None}, {"prompt": ""}, {"text": 5}])
def test_a_join_that_fails_says_nothing(joined: dict[str, Any]) -> None:
    assert asked(["web"], lambda url, _: response(200, joined if "detok" in url else {"tokens": [1]})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["tokens", "piece", "id", "prompt", "text"]), part),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_whatever_a_server_says_there_is_text_or_nothing(value: Any) -> None:
    for said in (value, {"tokens": value}, {"tokens": [{"piece": value}]}):
        found = asked(["web"], lambda _url, _body, said=said: response(200, json.dumps(said).encode()))  # type: ignore[misc]  # bound
        assert found is None or all(isinstance(token, str) and token for token in found.tokens["web"])


@pytest.mark.parametrize(
    ("url", "suffix", "split"),
    [
        ("http://h/v1/completions", "/completions", "http://h/tokenize"),
        ("http://h:8/a/v1/chat/completions", "/chat/completions", "http://h:8/a/tokenize"),
        ("https://h/api/chat/completions?key=x", "/chat/completions", "https://h/api/tokenize?key=x"),
    ],
)
def test_the_tokenizer_stands_beside_v1(url: str, suffix: str, split: str) -> None:
    urls = tokenizer_urls(url, suffix)
    assert urls.split == split
    assert urls.join == split.replace("/tokenize", "/detokenize")


# -- through the endpoint


def scored(route: str = "chat") -> JobSpec:
    spec = job({"route": route})
    return spec.model_copy(update={"answer": spec.answer.model_copy(update={"labels": ["web"], "method": "score"})})


def beginnings(endpoint: HttpEndpoint) -> dict[str, list[str]] | None:
    return asyncio.run(endpoint.ask_beginnings(["web"]))


def test_the_endpoint_asks_with_its_key_and_learns_how_many_tokens_it_gives() -> None:
    def piece(text: str) -> Response:
        return response(200, {"tokens": [{"id": 1, "piece": text}]})

    transport = ScriptedTransport(piece(" web"), piece("web"))
    spec = scored()
    spec = spec.model_copy(update={"endpoint": [spec.endpoint[0].model_copy(update={"api_key_env": "KEY"})]})
    endpoint = open_scripted(transport, spec, {"KEY": "secret-1"})
    assert beginnings(endpoint) == {"web": [" web", "web"]}
    assert transport.urls == ["http://127.0.0.1:9/tokenize"] * 2
    assert [headers["Authorization"] for headers in transport.headers] == ["Bearer secret-1"] * 2
    assert transport.keys == [None, None]
    assert json.loads(endpoint._wire.form.head + b"[]}")["top_logprobs"] == 100


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_without_a_tokenizer_as_many_are_asked_as_every_server_gives(route: str) -> None:
    endpoint = open_scripted(ScriptedTransport(refusal("File Not Found", 404)), scored(route))
    assert beginnings(endpoint) is None
    body = json.loads(endpoint._wire.form.head + b"1}")
    assert body.get("top_logprobs", body["logprobs"]) == (20 if route == "chat" else 5)


def test_a_tokenizer_that_does_not_reply_is_none() -> None:
    transport = ScriptedTransport(LOST)
    assert beginnings(open_scripted(transport, scored())) is None
    assert len(transport.urls) == 1
    assert 0 < transport.limits[0] <= 10
