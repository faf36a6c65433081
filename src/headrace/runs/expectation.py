"""From what is to be sent to what it will take: tokens of prompts and answers, and time. What is not known stays unknown."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct

from headrace.policy import tokens
from headrace.policy.scale import of_mean
from headrace.policy.tokens import Span
from headrace.runs.prices import copies_of, longest_answer
from headrace.spec import EndpointSpec, JobSpec

# Tokens that a chat template adds: for a request, and for each of its messages. The high ones are of templates that say more.
_A_REQUEST = Span(1.0, 3.0, 40.0)
_A_MESSAGE = Span(1.0, 4.0, 8.0)
_LABEL = Span(0.8, 1.0, 2.0)  # of a label's JSON: some put line ends into it
_DRIFT = 0.05  # answers change more than prompts do
_PACE = (0.75, 1.5)  # of the time that it would take as fast as before


class Between(Struct, frozen=True):
    """Two figures between which one lies, and the likeliest; None is not known."""

    low: float | None = None
    expected: float | None = None
    high: float | None = None


class Load(Struct, frozen=True):
    """What is to be sent. `messages` are those of one request."""

    requests: int
    messages: int = 0


def prompts_uncalibrated(texts: Span, load: Load) -> Span:
    """Prompt tokens by characters alone: the texts' own, and what a chat template adds."""
    if not load.messages:
        return texts
    added = [
        load.requests * (request + load.messages * message)
        for request, message in zip(_figures(_A_REQUEST), _figures(_A_MESSAGE), strict=True)
    ]
    return Span(*(text + more for text, more in zip(_figures(texts), added, strict=True)))


def usually_added(messages: int) -> float:
    """Tokens that a usual chat template adds to a request of so many messages; none to a bare prompt."""
    return _A_REQUEST.expected + messages * _A_MESSAGE.expected if messages else 0.0


def completions_of(spec: JobSpec, answers: Sequence[int], load: Load) -> Between:
    """Tokens of the answers: like those that there were, else between the shortest and the longest that are allowed; of requests
    that ask for several answers each, all of these.
    """
    count = load.requests
    if not count:
        return Between(0.0, 0.0, 0.0)
    copies, longest = copies_of(spec), longest_answer(spec)
    if spec.answer.method == "score":
        return Between(*[float(count * copies)] * 3)
    most = None if longest is None else float(count * longest)
    if answers:
        found = of_mean(answers, count, _DRIFT)
        return _at_most(Between(found.low, found.expected, found.high), most)
    if spec.answer.labels is not None:
        sizes = [tokens.estimate(orjson.dumps({"label": label}).decode()) for label in spec.answer.labels]
        mean, count = sum(sizes) / len(sizes), count * copies
        high = count * max(sizes) * _LABEL.high if most is None else most
        return _at_most(Between(count * min(sizes) * _LABEL.low, count * mean * _LABEL.expected, high), most)
    return Between(float(count * copies), None, most)


def seconds_of(
    endpoints: Sequence[EndpointSpec], prompt: Span, answers: Between, load: Load, per_second: float | None
) -> Between:
    """How long it takes: as fast as before, and no faster than the limits that every endpoint names. Unknown without both."""
    if not load.requests:
        return Between(0.0, 0.0, 0.0)
    low: list[float] = []
    high: list[float] = []
    requests_a_minute = _summed([endpoint.requests_per_minute for endpoint in endpoints])
    if requests_a_minute is not None:
        low.append(60 * load.requests / requests_a_minute)
        high.append(60 * load.requests / requests_a_minute)
    tokens_a_minute = _summed([endpoint.tokens_per_minute for endpoint in endpoints])
    if tokens_a_minute is not None:
        low.append(60 * (prompt.low + (answers.low or 0.0)) / tokens_a_minute)
        if answers.high is not None:
            high.append(60 * (prompt.high + answers.high) / tokens_a_minute)
    if per_second:
        low.append(_PACE[0] * load.requests / per_second)
        high.append(_PACE[1] * load.requests / per_second)
    if not low:
        return Between()
    is_open = tokens_a_minute is not None and answers.high is None and not per_second
    return Between(max(low), None, None if is_open else max([*low, *high]))


def _figures(span: Span) -> tuple[float, float, float]:
    return span.low, span.expected, span.high


def _at_most(found: Between, most: float | None) -> Between:
    if most is None:
        return found
    return Between(*(None if figure is None else min(figure, most) for figure in (found.low, found.expected, found.high)))


def _summed(limits: Sequence[float | None]) -> float | None:
    """What all together keep to; one without a limit of its own makes it unknown."""
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known and len(known) == len(limits) else None
