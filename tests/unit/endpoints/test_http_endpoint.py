"""One send is one POST; what the endpoint learns from refusals; what its failures say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.endpoints.http import NO_KEY, HttpEndpoint
from headrace.endpoints.transport import Reason, Response, TransportError
from headrace.errors import SpecError
from headrace.testing.contracts.endpoint import ANSWER, ScriptedTransport, job, open_scripted, refusal, request, response
from headrace.values import Failure, Kind, Reply, Sent

PLAIN = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
STRICT = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {"type": "object"}}}
UNSUPPORTED = refusal(
    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", code="unsupported_parameter", param="max_tokens"
)
KEY = "SECRET-TEST-123"


def send(endpoint: HttpEndpoint, times: int = 1) -> list[Reply | Failure]:
    async def play() -> list[Reply | Failure]:
        return [await endpoint.send(request(unit)) for unit in range(times)]

    return asyncio.run(play())


def failure(endpoint: HttpEndpoint) -> Failure:
    found = send(endpoint)[0]
    assert isinstance(found, Failure)
    return found


def failures(transport: ScriptedTransport, spec: Any = None, **options: Any) -> list[tuple[Kind, bool] | str]:
    results = send(open_scripted(transport, spec, **options), len(transport.script))
    return [(result.kind, result.mended) if isinstance(result, Failure) else "reply" for result in results]


# What is sent


def test_the_body_holds_what_the_job_says_and_nothing_else() -> None:
    transport = ScriptedTransport(response())
    spec = job({"temperature": 0, "max_tokens": 5, "extra": {"top_k": 1}}, model="alias")
    send(open_scripted(transport, spec, response_format=PLAIN))
    assert transport.bodies == [
        {
            "model": "alias",
            "temperature": 0,
            "max_tokens": 5,
            "response_format": PLAIN,
            "top_k": 1,
            "stream": False,
            "messages": [{"role": "user", "content": "hi"}],
        }
    ]


def test_what_is_not_written_is_not_sent() -> None:
    transport = ScriptedTransport(response())
    send(open_scripted(transport))
    assert transport.bodies[0].keys() == {"model", "messages", "stream"}


def test_completions_send_a_prompt() -> None:
    transport = ScriptedTransport(response(200, b'{"choices":[{"text":"yes"}]}'))
    assert isinstance(send(open_scripted(transport, job({"route": "completions"})))[0], Reply)
    assert "prompt" in transport.bodies[0]
    assert transport.urls == ["http://127.0.0.1:9/v1/completions"]


@pytest.mark.parametrize("key", ["model", "messages", "stream", "prompt"])
def test_extra_cannot_replace_what_is_ours(key: str) -> None:
    with pytest.raises(SpecError, match=rf"model\.extra\.{key}"):
        open_scripted(ScriptedTransport(), job({"extra": {key: 1}}))


def test_extra_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(SpecError, match=r"model\.extra"):
        open_scripted(ScriptedTransport(), job({"extra": {"x": float("nan")}}))


def test_rtl_09_the_idempotency_key_travels_and_is_equal_for_equal_asks() -> None:
    transport = ScriptedTransport(TransportError(Reason.CONNECTION, Sent.MAYBE, "lost"), response())
    endpoint = open_scripted(transport)

    async def twice() -> list[Reply | Failure]:
        return [await endpoint.send(request(7)) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert isinstance(first, Failure)
    assert (first.kind, first.sent) == (Kind.CONNECTION, Sent.MAYBE)
    assert isinstance(second, Reply)
    assert transport.keys == ["run-7-0", "run-7-0"]


def test_rtl_03_one_send_is_one_post() -> None:
    transport = ScriptedTransport(*[response(500, b"")] * 3)
    assert failures(transport) == [(Kind.SERVER_ERROR, False)] * 3
    assert len(transport.bodies) == 3


@pytest.mark.parametrize(
    ("url", "sent_to", "name", "identity"),
    [
        ("http://h/v1", "http://h/v1/chat/completions", "http://h/v1", "h/v1"),
        ("http://h/v1/", "http://h/v1/chat/completions", "http://h/v1", "h/v1"),
        ("https://H:8/a/v1?key=x", "https://H:8/a/v1/chat/completions?key=x", "https://H:8/a/v1", "h:8/a/v1"),
        ("http://u:p%40@h/v1", "http://h/v1/chat/completions", "http://h/v1", "h/v1"),
        ("http://[::1]:8/v1", "http://[::1]:8/v1/chat/completions", "http://[::1]:8/v1", "[::1]:8/v1"),
    ],
)
def test_addresses(url: str, sent_to: str, name: str, identity: str) -> None:
    transport = ScriptedTransport(response())
    endpoint = open_scripted(transport, job(url=url))
    send(endpoint)
    assert (transport.urls[0], endpoint.name, endpoint.identity) == (sent_to, name, identity)


def test_userinfo_becomes_a_header() -> None:
    transport = ScriptedTransport(response())
    send(open_scripted(transport, job(url="http://u:p%40@h/v1")))
    assert transport.headers[0]["Authorization"] == "Basic dTpwQA=="


@pytest.mark.parametrize(
    "url", ["ftp://h/v1", "h/v1", "http://", "http:///v1", "http://h:99999/v1", "http://h/v1\n", "http://h/a b"]
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match=r"endpoint\.url"):
        open_scripted(ScriptedTransport(), job(url=url))


@pytest.mark.parametrize("route", ["/chat/completions", "/completions", "/chat/completions/"])
def test_a_url_that_holds_the_route_is_refused_with_a_hint(route: str) -> None:
    with pytest.raises(SpecError, match="leave out"):
        open_scripted(ScriptedTransport(), job(url=f"http://h/v1{route}"))


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"X": "a\nb"}, {"Content-Length": "1"}, {"X": "é"}, {"Host": "h"}])
def test_headers_that_cannot_be_sent_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"endpoint\.headers"):
        open_scripted(ScriptedTransport(), job(headers=headers))


def test_an_identity_that_is_written_is_kept() -> None:
    assert open_scripted(ScriptedTransport(), job(identity="prod")).identity == "prod"


def test_closing_closes_the_transport() -> None:
    transport = ScriptedTransport()
    asyncio.run(open_scripted(transport).close())
    assert transport.closed


# What is learnt from refusals


def test_req_03_max_tokens_is_renamed_once_and_remembered() -> None:
    transport = ScriptedTransport(UNSUPPORTED, response(), response())
    assert failures(transport, job({"max_tokens": 5})) == [(Kind.BAD_REQUEST, True), "reply", "reply"]
    assert [body.get("max_tokens") for body in transport.bodies] == [5, None, None]
    assert [body.get("max_completion_tokens") for body in transport.bodies] == [None, 5, 5]


def test_req_03_a_renamed_field_that_is_refused_too_is_a_bad_request_that_names_it() -> None:
    transport = ScriptedTransport(
        UNSUPPORTED, refusal("Unsupported: max_completion_tokens", code="unsupported_parameter", param="max_completion_tokens")
    )
    endpoint = open_scripted(transport, job({"max_tokens": 5}))
    second = send(endpoint, 2)[1]
    assert isinstance(second, Failure)
    assert (second.kind, second.mended, second.code) == (Kind.BAD_REQUEST, False, "unsupported_parameter")
    assert "max_completion_tokens" in second.message


def test_a_field_name_that_the_job_fixes_is_not_changed() -> None:
    transport = ScriptedTransport(UNSUPPORTED)
    assert failures(transport, job({"max_tokens": 5}, max_tokens_field="max_tokens")) == [(Kind.BAD_REQUEST, False)]


def test_a_value_of_max_tokens_that_is_refused_changes_no_name() -> None:
    transport = ScriptedTransport(refusal("max_tokens is too large: 99999. This model supports at most 4096", param="max_tokens"))
    assert failures(transport, job({"max_tokens": 99999})) == [(Kind.BAD_REQUEST, False)]


def test_another_parameter_is_not_dropped_silently() -> None:
    transport = ScriptedTransport(refusal("Unsupported value: 'temperature'", code="unsupported_value", param="temperature"))
    assert failures(transport, job({"temperature": 0.5, "max_tokens": 5}), response_format=PLAIN) == [(Kind.BAD_REQUEST, False)]


@pytest.mark.parametrize(
    "said",
    [
        refusal("Unknown parameter: 'response_format'.", code="unknown_parameter", param="response_format"),
        refusal("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
        refusal("This response_format type is unavailable now"),
        refusal("extra inputs are not permitted: response_format", status=422),
        response(
            422,
            {
                "detail": [
                    {"loc": ["body", "response_format"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}
                ]
            },
        ),
        refusal("'response_format.type' must be one of 'text', 'json_object'"),
    ],
)
def test_a_server_without_response_format_is_asked_without_it_from_then_on(said: Response) -> None:
    transport = ScriptedTransport(said, response(), response())
    assert failures(transport, response_format=PLAIN, strict_response_format=STRICT) == [
        (Kind.BAD_REQUEST, True),
        "reply",
        "reply",
    ]
    assert ["response_format" in body for body in transport.bodies] == [True, False, False]


@pytest.mark.parametrize(
    "said",
    [
        refusal(
            "Invalid schema for response_format 'a': In context=(), 'additionalProperties' is required",
            code="invalid_json_schema",
        ),
        refusal("The provided JSON schema contains features not supported by xgrammar."),
        refusal("failed to parse grammar"),
        refusal("JSON schema conversion failed: unsupported"),
    ],
)
def test_a_refused_schema_is_sent_once_in_strict_form_and_then_refused(said: Response) -> None:
    transport = ScriptedTransport(said, said, said)
    found = failures(transport, response_format=PLAIN, strict_response_format=STRICT)
    assert found == [(Kind.BAD_REQUEST, True), (Kind.SCHEMA_REFUSED, False), (Kind.SCHEMA_REFUSED, False)]
    assert [body["response_format"] for body in transport.bodies] == [PLAIN, STRICT, STRICT]


def test_a_refused_schema_without_a_strict_form_is_refused_at_once() -> None:
    transport = ScriptedTransport(refusal("failed to parse grammar"))
    assert failures(transport, response_format=PLAIN) == [(Kind.SCHEMA_REFUSED, False)]


def test_a_strict_form_that_is_accepted_is_kept() -> None:
    transport = ScriptedTransport(refusal("Invalid schema for response_format"), response(), response())
    assert failures(transport, response_format=PLAIN, strict_response_format=STRICT) == [
        (Kind.BAD_REQUEST, True),
        "reply",
        "reply",
    ]


def test_words_about_schemas_mean_nothing_where_none_was_sent() -> None:
    assert failures(ScriptedTransport(refusal("failed to parse grammar"))) == [(Kind.BAD_REQUEST, False)]


def test_requests_in_flight_under_the_old_form_are_sent_again_too() -> None:
    class Together(ScriptedTransport):
        async def request(self, *args: Any) -> Response:
            self.script.append(await super().request(*args))
            await asyncio.sleep(0)
            return UNSUPPORTED

    endpoint = open_scripted(Together(UNSUPPORTED, UNSUPPORTED, UNSUPPORTED), job({"max_tokens": 5}))

    async def play() -> list[Reply | Failure]:
        return await asyncio.gather(*(endpoint.send(request(unit)) for unit in range(3)))

    results = asyncio.run(play())
    assert all(isinstance(result, Failure) and result.mended for result in results)


def test_net_09_an_encoding_that_was_not_asked_for_is_named_and_sent_again_once_with_identity() -> None:
    transport = ScriptedTransport(*[response(200, b"(\xb5/\xfd", content_encoding="zstd")] * 2, response())
    endpoint = open_scripted(transport)
    first, second, third = send(endpoint, 3)
    assert isinstance(first, Failure)
    assert isinstance(second, Failure)
    assert (first.kind, first.mended, second.kind, second.mended) == (Kind.PROTOCOL, True, Kind.PROTOCOL, False)
    assert "zstd" in first.message
    assert [headers["Accept-Encoding"] for headers in transport.headers] == ["gzip, deflate", "identity", "identity"]
    assert isinstance(third, Reply)


# What a 200 may hold


@pytest.mark.parametrize(
    ("body", "kind", "wait_s"),
    [
        (b'{"error":{"code":429,"message":"Please retry after 2 seconds"}}', Kind.RATE_LIMITED, 2.0),
        (b'{"error":{"code":502,"message":"down"}}', Kind.SERVER_ERROR, None),
        (b'{"error":{"type":"insufficient_quota","message":"m"}}', Kind.QUOTA, None),
        (b'{"error":{"message":"maximum context length is 5"}}', Kind.CONTEXT_TOO_LONG, None),
        (b'{"choices":null}', Kind.PROTOCOL, None),
        (b'{"choices":[]}', Kind.PROTOCOL, None),
        (b"", Kind.PROTOCOL, None),
        (b"{", Kind.PROTOCOL, None),
        (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', Kind.CONNECTION, None),
    ],
)
def test_rsp_01_net_14_a_200_without_an_answer_is_a_failure(body: bytes, kind: Kind, wait_s: float | None) -> None:
    found = failure(open_scripted(ScriptedTransport(response(200, body))))
    assert (found.kind, found.wait_s, found.status) == (kind, wait_s, 200)


def test_net_07_a_stream_that_broke_off_may_have_been_billed() -> None:
    found = failure(open_scripted(ScriptedTransport(response(200, b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'))))
    assert found.sent is Sent.MAYBE


def test_net_06_a_page_is_a_wrong_address_before_the_first_success_only() -> None:
    page = response(200, b"<html><title>Log in</title></html>", content_type="text/html")
    transport = ScriptedTransport(page, response(), page)
    first, _, third = send(open_scripted(transport), 3)
    assert isinstance(first, Failure)
    assert isinstance(third, Failure)
    assert (first.kind, third.kind) == (Kind.BAD_ENDPOINT, Kind.PROTOCOL)
    assert "http://127.0.0.1:9/v1" in first.message
    assert "Log in" in first.message


@pytest.mark.parametrize("status", [302, 404, 405])
def test_a_404_that_names_no_model_is_a_wrong_address_before_the_first_success_only(status: int) -> None:
    transport = ScriptedTransport(response(status, b""), response(), response(status, b""))
    assert [row if isinstance(row, str) else row[0] for row in failures(transport)] == [
        Kind.BAD_ENDPOINT,
        "reply",
        Kind.PROTOCOL if status == 302 else Kind.SERVER_ERROR,
    ]


# Waits


def test_rtl_04_a_named_wait_is_handed_on_whole() -> None:
    found = failure(open_scripted(ScriptedTransport(response(429, b"", retry_after="61"))))
    assert (found.kind, found.wait_s) == (Kind.RATE_LIMITED, 61.0)


@pytest.mark.parametrize("value", ["-1", "0", "Wed, 21 Oct 2015 07:28:00 GMT", "²", ""])
def test_rtl_06_a_useless_wait_is_none(value: str) -> None:
    found = failure(open_scripted(ScriptedTransport(response(429, b"", retry_after=value)), now=lambda: 2e9))
    assert (found.kind, found.wait_s) == (Kind.RATE_LIMITED, None)


def test_rtl_07_an_empty_bucket_names_the_wait_of_a_429() -> None:
    headers = {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "1m0.052s"}
    assert failure(open_scripted(ScriptedTransport(response(429, b"", **headers)))).wait_s == pytest.approx(60.052)
    assert failure(open_scripted(ScriptedTransport(response(500, b"", **headers)))).wait_s is None


def test_permanent_failures_carry_no_wait() -> None:
    assert failure(open_scripted(ScriptedTransport(response(400, b"", retry_after="5")))).wait_s is None


# Keys


def test_a_key_that_changed_after_a_401_is_used_and_the_send_does_not_count(tmp_path: Path) -> None:
    environ = {"K": "old-key-1"}
    transport = ScriptedTransport(refusal("bad key", 401), response(), refusal("bad key new-key-1", 401))
    endpoint = open_scripted(transport, job(api_key_env="K"), environ)

    async def play() -> list[Reply | Failure]:
        environ["K"] = "new-key-1"
        return [await endpoint.send(request(unit)) for unit in range(3)]

    first, second, third = asyncio.run(play())
    assert isinstance(first, Failure)
    assert (first.kind, first.mended) == (Kind.AUTH, True)
    assert isinstance(second, Reply)
    assert isinstance(third, Failure)
    assert (third.kind, third.mended) == (Kind.AUTH, False)
    assert "new-key-1" not in third.message
    assert [headers["Authorization"] for headers in transport.headers] == [
        "Bearer old-key-1",
        "Bearer new-key-1",
        "Bearer new-key-1",
    ]


def test_a_401_to_a_request_without_a_key_says_where_one_is_named() -> None:
    (failure,) = send(open_scripted(ScriptedTransport(refusal("who are you?", 401))))
    assert isinstance(failure, Failure)
    assert failure.kind is Kind.AUTH
    assert failure.message.endswith(NO_KEY)
    (failure,) = send(open_scripted(ScriptedTransport(refusal("who are you?", 401)), job(api_key_env="K"), {"K": KEY}))
    assert isinstance(failure, Failure)
    assert NO_KEY not in failure.message


def test_a_source_that_fails_after_a_401_is_said_without_a_secret() -> None:
    environ = {"K": KEY}
    endpoint = open_scripted(ScriptedTransport(refusal(f"bad key {KEY}", 401)), job(api_key_env="K"), environ)
    del environ["K"]
    found = failure(endpoint)
    assert (found.kind, found.mended) == (Kind.AUTH, False)
    assert "K is not set" in found.message
    assert KEY not in found.message


# Secrets


@pytest.mark.parametrize(
    "step",
    [
        refusal(f"Incorrect API key provided: {KEY}", 401, code=KEY),
        response(500, f"<html>Authorization: Bearer {KEY}</html>".encode()),
        response(200, f"<html>{KEY}</html>".encode()),
        response(404, f"no such page ?key={KEY}".encode()),
        response(400, {"error": {"message": "x" * 295 + KEY}}),
        response(200, {"error": {"message": KEY, "code": KEY}}),
        response(200, {"choices": [], "echo": KEY}),
        TransportError(Reason.DNS, Sent.NO, f"no address for http://u:{KEY}@h/v1?key={KEY}"),
        TransportError(Reason.TIMEOUT, Sent.MAYBE, f"header Bearer {KEY}"),
    ],
)
@pytest.mark.parametrize("place", ["env", "url", "userinfo", "headers", "headers_env"])
def test_obs_01_no_failure_shows_a_secret(step: Response | TransportError, place: str) -> None:
    where: dict[str, dict[str, Any]] = {
        "env": {"api_key_env": "K"},
        "url": {"url": f"http://h/v1?key={KEY}"},
        "userinfo": {"url": f"http://u:{KEY}@h/v1"},
        "headers": {"headers": {"X-Team": KEY}},
        "headers_env": {"headers_env": {"X-Team": "K"}},
    }
    endpoint = open_scripted(ScriptedTransport(step), job(**where[place]), {"K": KEY})
    found = failure(endpoint)
    for text in (repr(found), repr(endpoint), endpoint.name, endpoint.identity):
        assert KEY not in text
        assert "SECRET" not in text


def test_out_06_odd_bytes_in_errors_become_text() -> None:
    found = failure(open_scripted(ScriptedTransport(response(500, b"\xff\xfe\x00\x1b[31m"))))
    assert found.message.isprintable()
    found.message.encode()


def test_ctx_02_too_long_is_said_whatever_the_status() -> None:
    transport = ScriptedTransport(
        refusal("m", 400, code="context_length_exceeded"),
        refusal("longer than the maximum model length", 500),
        response(200, ANSWER),
    )
    assert failures(transport) == [(Kind.CONTEXT_TOO_LONG, False), (Kind.CONTEXT_TOO_LONG, False), "reply"]


def test_a_redirect_says_where_to_without_its_query() -> None:
    found = failure(open_scripted(ScriptedTransport(response(302, b"", location="https://login.corp/x?next=abcdefgh"))))
    assert (found.kind, "https://login.corp/x" in found.message, "abcdefgh" in found.message) == (Kind.BAD_ENDPOINT, True, False)


def test_the_embedded_model_is_started_elsewhere_and_has_no_address_here() -> None:
    with pytest.raises(SpecError, match=r"endpoint\.url must be"):
        open_scripted(ScriptedTransport(), job(url="local"))


def test_a_byte_order_mark_is_survived() -> None:
    assert isinstance(send(open_scripted(ScriptedTransport(response(200, b"\xef\xbb\xbf" + ANSWER))))[0], Reply)
