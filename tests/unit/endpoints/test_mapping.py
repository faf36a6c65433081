"""THE error mapping, as a table of replies that real servers gave."""

from __future__ import annotations

import bisect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.envelopes import parse, read_error
from headrace.endpoints.mapping import Circumstances, inner_status, kind_of, lost, sent_of
from headrace.endpoints.replies import read_reply
from headrace.endpoints.transport import Reason, TransportError
from headrace.values import PERMANENT, STOPPING, TRANSIENT, Kind, Reply, Sent

HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def openai(message: str, *, kind: str | None = "invalid_request_error", code: Any = None, param: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


def flat(message: str, code: int) -> bytes:
    return json.dumps({"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": code}).encode()


def anthropic(kind: str, message: str = "") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}).encode()


TABLE: list[tuple[str, int, bytes, Kind]] = [
    # OpenAI
    ("rate", 429, openai("Rate limit reached", kind="rate_limit_error", code="rate_limit_exceeded"), Kind.RATE_LIMITED),
    ("old rate", 429, openai("Rate limit reached", kind="tokens", code="rate_limit_exceeded"), Kind.RATE_LIMITED),
    ("slow down", 429, openai("Slow down", code="slow_down"), Kind.RATE_LIMITED),
    ("quota", 429, openai("You exceeded", kind="insufficient_quota", code="credit_balance_exhausted"), Kind.QUOTA),
    ("rtl-01 old quota", 429, openai("You exceeded", kind="insufficient_quota", code="insufficient_quota"), Kind.QUOTA),
    ("quota by type alone", 429, b'{"error":{"type":"insufficient_quota"}}', Kind.QUOTA),
    ("org limit", 429, openai("x", code="organization_spend_limit_exceeded"), Kind.QUOTA),
    ("key", 401, openai("Incorrect API key provided", code="invalid_api_key"), Kind.AUTH),
    ("country", 403, openai("Country not supported", code="unsupported_country_region_territory"), Kind.AUTH),
    (
        "model",
        404,
        openai("The model `x` does not exist or you do not have access to it.", code="model_not_found"),
        Kind.MODEL_MISSING,
    ),
    ("context", 400, openai("This model's maximum context length is 8", code="context_length_exceeded"), Kind.CONTEXT_TOO_LONG),
    ("context by code", 400, openai("too much", code="context_length_exceeded"), Kind.CONTEXT_TOO_LONG),
    ("parameter", 400, openai("Unsupported parameter: 'x'", code="unsupported_parameter", param="x"), Kind.BAD_REQUEST),
    ("server", 500, openai("The server had an error", kind="server_error"), Kind.SERVER_ERROR),
    ("overloaded", 503, openai("Overloaded", kind="service_unavailable_error", code="server_is_overloaded"), Kind.OVERLOADED),
    # Azure
    (
        "azure rate",
        429,
        b'{"error":{"code":"429","message":"have exceeded call rate limit. Please retry after 7 seconds."}}',
        Kind.RATE_LIMITED,
    ),
    (
        "azure deployment",
        404,
        b'{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}',
        Kind.MODEL_MISSING,
    ),
    (
        "azure filter",
        400,
        b'{"error":{"code":"content_filter","message":"m","innererror":{"code":"ResponsibleAIPolicyViolation"}}}',
        Kind.CONTENT_FILTER,
    ),
    # Anthropic
    ("529", 529, anthropic("overloaded_error", "Overloaded"), Kind.OVERLOADED),
    (
        "anthropic context",
        400,
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Kind.CONTEXT_TOO_LONG,
    ),
    ("anthropic billing", 402, anthropic("billing_error"), Kind.QUOTA),
    ("anthropic credit", 400, anthropic("invalid_request_error", "Your credit balance is too low"), Kind.QUOTA),
    ("anthropic spend", 429, anthropic("rate_limit_error", "enforced_spend_limit_reached"), Kind.QUOTA),
    ("anthropic large", 413, anthropic("request_too_large"), Kind.TOO_LARGE),
    ("anthropic 504", 504, anthropic("timeout_error"), Kind.TIMEOUT),
    ("anthropic model", 404, anthropic("not_found_error", "model: claude-x"), Kind.MODEL_MISSING),
    # vLLM, SGLang, llama.cpp, Ollama, TGI
    ("vllm busy", 503, openai("The engine is currently busy", kind="Service Unavailable"), Kind.OVERLOADED),
    ("vllm key", 401, b'{"error":"Unauthorized"}', Kind.AUTH),
    ("vllm model", 404, openai("The model `x` does not exist.", kind="NotFoundError", code=404), Kind.MODEL_MISSING),
    (
        "vllm context",
        400,
        openai(
            "This model's maximum context length is 2048 tokens. However, you",
            kind="BadRequestError",
            code=400,
            param="input_tokens",
        ),
        Kind.CONTEXT_TOO_LONG,
    ),
    (
        "sglang context",
        400,
        flat("The input (9 tokens) is longer than the model's context length (4 tokens).", 400),
        Kind.CONTEXT_TOO_LONG,
    ),
    (
        "sglang count",
        400,
        flat("Requested token count exceeds the model's maximum context length of 4", 400),
        Kind.CONTEXT_TOO_LONG,
    ),
    ("sglang queue", 503, flat("The request queue is full.", 503), Kind.OVERLOADED),
    ("sglang forbidden", 403, b'{"error":"Forbidden"}', Kind.AUTH),
    (
        "llama context",
        400,
        b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}',
        Kind.CONTEXT_TOO_LONG,
    ),
    ("llama loading", 503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', Kind.OVERLOADED),
    (
        "llama image",
        500,
        b'{"error":{"code":500,"message":"image input is not supported - hint","type":"server_error"}}',
        Kind.BAD_REQUEST,
    ),
    ("llama 501", 501, b'{"error":{"code":501,"message":"x","type":"not_supported_error"}}', Kind.BAD_REQUEST),
    ("ollama busy", 503, openai("server busy, please try again.  maximum pending requests exceeded"), Kind.OVERLOADED),
    ("rtl-17 busy behind 500", 500, b"too many pending requests", Kind.OVERLOADED),
    ("ollama context", 400, openai("the input length exceeds the context length"), Kind.CONTEXT_TOO_LONG),
    ("ollama model", 404, openai('model "x" not found, try pulling it first', kind="not_found_error"), Kind.MODEL_MISSING),
    ("tgi overloaded", 429, b'{"error":"Model is overloaded","error_type":"overloaded"}', Kind.OVERLOADED),
    (
        "tgi context",
        422,
        b'{"error":"`inputs` tokens + `max_new_tokens` must be <= 4","error_type":"validation"}',
        Kind.CONTEXT_TOO_LONG,
    ),
    ("tgi generation", 424, b'{"error":"Request failed during generation","error_type":"generation"}', Kind.SERVER_ERROR),
    # Others
    ("openrouter money", 402, b'{"error":{"code":402,"message":"Insufficient credits"}}', Kind.QUOTA),
    (
        "openrouter moderation",
        403,
        b'{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["x"]}}}',
        Kind.CONTENT_FILTER,
    ),
    ("deepseek money", 402, openai("Insufficient Balance", kind="unknown_error", code="invalid_request_error"), Kind.QUOTA),
    ("deepseek model", 400, openai("Model Not Exist"), Kind.MODEL_MISSING),
    ("kimi rate", 429, b'{"error":{"type":"rate_limit_reached_error","message":"max RPM: 3"}}', Kind.RATE_LIMITED),
    ("kimi quota", 429, b'{"error":{"type":"exceeded_current_quota_error","message":"x"}}', Kind.QUOTA),
    ("kimi overload", 429, b'{"error":{"type":"engine_overloaded_error","message":"x"}}', Kind.OVERLOADED),
    ("kimi context", 400, openai("Input token length too long"), Kind.CONTEXT_TOO_LONG),
    (
        "kimi model",
        404,
        b'{"error":{"type":"resource_not_found_error","message":"Not found the model x or Permission denied"}}',
        Kind.MODEL_MISSING,
    ),
    ("qwen arrears", 400, b'{"code":"Arrearage","message":"Access denied"}', Kind.QUOTA),
    ("qwen free tier", 403, b'{"code":"AllocationQuota.FreeTierOnly","message":"x"}', Kind.QUOTA),
    (
        "qwen context",
        400,
        b'{"error":{"code":"InvalidParameter","message":"Range of input length should be [1, 8]"}}',
        Kind.CONTEXT_TOO_LONG,
    ),
    ("qwen content", 400, b'{"error":{"code":"data_inspection_failed","message":"x"}}', Kind.CONTENT_FILTER),
    ("groq flex", 498, openai("x", code="capacity_exceeded"), Kind.OVERLOADED),
    (
        "groq large",
        413,
        openai("Request too large for model on tokens per minute", kind="tokens", code="rate_limit_exceeded"),
        Kind.TOO_LARGE,
    ),
    (
        "gemini rate",
        429,
        b'[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]',
        Kind.RATE_LIMITED,
    ),
    (
        "gemini zero",
        429,
        b'{"error":{"code":429,"message":"Quota exceeded for metric: x, limit: 0","status":"RESOURCE_EXHAUSTED"}}',
        Kind.QUOTA,
    ),
    (
        "gemini day",
        429,
        b'{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}',
        Kind.QUOTA,
    ),
    (
        "gemini key",
        400,
        b'{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}',
        Kind.AUTH,
    ),
    (
        "gemini context",
        400,
        b'{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (4).","status":"INVALID_ARGUMENT"}}',
        Kind.CONTEXT_TOO_LONG,
    ),
    ("together context", 403, openai("Input is too long for the context window"), Kind.CONTEXT_TOO_LONG),
    # Bare statuses and proxies
    ("html 502", 502, HTML, Kind.SERVER_ERROR),
    ("html 504", 504, HTML, Kind.TIMEOUT),
    ("cloudflare 524", 524, HTML, Kind.TIMEOUT),
    ("408", 408, b"", Kind.TIMEOUT),
    ("409", 409, b"", Kind.SERVER_ERROR),
    ("413", 413, HTML, Kind.TOO_LARGE),
    ("ctx-02 413", 413, openai("maximum context length is 4"), Kind.CONTEXT_TOO_LONG),
    ("ctx-02 422", 422, openai("prompt is longer than the model's context length"), Kind.CONTEXT_TOO_LONG),
    ("ctx-02 500", 500, b"Input is longer than the maximum model length of 4", Kind.CONTEXT_TOO_LONG),
    ("fastapi 422", 422, b'{"detail":[{"loc":["body","messages"],"msg":"field required"}]}', Kind.BAD_REQUEST),
    ("rtl-12 502 with 400 inside", 502, b'{"error":{"code":400}}', Kind.SERVER_ERROR),
    ("rtl-12 400 that says 503", 400, openai("upstream status 503, overloaded"), Kind.BAD_REQUEST),
    ("500 with quota words", 500, openai("insufficient_quota"), Kind.SERVER_ERROR),
]


@pytest.mark.parametrize(("status", "body", "kind"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_reply_has_its_kind(status: int, body: bytes, kind: Kind) -> None:
    assert kind_of(status, read_error(body), Circumstances("api.example.com")) is kind


def test_insufficient_quota_clears_by_itself_at_dashscope_only() -> None:
    error = read_error(openai("x", code="insufficient_quota"))
    assert kind_of(429, error, Circumstances("dashscope-intl.aliyuncs.com")) is Kind.RATE_LIMITED
    assert kind_of(429, error, Circumstances("api.openai.com")) is Kind.QUOTA


def test_a_404_that_says_the_models_name_misses_the_model() -> None:
    dotted = read_error(openai("The model `qwen2.5-0.5b` does not exist."))
    other_words = read_error(openai("qwen2.5-0.5b: nothing here"))
    assert kind_of(404, dotted, Circumstances(fresh=True)) is Kind.MODEL_MISSING
    assert kind_of(404, other_words, Circumstances(model="qwen2.5-0.5b", fresh=True)) is Kind.MODEL_MISSING
    assert kind_of(404, other_words, Circumstances(model="another", fresh=True)) is Kind.BAD_ENDPOINT


def test_a_402_that_names_a_wait_is_a_rate_limit() -> None:
    error = read_error(b'{"error":{"code":402,"message":"in_flight_budget"}}')
    assert kind_of(402, error, wait_s=3.0) is Kind.RATE_LIMITED


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 405, 410])
@pytest.mark.parametrize(
    "body", [b"", HTML, b'{"detail":"Not Found"}', b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}']
)
def test_a_reply_that_names_no_model_says_that_the_address_is_wrong_until_the_first_success(status: int, body: bytes) -> None:
    error = read_error(body)
    assert kind_of(status, error, Circumstances(fresh=True)) is Kind.BAD_ENDPOINT
    assert kind_of(status, error, Circumstances(fresh=False)) in TRANSIENT


@pytest.mark.parametrize("status", [408, 504, 524])
def test_a_timeout_on_the_way_may_have_been_billed(status: int) -> None:
    assert sent_of(status) is Sent.MAYBE


@given(st.integers(500, 599), st.text(max_size=60), st.integers(100, 599))
def test_rtl_12_no_digits_make_a_5xx_permanent(status: int, text: str, digits: int) -> None:
    body = json.dumps({"error": {"code": digits, "message": f"status {digits}", "param": text[:0]}}).encode()
    if status == 501:
        body = b""
    assert kind_of(status, read_error(body)) in TRANSIENT


@given(
    st.integers(300, 999),
    st.binary(max_size=200)
    | st.builds(
        lambda value: json.dumps({"error": value}).encode(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["code", "type", "message", "param", "details", "innererror", "metadata", "status", "violations"]
                    ),
                    inner,
                )
            ),
            max_leaves=8,
        ),
    ),
)
def test_out_06_any_status_with_any_body_has_a_kind(status: int, body: bytes) -> None:
    error = read_error(body)
    assert isinstance(error.message, str)
    assert kind_of(status, error) in TRANSIENT | STOPPING | PERMANENT
    assert 300 <= inner_status(error) < 600


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error":{"code":429,"message":"m"}}', 429),
        (b'{"error":{"code":"429","message":"m"}}', 429),
        (b'{"error":{"type":"insufficient_quota","message":"m"}}', 429),
        (b'{"error":{"type":"overloaded_error","message":"m"}}', 503),
        (b'{"error":{"message":"maximum context length is 4"}}', 400),
        (b'{"error":{"code":200,"message":"m"}}', 500),
        (b'{"error":"boom"}', 500),
    ],
)
def test_rsp_01_an_error_inside_a_200_stands_for_a_status(body: bytes, status: int) -> None:
    assert inner_status(read_error(body)) == status


@pytest.mark.parametrize(
    ("reason", "fresh", "kind"),
    [
        (Reason.DNS, True, Kind.BAD_ENDPOINT),
        (Reason.DNS, False, Kind.CONNECTION),
        (Reason.CERTIFICATE, True, Kind.BAD_ENDPOINT),
        (Reason.REFUSED, True, Kind.CONNECTION),
        (Reason.TIMEOUT, True, Kind.TIMEOUT),
        (Reason.SHORT_BODY, True, Kind.CONNECTION),
        (Reason.PROTOCOL, True, Kind.PROTOCOL),
        (Reason.TOO_LARGE, True, Kind.PROTOCOL),
    ],
)
def test_a_lost_request_has_its_kind(reason: Reason, fresh: bool, kind: Kind) -> None:
    failure = lost(TransportError(reason, Sent.MAYBE, "m"), "http://h/v1", fresh=fresh)
    assert (failure.kind, failure.sent, failure.refused) == (kind, Sent.MAYBE, reason is Reason.REFUSED)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"error":' * 100_000,
        b"\xff\xfe" * 100,
        b"<" * 10_000_000,
        b"<script" * 1_000_000,
        b" " * 10_000,
        b"\n" * 7_000 + b"x",
    ],
    ids=range(7),
)
def test_hostile_bodies_are_read_as_text(body: bytes) -> None:
    assert kind_of(500, read_error(body)) is Kind.SERVER_ERROR


@pytest.mark.parametrize(("open_", "close"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize(
    "form", [b'{"error":{"message":%b}}', b'{"error":%b}', b'{"detail":%b}', b'{"error":{"details":%b}}', b'{"a":%b}']
)
def test_what_is_nested_as_deep_as_can_be_read_is_told(form: bytes, open_: bytes, close: bytes) -> None:

    def nested(depth: int) -> bytes:
        return form % (open_ * depth + b"1" + close * depth)

    # Reading gives up at one depth, and writing what was just read a little before it.
    deepest = bisect.bisect_left(range(1_100), True, key=lambda depth: parse(nested(depth)) is None)
    for body in map(nested, range(deepest - 20, deepest + 3)):
        assert kind_of(500, read_error(body)) is Kind.SERVER_ERROR
        assert not isinstance(read_reply(body), Reply)
        assert not isinstance(read_reply(b"data: " + body + b"\n\n"), Reply)


def test_what_a_page_says_far_down_decides_nothing() -> None:
    page = b"<html><body><h1>%b</h1><p>%b</p><p>maximum context length</p></body></html>"
    assert kind_of(500, read_error(page % (b"Oops", b"some words " * 20))) is Kind.CONTEXT_TOO_LONG
    assert kind_of(500, read_error(page % (b"Oops", b"some words " * 200))) is Kind.SERVER_ERROR


def test_what_an_error_object_says_after_much_else_is_still_heard() -> None:
    assert kind_of(400, read_error(openai("field required " * 200 + "maximum context length"))) is Kind.CONTEXT_TOO_LONG
