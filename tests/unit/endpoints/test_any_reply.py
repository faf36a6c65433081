"""Whatever a server sends: a reply, or one failure of one kind that shows no secret, at a cost in proportion to its length."""

from __future__ import annotations

import asyncio
import itertools
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.envelopes import read_error
from headrace.endpoints.mapping import inner_status, kind_of
from headrace.endpoints.redact import LONGEST, Redactor
from headrace.endpoints.replies import read_reply
from headrace.endpoints.retry_after import said
from headrace.testing.contracts.endpoint import ScriptedTransport, job, open_scripted, request, response
from headrace.values import PERMANENT, STOPPING, TRANSIENT, Failure, Reply

KEY = "SECRETKEYabcdef123456"
WORDS = st.sampled_from([KEY, f"Bearer {KEY}", "x" * 1_000, "model", "context_length_exceeded", "insufficient_quota", "\ud800"])
NAMES = st.sampled_from(
    ["error", "message", "code", "type", "param", "detail", "errors", "innererror", "metadata", "raw", "details", "violations",
     "quotaId", "status", "object", "choices", "retry_after", "retryDelay", "usage", "delta", "finish_reason", "content", KEY]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)
BODIES = (
    st.binary(max_size=200)
    | JSON.map(lambda value: json.dumps(value).encode())
    | JSON.map(lambda value: json.dumps({"error": value}).encode())
    | JSON.map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n")
    | st.binary(max_size=60).map(lambda page: b"<html>" + page + KEY.encode())
    | st.text(max_size=60).map(lambda text: f"{text}{KEY}{text}".encode())
    | st.integers(5_000, 7_000).map(lambda blanks: b" " * blanks + KEY.encode())
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry_after", "retry_after_ms", "date", "content_type", "content_encoding", "location",
                     "x_ratelimit_remaining", "x_ratelimit_reset"]),
    st.sampled_from(["0", "5", "1m0.5s", "²", "Wed, 21 Oct 2015 07:28:00 GMT", "text/html", "text/event-stream", "gzip", "br",
                     "identity", KEY, f"https://h/x?k={KEY}"])
    | st.text(max_size=20),
)  # fmt: skip


def sent(*replies: Any) -> Reply | Failure:
    """What comes of the last of these replies."""
    endpoint = open_scripted(ScriptedTransport(*replies), job(api_key_env="K"), {"K": KEY})

    async def play() -> list[Reply | Failure]:
        return [await endpoint.send(request(unit)) for unit in range(len(replies))]

    return asyncio.run(play())[-1]


@pytest.mark.slow
@given(st.integers(100, 999), BODIES, HEADERS, st.booleans())
def test_out_06_obs_01_any_reply_is_a_reply_or_one_failure_that_can_be_shown(
    status: int, body: bytes, headers: dict[str, str], fresh: bool
) -> None:
    before = [] if fresh else [response()]
    found = sent(*before, response(status, body, **headers))
    if isinstance(found, Reply):
        return
    assert found.kind in TRANSIENT | STOPPING | PERMANENT
    assert 0 < len(found.message) <= LONGEST
    assert not {unicodedata.category(char) for char in found.message} & {"Cc", "Zl", "Zp", "Cs"}
    assert KEY[:8] not in repr(found)
    assert found.wait_s is None or 0 < found.wait_s <= 30 * 86_400


def test_a_long_body_that_begins_with_nothing_is_a_failure_as_any_other() -> None:
    for blank in (b" ", b"\n", b"\t\r\n"):
        found = sent(response(500, blank * 7_000 + b"x"))
        assert isinstance(found, Failure)
        assert found.message == "HTTP 500"


PADDED = st.builds(lambda char, times: char * times + KEY, st.sampled_from([" ", "x", "\n", "x "]), st.integers(0, 6_200))
PLACES = [
    '{"error":{"message":%s}}', '{"error":{"code":%s,"message":"m"}}', '{"error":{"type":%s}}', '{"error":{"param":%s}}',
    '{"error":{"message":"m","metadata":{"raw":%s}}}', '{"error":{"innererror":{"code":%s}}}', '{"error":%s}', '{"error":[%s]}',
    '{"detail":%s}', '{"detail":[{"msg":%s}]}', '{"choices":[],"echo":%s}', '{"message":%s}', "%s", "<html>%s",
]  # fmt: skip


@pytest.mark.slow
@given(PADDED, st.sampled_from(PLACES), st.sampled_from([200, 400, 401, 429, 500]))
def test_obs_01_wherever_a_long_text_is_cut_no_beginning_of_a_secret_shows(text: str, place: str, status: int) -> None:
    body = place % (text if place.endswith("%s") else json.dumps(text))
    found = sent(response(status, body.encode()))
    assert "SECR" not in repr(found)


@pytest.mark.parametrize(("place", "pad"), [("code", "x" * 195), ("type", " " * 195), ("raw", " " * 495)])
def test_obs_01_a_secret_that_a_code_was_cut_through_does_not_show(place: str, pad: str) -> None:
    error = {"message": "m", place: pad + KEY, "metadata": {place: pad + KEY}}
    assert "SECR" not in repr(sent(response(500, {"error": error})))
    assert "SECR" not in repr(sent(response(200, {"echo": "x" * 180 + KEY})))
    assert "SECR" not in repr(sent(response(500, b" " * 5_980 + KEY.encode())))


HEADS = [
    "",
    "<html>",
    "<script",
    "data: ",
    '{"error":"',
    '{"message":"',
    "https://h?",
    "Bearer ",
    "api_key=",
    "Cookie: ",
    "http://",
]
TAILS = ["", "@", '"}', ">", "x"]
UNITS = ["a", " ", "\n", "<", "<script", "</", "sk-", "key-", "sk", "Bearer ", "authorization", "authorization: ", "://", "http://a:", "@",
         "https://", "=", "&", "\\", '"', "1s ", "1", "retry ", "model ", "input ", "prompt ", "error schema ", "x.", "data:\n",
         "data: {}\n\n", "data: x\n", "\r", ";", "'"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_the_work_on_a_long_body_grows_with_its_length(unit: str) -> None:
    redact = Redactor([KEY])
    for head, tail in itertools.product(HEADS, TAILS):
        text = head + unit * (60_000 // len(unit)) + tail
        error = read_error(text.encode())
        kind_of(400, error)
        inner_status(error)
        read_reply(text.encode())
        said(text)
        assert len(redact(text)) <= LONGEST
