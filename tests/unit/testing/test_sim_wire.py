"""Framing of HTTP requests, whatever way the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.testing.sim.wire import MAX_BODY, HttpRequest, Parser, WireError, response

PLAIN = b'POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\nX-Odd:  spaced \r\n\r\n{"a":1}'
CHUNKED = b'POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'
GET = b"GET /stats HTTP/1.1\r\nHost: h\r\n\r\n"


def everything(parser: Parser) -> list[HttpRequest]:
    taken = []
    while (request := parser.take()) is not None:
        taken.append(request)
    return taken


@given(st.lists(st.sampled_from([PLAIN, CHUNKED, GET]), min_size=1, max_size=4), st.data())
def test_requests_are_the_same_however_the_bytes_are_cut(requests: list[bytes], data: st.DataObject):
    stream = b"".join(requests)
    whole = Parser()
    whole.feed(stream)
    expected = everything(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    parser, taken = Parser(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        parser.feed(stream[start:end])
        taken += everything(parser)
    assert taken == expected
    assert len(taken) == len(requests)
    assert parser.waiting == 0


def test_a_request_s_parts_are_taken_apart():
    parser = Parser()
    parser.feed(PLAIN)
    request = parser.take()
    assert request is not None
    assert request[:3] == ("POST", "/v1/x", "a=b")
    assert request.headers[b"x-odd"] == b"spaced"
    assert request.body == b'{"a":1}'
    assert request.keep_alive


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_the_connection_stays_open_as_http_says(head: bytes, keep: bool):
    parser = Parser()
    parser.feed(head)
    request = parser.take()
    assert request is not None
    assert request.keep_alive is keep


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / SPDY/3\r\n\r\n", 400),
        (b"x" * 70_000, 431),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\ncontent-length: %s\r\n\r\n" % (b"9" * 5000), 413),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n", 413),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * 2000, 400),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n", 413),
    ],
)
def test_what_is_no_request_is_refused_with_a_status(stream: bytes, status: int):
    parser = Parser()
    parser.feed(stream)
    with pytest.raises(WireError) as caught:
        everything(parser)
    assert caught.value.status == status


def test_a_reply_says_its_length_and_one_content_type():
    written = response(429, b"{}", headers={"Retry-After": "3", "Content-Type": "text/plain"})
    assert (
        written == b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nretry-after: 3\r\n\r\n{}"
    )
    assert response(524, b"").startswith(b"HTTP/1.1 524 Unknown\r\n")
