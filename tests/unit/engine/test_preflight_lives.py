"""The first request of a life goes alone, after the server has said what it is: one request finds out what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.engine.knobs import Asked, Knobs, Pace
from headrace.events import Event, Warned
from headrace.policy.canary import ALONE_S, LOOK_S
from headrace.testing import NEVER, FakeEndpoint, Laws
from headrace.testing.life import EIGHT, ContentJudge, Life
from headrace.values import Answer, Capacity, Failure, Kind, Note, Reply, Request, Sent, State

WRONG_KEY = Failure(Kind.AUTH, "wrong key", status=401)
UNKNOWN_FIELD = Failure(Kind.BAD_REQUEST, "unknown field", status=400)
REFUSED = Failure(Kind.CONNECTION, "refused", Sent.NO, refused=True)


class Server(FakeEndpoint):
    """Notes when what was sent, and says `told` of itself, after `looks_s`; None: nobody answers."""

    told: Capacity | None = Capacity()
    looks_s = 0.0

    def __init__(self, laws: Laws | None = None, failure: Failure | None = None, name: str = "http://fake/v1") -> None:
        super().__init__(laws, outages=[(0.0, NEVER, failure)] if failure is not None else [], name=name)
        self.sent_at: list[float] = []

    async def capacity(self) -> Capacity | None:
        await asyncio.sleep(self.looks_s)
        return self.told

    async def send(self, request: Request) -> Reply | Failure:
        self.sent_at.append(asyncio.get_running_loop().time())
        return await super().send(request)


class Named(Life):
    """The job asks for the model "m"."""

    def _asked(self) -> list[Asked]:
        return [asked._replace(model="m") for asked in super()._asked()]


def lived(
    servers: Server | list[Server], count: int = 40, pace: Pace = EIGHT, **knobs: object
) -> tuple[Life, str | None, list[str]]:
    told: list[Event] = []
    life = Named(
        [f"text {n}" for n in range(count)], servers, knobs=Knobs("life", 1, **knobs),  # type: ignore[arg-type]
        pace=pace, observers=[told.append],
    )  # fmt: skip
    ending = life.step(1)
    assert ending is not None
    return life, ending.reason, [event.message for event in told if isinstance(event, Warned)]


def in_flight_at(times: Sequence[float], until: float) -> int:
    return sum(at <= until for at in times)


def test_a_wrong_key_costs_one_request() -> None:
    server = Server(Laws(latency_ms=300), WRONG_KEY)
    _, reason, _ = lived(server)
    assert (reason, server.requests_seen) == ("auth", 1)


def test_the_others_follow_when_the_first_has_been_answered() -> None:
    server = Server(Laws(latency_ms=300))
    _, reason, warned = lived(server)
    assert reason is None
    assert warned == []
    first = server.sent_at[0]
    assert in_flight_at(server.sent_at, first + 0.29) == 1
    assert in_flight_at(server.sent_at, first + 0.4) == 9


def test_a_slow_first_answer_does_not_idle_the_server() -> None:
    server = Server(Laws(latency_ms=30_000))
    lived(server)
    first = server.sent_at[0]
    assert in_flight_at(server.sent_at, first + ALONE_S - 0.01) == 1
    assert in_flight_at(server.sent_at, first + ALONE_S + 0.01) == 8


def test_ten_first_requests_that_fail_alike_go_one_by_one_and_stop_the_run() -> None:
    server = Server(Laws(latency_ms=20), UNKNOWN_FIELD)
    life, reason, _ = lived(server)
    assert (reason, server.requests_seen, server.peak_in_flight) == ("misconfigured", 10, 1)
    assert life.count(State.PENDING) == 40


def test_an_endpoint_that_has_answered_this_configuration_needs_no_first_request() -> None:
    class Proven(Life):
        def _asked(self) -> list[Asked]:
            return [asked._replace(is_proven=True) for asked in super()._asked()]

    server = Server(Laws(latency_ms=300))
    Proven([f"text {n}" for n in range(40)], server, pace=Pace(8)).step(1)
    assert in_flight_at(server.sent_at, server.sent_at[0] + 0.1) == 8


def test_each_endpoint_has_a_first_request_of_its_own() -> None:
    good, bad = Server(Laws(latency_ms=100), name="http://good/v1"), Server(Laws(latency_ms=100), WRONG_KEY, "http://bad/v1")
    life, reason, _ = lived([bad, good])
    assert reason is None
    assert life.count(State.DONE) == 40
    assert bad.requests_seen == 1
    assert in_flight_at(good.sent_at, good.sent_at[0] + 0.09) == 1


def test_a_model_that_a_strict_server_does_not_have_costs_nothing() -> None:
    server = Server(Laws(latency_ms=100))
    server.told, server.looks_s = Capacity("vllm", models=("mm", "other")), 0.2
    life, reason, _ = lived(server)
    assert (reason, server.requests_seen) == ("model_missing", 0)
    assert life.count(State.PENDING) == 40


def test_a_model_that_is_missing_at_one_of_two_costs_that_endpoint() -> None:
    other, right = Server(Laws(latency_ms=100), name="http://other/v1"), Server(Laws(latency_ms=100), name="http://right/v1")
    other.told = Capacity("vllm", models=("mm",))
    life, reason, _ = lived([other, right])
    assert (reason, other.requests_seen, life.count(State.DONE)) == (None, 0, 40)


def test_a_list_that_may_be_partial_is_a_warning() -> None:
    server = Server(Laws(latency_ms=100))
    server.told = Capacity("openai", models=("mm",))
    life, reason, warned = lived(server)
    assert (reason, life.count(State.DONE)) == (None, 40)
    assert warned == ['http://fake/v1: it does not list the model "m"; it lists "mm"; the first request finds out']


@pytest.mark.parametrize("told", [None, Capacity("vllm", models=("m",)), Capacity("llama.cpp", models=("x",)), Capacity()])
def test_what_is_not_told_is_no_error(told: Capacity | None) -> None:
    server = Server(Laws(latency_ms=100))
    server.told = told
    life, reason, warned = lived(server)
    assert (reason, life.count(State.DONE), warned) == (None, 40, [])


def test_pages_that_hang_hold_the_first_request_up_for_a_second_only() -> None:
    server = Server(Laws(latency_ms=100))
    server.looks_s = 60.0
    lived(server)
    assert LOOK_S <= server.sent_at[0] <= LOOK_S + 0.1


def test_a_number_of_requests_asks_for_the_models_too_and_stays() -> None:
    server = Server(Laws(latency_ms=100))
    server.told = Capacity("llama.cpp", requests=64, tokens=64_000, gauges=("running",))
    life, _, _ = lived(server, pace=Pace(3))
    assert server.peak_in_flight == 3
    assert server.gauges_asked == 0
    assert life.ledger.meta["told 1"]["requests"] == 64


def test_the_first_answer_that_was_cut_is_told_of() -> None:
    class Cut(ContentJudge):
        def judge(self, reply: Reply) -> Answer | Failure:
            return Failure(Kind.TRUNCATED, "the answer was cut; raise model.max_tokens")

    told: list[Event] = []
    life = Life(["a", "b", "c"], Server(Laws(latency_ms=100)), judge=Cut(), observers=[told.append])
    assert life.step(1)
    assert life.count(State.QUARANTINED) == 3
    said = "http://fake/v1: the first answer is not usable: the answer was cut; raise model.max_tokens"
    assert [event.message for event in told if isinstance(event, Warned)] == [said]


def test_the_longest_prompt_is_held_against_the_context_and_the_others_go_on() -> None:
    server = Server(Laws(latency_ms=800))
    server.told = Capacity("vllm", models=("m",), context=1000)
    told: list[Event] = []
    life = Named(
        ["some words of a text " * (600 if n == 30 else 3) + str(n) for n in range(60)], server,
        knobs=Knobs("life", 1, max_tokens=50), pace=Pace(4), observers=[told.append],
    )  # fmt: skip
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    warned = [event.message for event in told if isinstance(event, Warned)]
    assert len(warned) == 1
    assert "the server's context is 1,000: such records fail alone, the others go on" in warned[0]


def test_the_longest_prompt_is_measured_before_the_others_go() -> None:
    server = Server(Laws(latency_ms=50))
    server.told = Capacity("vllm", models=("m",), context=1000)
    life, reason, warned = lived(server, count=8, max_tokens=1000)
    assert (reason, life.count(State.DONE)) == (None, 8)
    assert max(server.sent_at) < 1  # all is over before the first look of once a second
    assert [line for line in warned if "leaves no room" in line]


def test_ctx_01_answers_to_prompts_of_which_a_part_was_read_are_marked() -> None:
    server = Server(Laws(latency_ms=100, reads=2048))
    texts = [f"{n} " + "some more words of a text that goes on " * (40 + n * 8) for n in range(100)]
    told: list[Event] = []
    life = Named(texts, server, knobs=Knobs("life", 1), pace=Pace(4), observers=[told.append])
    ending = life.step(1)
    assert ending is not None
    assert life.count(State.DONE) == 100
    marked = {
        unit for unit, outcome in life.ledger.outcomes.items()
        if outcome.answer is not None and Note.INPUT_TRUNCATION_SUSPECTED in outcome.answer.notes
    }  # fmt: skip
    assert marked >= {unit for unit, text in enumerate(texts) if len(text) > 4 * 5000}
    assert not marked & {unit for unit, text in enumerate(texts) if len(text) < 4 * 2048}
    assert life.ledger.meta["input cap 1"] == 2048
    warned = [event.message for event in told if isinstance(event, Warned)]
    assert len(warned) == 1
    assert "it counted 2,048 tokens of a prompt that has more" in warned[0]
