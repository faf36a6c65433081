"""The simulated endpoint without sockets: whatever a body holds, there is a plan, and never an exception."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.testing.laws import Laws
from headrace.testing.replies import Prompt, UnansweredError, draw
from headrace.testing.sim import SimOptions
from headrace.testing.sim.service import Service
from headrace.testing.sim.stats import Stats
from headrace.testing.sim.wire import HttpRequest

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5),
    st.sampled_from(["string", "object", "array", "integer", "number", "#", "#/$defs/a", "http://127.0.0.1:9/x"]),
)  # fmt: skip
KEYWORD_LINE = (
    "type enum const $ref allOf anyOf oneOf properties required items prefixItems minItems minLength maxLength pattern format "
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf additionalProperties uniqueItems $defs not"
)
KEYWORDS = st.sampled_from(KEYWORD_LINE.split(" "))
SCHEMAS = st.recursive(
    SCALARS, lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(KEYWORDS, part, max_size=4)), max_leaves=12
)
KEYS = st.sampled_from(["model", "messages", "prompt", "max_tokens", "response_format", "n", "stream", "role", "content", "type"])
BODIES = st.recursive(SCALARS, lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(KEYS, part, max_size=5)))


def service(**options: Any) -> Service:
    return Service(SimOptions(**options), Stats(), lambda: 1.0)


def post(body: bytes, path: str = "/v1/chat/completions", **headers: str) -> HttpRequest:
    return HttpRequest("POST", path, "", {name.encode(): value.encode() for name, value in headers.items()}, body)


@settings(max_examples=40)
@given(BODIES, st.sampled_from(["echo", "label", "json"]), st.sampled_from(["/v1/chat/completions", "/v1/completions"]))
def test_any_body_gets_a_plan(body: Any, answer: str, path: str):
    plan = service(answer=answer, model="m", context=10).plan(post(orjson.dumps(body), path))
    assert (plan.drawn is not None) == (plan.status == 200)


@settings(max_examples=60)
@given(st.dictionaries(KEYWORDS, SCHEMAS, min_size=1, max_size=4), st.sampled_from(["json", "label"]))
def test_any_schema_is_answered_or_refused(schema: dict[str, Any], answer: str):
    try:
        drawn = draw(Laws(answer=answer, labels=("q", "r")), Prompt.of_text("x"), schema)
    except UnansweredError as error:
        assert "no answer can be made" in str(error)  # noqa: PT017 - both ends are right, neither is asked for
    else:
        orjson.loads(drawn.content)


def test_bodies_that_are_no_object_are_a_400():
    for body in (b"", b"[]", b"{" * 5000, b"\xff", b'"x"'):
        assert service().plan(post(body)).status == 400


def test_a_restart_is_as_if_just_started():
    endpoint = service(requests_per_minute=1)
    body = b'{"messages": [{"role": "user", "content": "x"}]}'
    assert [endpoint.plan(post(body)).status for _ in range(2)] == [200, 429]
    endpoint.restart()
    assert endpoint.stats.requests == 0
    assert endpoint.plan(post(body)).status == 200


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.testing.sim.stats.MAX_COUNTED", 3)
    stats = Stats()
    for n in range(5):
        stats.requests += 1
        stats.came(b"%d" % n)
        stats.keyed(b"%d" % n)
    assert (len(stats.prompts), stats.keys) == (3, 5)
    assert (stats.came(b"0"), stats.came(b"4")) == (1, 5)


def test_resetting_the_counts_keeps_what_is_open():
    stats = Stats()
    stats.opened()
    stats.began()
    stats.requests = 9
    stats.reset()
    assert (stats.requests, stats.sockets, stats.sockets_peak, stats.in_flight, stats.in_flight_peak) == (0, 1, 1, 1, 1)


def scored(path: str, **asked: Any) -> HttpRequest:
    chat = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": "hi"}
    return post(orjson.dumps({**chat, "max_tokens": 1, **asked}), path)


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/v1/chat/completions", {"logprobs": True, "top_logprobs": 5}), ("/v1/completions", {"logprobs": 5})],
    ids=["chat", "completions"],
)
@pytest.mark.parametrize(("most", "status"), [(20, 200), (5, 200), (4, 400), (0, 400)])
def test_no_more_likeliest_tokens_than_the_option_allows(path: str, asked: dict[str, Any], most: int, status: int):
    plan = service(answer="label", labels=("red", "green"), logprobs=most).plan(scored(path, **asked))
    assert plan.status == status
    assert len(plan.likeliest) == (5 if status == 200 else 0)
    assert (b"logprobs" in plan.body) is (status == 400)


@pytest.mark.parametrize("asked", [{}, {"logprobs": False, "top_logprobs": 5}, {"logprobs": None}])
def test_who_asks_for_no_likeliest_tokens_gets_none(asked: dict[str, Any]):
    plan = service(answer="label", labels=("red",), logprobs=0).plan(scored("/v1/chat/completions", **asked))
    assert (plan.status, len(plan.likeliest)) == (200, 0)
