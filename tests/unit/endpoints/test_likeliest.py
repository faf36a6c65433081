"""The likeliest tokens in the forms in which servers really send them, and in forms that no server should."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.endpoints.likeliest import read_likeliest

OPENAI_CHAT = """{"id":"chatcmpl-B","object":"chat.completion","created":1741569952,"model":"gpt-4o-mini","choices":[{"index":0,
"message":{"role":"assistant","content":"web","refusal":null,"annotations":[]},"logprobs":{"content":[{"token":"web",
"logprob":-0.31725305,"bytes":[119,101,98],"top_logprobs":[{"token":"web","logprob":-0.31725305,"bytes":[119,101,98]},
{"token":"games","logprob":-1.3190403,"bytes":[103,97,109,101,115]},{"token":"\\\\xf0\\\\x9f","logprob":-9.5,"bytes":[240,159]}]}],
"refusal":null},"finish_reason":"length"}],"usage":{"prompt_tokens":19,"completion_tokens":1,"total_tokens":20}}"""
OPENAI_COMPLETIONS = """{"id":"cmpl-u","object":"text_completion","created":1589478378,"model":"gpt-3.5-turbo-instruct","choices":
[{"text":" web","index":0,"logprobs":{"tokens":[" web"],"token_logprobs":[-0.25],"top_logprobs":[{" games":-2.5," web":-0.25,
"bytes:\\\\xf0\\\\x9f":-8.0}],"text_offset":[16]},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"total_tokens":6}}"""
VLLM_CHAT = """{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",
"reasoning_content":null,"content":"web","tool_calls":[]},"logprobs":{"content":[{"token":"web","logprob":-0.4,"bytes":[119,101,98],
"top_logprobs":[{"token":"web","logprob":-0.4,"bytes":[119,101,98]},{"token":"\\ufffd","logprob":-2.0,"bytes":[239,191,189]},
{"token":"zzz","logprob":-9999.0,"bytes":[122,122,122]}]}]},"finish_reason":"length","stop_reason":null}],"prompt_logprobs":null}"""
VLLM_COMPLETIONS = """{"id":"cmpl-2","object":"text_completion","model":"m","choices":[{"index":0,"text":" web","logprobs":
{"text_offset":[0],"token_logprobs":[-0.5],"tokens":[" web"],"top_logprobs":[{" web":-0.5," games":-1.5}]},
"finish_reason":"length","stop_reason":null,"prompt_logprobs":null}],"usage":{"prompt_tokens":2,"completion_tokens":1}}"""
SGLANG_CHAT = """{"id":"4","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"web",
"reasoning_content":null,"tool_calls":null},"logprobs":{"content":[{"token":"web","bytes":[119,101,98],"logprob":-0.75,
"top_logprobs":[{"token":"web","bytes":[119,101,98],"logprob":-0.75},{"token":"games","bytes":[103,97,109,101,115],"logprob":-1.0}
]}]},"finish_reason":"length","matched_stop":null}]}"""
LLAMA_CPP_CHAT = """{"choices":[{"finish_reason":"length","index":0,"message":{"role":"assistant","content":"You"},"logprobs":
{"content":[{"id":2683,"token":"You","bytes":[89,111,117],"logprob":-3.429513931274414,"top_logprobs":[{"id":57,"token":"I",
"bytes":[73],"logprob":-1.9088841676712036},{"id":504,"token":"The","bytes":[84,104,101],"logprob":-3.061170816421509}]}]}}],
"created":1,"model":"local","object":"chat.completion","usage":{"completion_tokens":1,"prompt_tokens":34,"total_tokens":35}}"""
LLAMA_CPP_COMPLETIONS = """{"choices":[{"text":"\\n","index":0,"logprobs":{"content":[{"id":198,"token":"\\n","bytes":[10],
"logprob":-1.0739940404891968,"top_logprobs":[{"id":198,"token":"\\n","bytes":[10],"logprob":-1.0739940404891968},{"id":10813,
"token":"","bytes":[240,159],"logprob":-1.382372260093689},{"id":15107,"token":" ","bytes":[32,240,159],
"logprob":-1.9878848791122437}]}]},"finish_reason":"length"}],"model":"local","object":"text_completion"}"""
LLAMA_CPP_OWN = """{"content":" web","completion_probabilities":[{"id":3877,"token":" web","bytes":[32,119,101,98],"logprob":-0.5,
"top_logprobs":[{"id":3877,"token":" web","bytes":[32,119,101,98],"logprob":-0.5},{"id":4252,"token":" games",
"bytes":[32,103,97,109,101,115],"logprob":-2.0}]}],"stop":true}"""
HALF = "\udcf0\udc9f"

REAL = [
    (OPENAI_CHAT, [("web", -0.31725305), ("games", -1.3190403), (HALF, -9.5)]),
    (OPENAI_COMPLETIONS, [(" web", -0.25), (" games", -2.5), (HALF, -8.0)]),
    (VLLM_CHAT, [("web", -0.4), ("\ufffd", -2.0)]),
    (VLLM_COMPLETIONS, [(" web", -0.5), (" games", -1.5)]),
    (SGLANG_CHAT, [("web", -0.75), ("games", -1.0)]),
    (LLAMA_CPP_CHAT, [("I", -1.9088841676712036), ("The", -3.061170816421509)]),
    (LLAMA_CPP_COMPLETIONS, [("\n", -1.0739940404891968), (HALF, -1.382372260093689), (" " + HALF, -1.9878848791122437)]),
    (LLAMA_CPP_OWN, [(" web", -0.5), (" games", -2.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "found"), REAL, ids=[str(n) for n in range(len(REAL))])
def test_every_real_form_is_read(body: str, found: list[tuple[str, float]]) -> None:
    assert read_likeliest(body.encode()) == found


def chat(top: Any, **first: Any) -> bytes:
    return json.dumps({"choices": [{"logprobs": {"content": [{"top_logprobs": top, **first}]}}]}).encode()


def entry(token: Any, logprob: Any, **more: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, **more}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"<html>", b'{"choices": []}', b'{"choices": null}', b'{"choices": [null]}', b'{"choices": [{}]}',
        b'{"choices": [{"logprobs": null}]}', b'{"choices": [{"logprobs": {}}]}', b'{"choices": [{"logprobs": {"content": null}}]}',
        b'{"choices": [{"logprobs": {"content": []}}]}', b'{"choices": [{"logprobs": {"content": [null]}}]}',
        b'{"choices": [{"logprobs": {"content": null, "refusal": [{"token": "I", "logprob": -1}]}}]}',
        b'{"choices": [{"logprobs": {"tokens": [" web"], "token_logprobs": [-1], "top_logprobs": null}}]}',
        b'{"choices": [{"logprobs": {"top_logprobs": [null]}}]}', b'{"choices": [{"logprobs": {"top_logprobs": [{}]}}]}',
        b'{"choices": [{"logprobs": [1, 2]}]}', b'{"choices": [{"logprobs": {"top_logprobs": {"web": -1}}}]}',
    ],
)  # fmt: skip
def test_a_reply_without_them_has_none(body: bytes) -> None:
    assert read_likeliest(body) is None


def test_without_a_list_the_token_itself_is_what_there_is() -> None:
    assert read_likeliest(chat([], token="web", logprob=-1.5)) == [("web", -1.5)]
    assert read_likeliest(chat(None, token="web", logprob=-1.5)) == [("web", -1.5)]


@pytest.mark.parametrize("bad", ["-0.5", None, True, [], {}, float("nan"), float("inf"), float("-inf"), -9999.0, -1000, 1e400])
def test_what_is_no_logarithm_of_a_probability_is_left_out(bad: Any) -> None:
    assert read_likeliest(chat([entry("x", bad), entry("web", -1)])) == [("web", -1)]
    legacy = json.dumps({"choices": [{"logprobs": {"top_logprobs": [{"x": bad, "web": -1}]}}]}).encode()
    assert read_likeliest(legacy) == [("web", -1)]


@pytest.mark.parametrize("value", [0.25, 1e-9, 10**400, 3])
def test_no_probability_is_above_one(value: Any) -> None:
    assert read_likeliest(chat([entry("web", value)])) == [("web", 0.0)]


@pytest.mark.parametrize(
    ("token", "raw", "text"),
    [
        ("web", None, "web"), ("web", [], "web"), ("?", [32, 240, 159], " " + HALF), ("web", [256], "web"), ("web", [-1], "web"),
        ("web", [1.5], "web"), ("web", [True], "web"), ("web", "web", "web"), (None, [119], "w"), ("\ud83d", None, "\ud83d"),
    ],
)  # fmt: skip
def test_the_bytes_are_the_token_where_they_are_bytes(token: Any, raw: Any, text: str) -> None:
    assert read_likeliest(chat([entry(token, -1, bytes=raw)])) == [(text, -1)]


@pytest.mark.parametrize("token", [None, 5, ["web"], {"a": 1}])
def test_what_has_no_text_is_left_out(token: Any) -> None:
    assert read_likeliest(chat([entry(token, -1)])) is None


@pytest.mark.parametrize("token", ["bytes:", "bytes:\\xf", "bytes:\\xzz", "bytes: \\xf0", "bytesize"])
def test_a_token_that_only_looks_like_bytes_is_text(token: str) -> None:
    body = json.dumps({"choices": [{"logprobs": {"top_logprobs": [{token: -1.0}]}}]}).encode()
    assert read_likeliest(body) == [(token, -1.0)]


def test_ten_thousand_tokens_are_read_and_sorted() -> None:
    found = read_likeliest(chat([entry(f"t{n}", -((n * 7919) % 10_000) / 100) for n in range(10_000)]))
    assert found is not None
    assert len(found) == 10_000
    assert found == sorted(found, key=lambda pair: -pair[1])


@pytest.mark.parametrize(("body", "found"), REAL, ids=[str(n) for n in range(len(REAL))])
def test_a_form_with_a_fault_elsewhere_is_read_alike(body: str, found: list[tuple[str, float]]) -> None:
    value = json.loads(body)
    value["choices"] = [*value.get("choices", [{}]), {"logprobs": "a fault"}] if "choices" in value else None
    assert read_likeliest(json.dumps(value).encode()) == found


KEYS = st.sampled_from(
    ["choices", "logprobs", "content", "top_logprobs", "token", "logprob", "bytes", "completion_probabilities"]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.just(10**400), st.text(st.characters(codec=None), max_size=4)
)
HOSTILE = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(KEYS | st.text(max_size=2), part, max_size=4), max_leaves=15
)


@settings(max_examples=60, deadline=None)
@given(HOSTILE, HOSTILE)
def test_nothing_that_a_server_sends_raises(inner: Any, whole: Any) -> None:
    for value in (
        whole,
        {"choices": [{"logprobs": inner}]},
        {"choices": [{"logprobs": {"content": [inner], "top_logprobs": [inner]}}]},
    ):
        found = read_likeliest(json.dumps(value).encode())
        assert found is None or all(isinstance(token, str) and -1000 < logarithm <= 0 for token, logarithm in found)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise(body: bytes) -> None:
    assert read_likeliest(body) is None
