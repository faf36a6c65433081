"""Bodies of 200 replies, as documented and as they really come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.envelopes import ServerError
from headrace.endpoints.replies import Broken, read_reply
from headrace.values import Reply, Usage


def chat(message: Any, finish: Any = "stop", **more: Any) -> bytes:
    return json.dumps({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}).encode()


def stream(*events: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": content, **more}, "finish_reason": finish}]}


def test_a_chat_reply() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    reply = read_reply(chat({"role": "assistant", "content": "yes", "reasoning_content": "hm"}, usage=usage))
    assert reply == Reply("yes", "stop", "hm", None, Usage(9, 2, 4, 1), "m")


def test_a_completions_reply() -> None:
    body = b'{"choices":[{"text":"yes","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
    assert read_reply(body) == Reply("yes", "length", usage=Usage(1, 1))


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": None}, None),
        ({}, None),
        ({"content": ""}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}, "c"]}, "abc"),
        ({"content": 7}, "7"),
        ({"content": {"a": 1}}, '{"a":1}'),
        ({"content": "a", "tool_calls": "odd", "reasoning": 3}, "a"),
    ],
)
def test_content_of_any_type(message: Any, content: str | None) -> None:
    reply = read_reply(chat(message))
    assert isinstance(reply, Reply)
    assert reply.content == content


def test_reasoning_and_refusal() -> None:
    reply = read_reply(chat({"content": None, "reasoning": "hm", "refusal": "no"}, None))
    assert reply == Reply(None, None, "hm", "no", None, "m")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": 5, "completion_tokens": 1, "completion_tokens_details": None}, Usage(5, 1)),
        ({"prompt_tokens": 5.0, "completion_tokens": "1"}, Usage(5, None)),
        ({"prompt_tokens": -5, "completion_tokens": 1}, Usage(None, 1)),
        ({"prompt_tokens": 10**30, "completion_tokens": True}, None),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": "x"}}, Usage(5)),
        ({"prompt_tokens": 5, "prompt_tokens_details": [1]}, Usage(5)),
        ("many", None),
        ([1], None),
    ],
)
def test_rsp_04_usage_is_optional_at_every_level(usage: Any, expected: Usage | None) -> None:
    reply = read_reply(chat({"content": "a"}, usage=usage))
    assert isinstance(reply, Reply)
    assert (reply.content, reply.usage) == ("a", expected)


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":null}',
        b'{"choices":[]}',
        b"{}",
        b'{"choices":[null]}',
        b'{"choices":{}}',
        b"[]",
        b"null",
        b"7",
        b"{",
        b"plain text",
    ],
)
def test_rsp_01_a_200_without_a_choice_is_broken(body: bytes) -> None:
    assert isinstance(read_reply(body), Broken)


def test_rsp_01_an_error_comes_before_choices() -> None:
    found = read_reply(b'{"error":{"code":429,"message":"slow"},"choices":[{"message":{"content":"half"}}]}')
    assert isinstance(found, ServerError)
    assert (found.status, found.message) == (429, "slow")


@pytest.mark.parametrize("error", [{}, None, False, "", []])
def test_an_empty_error_beside_choices_is_none(error: Any) -> None:
    assert isinstance(read_reply(chat({"content": "a"}, error=error)), Reply)


@pytest.mark.parametrize(
    "body", [b'{"detail":"busy"}', b'{"object":"error","message":"m","code":503}', b'{"message":"m","code":"Throttling"}']
)
def test_rsp_01_flat_errors_in_a_200_are_errors(body: bytes) -> None:
    assert isinstance(read_reply(body), ServerError)


@pytest.mark.parametrize("body", [b"", b"  \r\n\r\n "])
def test_net_14_an_empty_200_is_broken(body: bytes) -> None:
    assert read_reply(body) == Broken("a 200 with an empty body")


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><html>login</html>", b"\n <html><body>", b"<!-- x --><html>"])
def test_net_06_a_page_is_told_apart(body: bytes) -> None:
    found = read_reply(body)
    assert isinstance(found, Broken)
    assert found.html


def test_net_07_a_stream_is_put_together() -> None:
    body = stream(
        delta("", role="assistant"),
        delta("he"),
        delta("llo", reasoning_content="hm"),
        delta(None, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )
    for form in (body, b": comment\n\n" + body, body.replace(b"\n", b"\r\n"), body.replace(b"data: ", b"data:")):
        assert read_reply(form, "text/event-stream") == Reply("hello", "stop", "hm", None, Usage(3, 2), "m")
    assert read_reply(body) == read_reply(body, "text/event-stream")


def test_net_07_a_stream_of_completions_is_put_together() -> None:
    body = stream({"choices": [{"text": "a"}]}, {"choices": [{"text": "b", "finish_reason": "stop"}]})
    assert read_reply(body) == Reply("ab", "stop")


@pytest.mark.parametrize("body", [stream(delta("he"), done=False), stream(delta("he"), done=False) + b'data: {"cho'])
def test_net_07_a_stream_that_broke_off_is_no_reply(body: bytes) -> None:
    found = read_reply(body, "text/event-stream")
    assert isinstance(found, Broken)
    assert found.cut


def test_an_error_event_inside_a_stream_is_an_error() -> None:
    found = read_reply(stream(delta("he"), {"error": {"code": 503, "message": "aborted"}}))
    assert isinstance(found, ServerError)
    assert found.status == 503


def test_lone_surrogates_and_invalid_utf8_become_replacement_characters() -> None:
    lone = read_reply(b'{"choices":[{"message":{"content":"a\\ud800b"}}]}')
    broken = read_reply(b'{"choices":[{"message":{"content":"a\xffb"}}]}')
    assert isinstance(lone, Reply)
    assert isinstance(broken, Reply)
    assert lone.content == broken.content == "a\ufffdb"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"choices":' + b"[" * 100_000,
        b'{"choices":[{"message":{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}}]}",
        b'{"usage":{"prompt_tokens":' + b"9" * 100_000 + b'},"choices":[{"text":"a"}]}',
        b"data: " * 2_000_000,
        b"\x00" * 10_000_000,
    ],
    ids=["lists", "objects", "choices", "content", "digits", "data", "zeros"],
)
def test_hostile_bodies_never_raise(body: bytes) -> None:
    assert isinstance(read_reply(body), Reply | Broken)


def test_ten_megabytes_arrive_whole() -> None:
    text = "é" * 5_000_000
    reply = read_reply(chat({"content": text}))
    assert isinstance(reply, Reply)
    assert reply.content == text


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "message", "delta", "content", "text", "usage", "error", "model", "finish_reason"]),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_body_is_read_without_raising(body: bytes) -> None:
    found = read_reply(body)
    assert isinstance(found, Reply | ServerError | Broken)
    if isinstance(found, Reply) and found.content is not None:
        found.content.encode()


@pytest.mark.parametrize(
    ("timings", "told"),
    [
        ({"prompt_ms": 12.5, "predicted_ms": 300.0, "prompt_n": 4}, (0.0125, 0.3)),
        ({"prompt_ms": 0, "predicted_ms": 1}, (0.0, 0.001)),
        ({"prompt_ms": 12.5}, None),
        ({"prompt_ms": -1, "predicted_ms": 300.0}, None),
        ({"prompt_ms": "soon", "predicted_ms": 1e300}, None),
        ([], None),
        (None, None),
    ],
)
def test_how_long_the_server_says_that_it_computed(timings: object, told: object) -> None:
    body = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "timings": timings}
    reply = read_reply(json.dumps(body).encode())
    assert isinstance(reply, Reply)
    assert (reply.content, reply.timing) == ("yes", told)
