"""Bodies that ask for one token and its likeliest others, what is learnt from refusals, and replies that hold none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.endpoints.envelopes import ServerError
from headrace.endpoints.http import NO_LOGPROBS
from headrace.endpoints.transport import Response
from headrace.endpoints.wire import Change, Wire
from headrace.errors import SpecError
from headrace.spec import EndpointSpec, JobSpec, ModelSpec
from headrace.testing.contracts.endpoint import ScriptedTransport, job, open_scripted, refusal, request, response
from headrace.values import Failure, Kind, Reply

TOO_MANY = "Invalid value for 'top_logprobs': must be less than or equal to 5."
TOKENS = [{"token": "web", "logprob": -0.5}, {"token": "games", "logprob": -1.5}]


def scored(model: dict[str, Any] | None = None, **endpoint: Any) -> JobSpec:
    spec = job(model, **endpoint)
    return spec.model_copy(update={"answer": spec.answer.model_copy(update={"labels": ["web", "games"], "method": "score"})})


def replied(content: Any = "web", finish: str = "length", logprobs: Any = None, **message: Any) -> Response:
    choice = {"message": {"content": content, **message}, "finish_reason": finish, "logprobs": logprobs}
    return response(200, {"choices": [choice]})


HELD = {"content": [{"token": "web", "logprob": -0.5, "top_logprobs": TOKENS}]}


def results(transport: ScriptedTransport, spec: JobSpec | None = None, times: int = 1) -> list[Reply | Failure]:
    async def play() -> list[Reply | Failure]:
        endpoint = open_scripted(transport, spec or scored())
        return [await endpoint.send(request(unit)) for unit in range(times)]

    return asyncio.run(play())


@pytest.mark.parametrize("max_tokens", [None, 1, 500])
def test_one_token_is_asked_whatever_the_job_says(max_tokens: int | None) -> None:
    transport = ScriptedTransport(replied(logprobs=HELD), replied(logprobs=HELD))
    model = {"max_tokens": max_tokens} if max_tokens is not None else {}
    (reply,) = results(transport, scored(model))
    results(transport, scored({**model, "route": "completions"}))
    assert isinstance(reply, Reply)
    assert reply.likeliest == [("web", -0.5), ("games", -1.5)]
    chat, completions = transport.bodies
    assert (chat["max_tokens"], chat["logprobs"], chat["top_logprobs"]) == (1, True, 20)
    assert (completions["max_tokens"], completions["logprobs"]) == (1, 5)
    assert "top_logprobs" not in completions
    assert "response_format" not in chat


def test_one_token_is_asked_in_the_field_that_the_model_takes() -> None:
    unsupported = refusal(
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        code="unsupported_parameter",
        param="max_tokens",
    )
    transport = ScriptedTransport(unsupported, replied(logprobs=HELD))
    first, second = results(transport, times=2)
    assert isinstance(first, Failure)
    assert first.mended
    assert isinstance(second, Reply)
    assert (transport.bodies[1]["max_completion_tokens"], "max_tokens" in transport.bodies[1]) == (1, False)
    assert transport.bodies[1]["top_logprobs"] == 20


def test_a_job_that_generates_asks_for_no_log_probabilities() -> None:
    transport = ScriptedTransport(replied())
    (reply,) = results(transport, job())
    assert isinstance(reply, Reply)
    assert reply.likeliest is None
    assert not {"logprobs", "top_logprobs", "max_tokens"} & transport.bodies[0].keys()


def wire(route: str = "chat", **extra: Any) -> Wire:
    model = ModelSpec(name="m", route=route, extra=extra)  # type: ignore[arg-type]  # one of the literals
    return Wire(model, EndpointSpec(url="http://h/v1"), scored=True)


def test_fewer_are_asked_for_after_each_refusal() -> None:
    asked = wire()
    asked.ask_for(100)
    error = ServerError(TOO_MANY)
    changes = []
    counts = []
    for _ in range(3):
        counts.append(asked.form.likeliest)
        changes.append(asked.learn(asked.form, error))
    assert counts == [100, 20, 5]
    assert changes == [Change.MENDED, Change.MENDED, Change.LOGPROBS_REFUSED]
    assert asked.form.likeliest == 5


def test_what_was_on_its_way_when_fewer_were_learnt_is_sent_again() -> None:
    asked = wire()
    first = asked.form
    assert asked.learn(first, ServerError(TOO_MANY)) is Change.MENDED
    assert asked.learn(first, ServerError(TOO_MANY)) is Change.MENDED
    assert asked.form.likeliest == 5


def test_a_refusal_of_something_else_changes_nothing() -> None:
    asked = wire()
    assert asked.learn(asked.form, ServerError("messages is too long")) is Change.NONE
    assert asked.form.likeliest == 20


@pytest.mark.parametrize("key", ["logprobs", "top_logprobs", "n_probs", "max_tokens", "max_completion_tokens"])
def test_extra_cannot_replace_what_a_scored_job_asks(key: str) -> None:
    with pytest.raises(SpecError, match=rf"model\.extra\.{key}"):
        wire(**{key: 1})
    assert Wire(ModelSpec(name="m", extra={key: 1}), EndpointSpec(url="http://h/v1")).form.likeliest is None


def test_an_endpoint_that_refuses_them_is_misconfigured_and_says_what_to_do() -> None:
    transport = ScriptedTransport(*[refusal("This model does not support logprobs.", param="logprobs")] * 2)
    first, second = results(transport, times=2)
    assert isinstance(first, Failure)
    assert first.mended
    assert isinstance(second, Failure)
    assert (second.kind, second.mended) == (Kind.MISCONFIGURED, False)
    assert second.message.endswith(f"does not support logprobs; {NO_LOGPROBS}")
    assert "\n" not in second.message


def test_a_reply_without_them_is_misconfigured_at_first_and_an_odd_reply_later() -> None:
    first, *later = results(ScriptedTransport(replied(), replied(logprobs=HELD), replied()), times=3)
    assert isinstance(first, Failure)
    assert first.kind is Kind.MISCONFIGURED
    assert first.message == f"the reply holds no log-probabilities; {NO_LOGPROBS}"
    assert isinstance(later[0], Reply)
    assert isinstance(later[1], Failure)
    assert later[1].kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    "reply",
    [
        replied(None, "content_filter"), replied("we", "content_filter"), replied("", "stop"), replied(None, "stop"),
        replied(None, "stop", refusal="I cannot."), replied("\ufffd"),
    ],
    ids=["filtered", "cut by the filter", "empty", "null", "refused", "half a character"],
)  # fmt: skip
def test_a_reply_that_has_no_token_of_its_own_says_nothing_about_the_endpoint(reply: Response) -> None:
    (found,) = results(ScriptedTransport(reply))
    assert isinstance(found, Reply)
    assert found.likeliest is None
