"""The engine with each order: what goes ahead, what waits for it, and that nothing is lost on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from headrace.engine.knobs import Knobs, Pace
from headrace.engine.supply import RECALL_UNITS
from headrace.errors import InputBrokenError
from headrace.testing import NEVER, FakeEndpoint, Laws, by_unit
from headrace.testing.life import Life, TextsIntake
from headrace.values import Failure, Kind, Reply, Request, Sent, State, Unit

ORDERS = ("input", "auto", "prefix", "longest")
BROKEN = Failure(Kind.SERVER_ERROR, "boom", status=500)
TOO_LONG = Failure(Kind.CONTEXT_TOO_LONG, "too long", status=400)
SLOW = Laws(latency_ms=100, prefill_ms_per_token=0.2, decode_ms_per_token=1, answer="text:yes", cache_blocks=2000)


class Listener(FakeEndpoint):
    """Knows in which order units came."""

    def __init__(self, laws: Laws, **more: object) -> None:
        super().__init__(laws, **more)  # type: ignore[arg-type]
        self.came: list[int] = []
        self.times: list[float] = []

    async def send(self, request: Request) -> Reply | Failure:
        self.came.append(request.unit)
        self.times.append(asyncio.get_running_loop().time())
        return await super().send(request)


def knobs(order: str, **more: object) -> Knobs:
    return Knobs(**{"run": "life", "config": 1, "order": order, **more})  # type: ignore[arg-type]


def grouped(groups: int, members: int, prefix: int = 2000) -> list[str]:
    texts = [f"document {g} ".ljust(prefix, "d") + f" question {g} {n}" for g in range(groups) for n in range(members)]
    random.Random(1).shuffle(texts)
    return texts


def lived(endpoint: FakeEndpoint, texts: Sequence[str], order: str, pace: Pace, **more: object) -> Life:
    life = Life(texts, endpoint, knobs=knobs(order, **more), pace=pace, max_steps=10_000_000)
    ending = life.step(1)
    assert ending is not None
    assert ending.reason is None
    assert life.count(State.DONE) + life.count(State.FAILED) == len(set(texts))
    return life


def share_computed(endpoint: FakeEndpoint) -> float:
    return 1 - endpoint.cached_tokens / endpoint.prompt_tokens


@pytest.mark.parametrize("order", ORDERS)
def test_every_unit_is_done_once(order: str) -> None:
    endpoint = Listener(SLOW)
    lived(endpoint, [*grouped(20, 8), *[f"alone {n} " * (1 + n % 17) for n in range(1, 100)]], order, Pace(8))
    assert sorted(endpoint.came) == list(range(20 * 8 + 99))


def test_the_order_of_the_input_is_kept() -> None:
    endpoint = Listener(SLOW)
    lived(endpoint, grouped(10, 8), "input", Pace(1))
    assert endpoint.came == list(range(80))


@pytest.mark.parametrize("order", ["auto", "prefix"])
def test_followers_wait_for_their_leader_and_find_the_prefix_cached(order: str) -> None:
    endpoint = Listener(SLOW)
    lived(endpoint, grouped(20, 10), order, Pace(8))
    assert share_computed(endpoint) < 0.15
    other = Listener(SLOW)
    lived(other, grouped(20, 10), "longest", Pace(8))
    assert share_computed(other) > share_computed(endpoint)


def test_the_longest_go_first_also_from_beyond_the_buffer() -> None:
    texts = [f"{n} ".ljust(20 + 4000 * (n % 1499 == 1498), "x") for n in range(3000)]
    endpoint = Listener(Laws(latency_ms=400))
    lived(endpoint, texts, "longest", Pace(4))
    assert set(endpoint.came[:9]) > {1498, 2997}


def test_with_all_input_read_auto_sends_the_longest_first_and_the_shortest_last() -> None:
    texts = [f"{n} ".ljust(20 * (1 + n % 50), "abcdefgh"[n % 8]) for n in range(200)]
    endpoint = Listener(SLOW)
    lived(endpoint, texts, "auto", Pace(4))
    lengths = [n % 50 for n in endpoint.came]
    assert min(lengths[:50]) > max(lengths[-50:])


def test_groups_that_lie_far_apart_in_the_input_are_brought_together() -> None:
    texts = grouped(300, 10)
    assert len(texts) > 4 * RECALL_UNITS
    endpoint = Listener(SLOW)
    lived(endpoint, texts, "auto", Pace(16))
    assert share_computed(endpoint) < 0.2


def test_an_input_too_long_to_be_arranged_at_once_is_arranged_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.pool.MOST_KEYS", 1500)
    endpoint = Listener(SLOW)
    lived(endpoint, grouped(200, 20), "auto", Pace(16))
    assert sorted(endpoint.came) == list(range(4000))
    assert share_computed(endpoint) < 0.35


def test_where_nothing_is_shared_and_lengths_are_even_the_order_stays() -> None:
    endpoint = Listener(SLOW)
    lived(endpoint, [f"{n:06d} ".ljust(200, "abcdefgh"[n % 8]) for n in range(2500)], "auto", Pace(1))
    assert endpoint.came == list(range(2500))


@pytest.mark.parametrize("members", [2, 3, 10])
@pytest.mark.parametrize("keys", [0, 1 << 18])
def test_slots_do_not_stay_empty_for_the_sake_of_an_order(members: int, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that holds a few prefixes only, and buys no time: all that an order can do here is to lose some."""
    monkeypatch.setattr("headrace.engine.pool.MOST_KEYS", keys)
    texts = grouped(1500 // members, members)
    laws = Laws(latency_ms=2000, jitter=0.5, answer="text:yes", cache_blocks=300)
    mean = {}
    for order in ("input", "auto"):
        samples = lived(FakeEndpoint(laws), texts, order, Pace(32)).ledger.samples
        mean[order] = sum(sample.in_flight for sample in samples) / len(samples)
    assert mean["auto"] > 0.94 * mean["input"]


def test_a_leader_that_fails_for_good_is_followed_by_another() -> None:
    texts = [f"{'document '.ljust(2000, 'd')} question {n}" for n in range(6)]
    endpoint = Listener(SLOW, script=by_unit({0: [TOO_LONG], 1: [TOO_LONG]}))
    life = lived(endpoint, texts, "prefix", Pace(8))
    assert endpoint.came[:3] == [0, 1, 2]
    assert life.count(State.FAILED) == 2


def test_a_leader_that_waits_for_its_next_try_is_followed_by_another() -> None:
    texts = [f"{'document '.ljust(2000, 'd')} question {n}" for n in range(6)]
    endpoint = Listener(SLOW, script=by_unit({0: [BROKEN, BROKEN]}))
    lived(endpoint, texts, "prefix", Pace(8))
    assert endpoint.came[:3] == [0, 1, 2]
    assert endpoint.came.count(0) == 3


def test_followers_do_not_wait_for_a_leader_that_takes_long_while_slots_are_empty() -> None:
    texts = [f"{'document '.ljust(2000, 'd')} question {n}" for n in range(20)]
    endpoint = Listener(Laws(latency_ms=50_000))
    life = lived(endpoint, texts, "prefix", Pace(32))
    assert life.ledger.samples[-1].at - life.ledger.samples[0].at < 55
    assert endpoint.peak_in_flight == 20


@pytest.mark.parametrize("order", ["auto", "prefix", "longest"])
def test_each_probe_of_an_endpoint_that_is_down_takes_another_unit(order: str) -> None:
    endpoint = Listener(SLOW, outages=[(1.0, 30.0, BROKEN)])
    lived(endpoint, grouped(10, 8), order, Pace(4), max_attempts=2)
    assert max(endpoint.sends_by_unit.values()) == 2
    assert endpoint.failures[Kind.SERVER_ERROR] >= 6


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("crash_at", [7, 40, 160])
def test_a_run_that_goes_on_finishes_under_whichever_order(order: str, crash_at: int) -> None:
    texts = grouped(250, 6, prefix=600)
    first, second = Listener(SLOW), Listener(SLOW)
    endpoint: FakeEndpoint = first
    life = Life(texts, lambda: endpoint, knobs=knobs("auto"), pace=Pace(16), max_steps=10_000_000)
    assert life.step(1, crash_at=crash_at) is None
    done = {seq for seq, state in life.ledger.states.items() if state is State.DONE}
    endpoint, life.knobs = second, knobs(order)
    ending = life.step(2)
    assert ending is not None
    assert ending.reason is None
    assert life.count(State.DONE) == len(texts)
    assert sorted(second.came) == sorted(set(range(len(texts))) - done)


def test_units_that_an_earlier_process_read_are_arranged_too() -> None:
    texts = grouped(300, 10)
    dead = FakeEndpoint(Laws(latency_ms=100), outages=[(0.0, NEVER, Failure(Kind.AUTH, "wrong key", status=401))])
    endpoint: FakeEndpoint = dead
    life = Life(texts, lambda: endpoint, knobs=knobs("input"), pace=Pace(16), max_steps=10_000_000)
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.input_complete) == ("auth", True)
    endpoint, life.knobs = Listener(SLOW), knobs("auto")
    assert life.step(2)
    assert life.count(State.DONE) == len(texts)
    assert share_computed(endpoint) < 0.2


def test_a_slot_that_waits_for_a_leader_is_the_endpoints_doing() -> None:
    texts = [f"{'document '.ljust(60_000, 'd')} question {n}" for n in range(6)]
    life = lived(Listener(Laws(latency_ms=9000)), texts, "prefix", Pace(8))
    assert {sample.bound_by for sample in life.ledger.samples[1:8]} == {"endpoint"}


class Broken(TextsIntake):
    """Its records have changed when they are to be rendered again."""

    def recall_these(self, seqs: list[int]) -> list[Unit]:
        raise InputBrokenError("the input file was changed")


def test_records_that_changed_meanwhile_end_the_run_when_what_was_read_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.testing.life.TextsIntake", Broken)
    life = Life(grouped(300, 10), Listener(SLOW), knobs=knobs("auto"), pace=Pace(16), max_steps=10_000_000)
    ending = life.step(1)
    assert ending is not None
    assert (ending.reason, ending.exit_code, ending.input_complete) == ("input", 7, False)
    assert life.count(State.LEASED) == 0


def test_what_may_have_been_billed_is_known_after_a_crash_whatever_the_order() -> None:
    lost = Failure(Kind.CONNECTION, "lost", Sent.MAYBE)
    endpoint = Listener(SLOW, script=by_unit({n: [lost] for n in range(0, 40, 3)}))
    lived(endpoint, grouped(8, 5), "auto", Pace(8))
    assert endpoint.requests_seen == 40 + 14


@pytest.mark.parametrize("order", ["auto", "prefix", "longest"])
def test_a_fast_endpoint_is_fed_as_fast_as_in_the_order_of_the_input(order: str) -> None:
    def seconds(order: str) -> float:
        endpoint = Listener(Laws(latency_ms=2))
        lived(endpoint, texts, order, Pace(64))
        return endpoint.times[-1] - endpoint.times[0]

    texts = [f"{n:06d} ".ljust(200, "abcdefgh"[n % 8]) for n in range(4000)]
    assert seconds(order) < 1.5 * seconds("input")


class Counting(TextsIntake):
    """Knows how many units were rendered again."""

    recalled = 0

    def recall(self, after: int, limit: int) -> list[Unit]:
        units = super().recall(after, limit)
        Counting.recalled += len(units)
        return units


def test_a_fast_endpoint_has_few_records_rendered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.testing.life.TextsIntake", Counting)
    monkeypatch.setattr(Counting, "recalled", 0)
    texts = [f"{n:06d} ".ljust(200, "abcdefgh"[n % 8]) for n in range(12_000)]
    lived(Listener(Laws(latency_ms=2)), texts, "auto", Pace(64))
    assert Counting.recalled < 3000
