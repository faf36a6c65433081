"""The laws of simulated endpoints: deterministic, bounded, true to their rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SpecError
from headrace.testing.laws import (
    Allowance,
    Fault,
    Laws,
    PrefixCache,
    digest,
    fault,
    go_duration,
    prefixes_of,
    service_s,
    share,
    tokens,
)


@given(st.integers(), st.text(st.characters(codec=None)), st.integers(0, 100))
def test_a_share_is_in_its_range_and_repeats(seed: int, text: str, n: int):
    drawn = share(seed, "p", digest(text), n)
    assert 0 <= drawn < 1
    assert drawn == share(seed, "p", digest(text), n)


def test_shares_are_spread_evenly_and_differ_by_seed_purpose_and_number():
    drawn = [share(1, "p", digest(str(n))) for n in range(4000)]
    assert sum(drawn) / 4000 == pytest.approx(0.5, abs=0.02)
    assert sum(value < 0.1 for value in drawn) / 4000 == pytest.approx(0.1, abs=0.02)
    key = digest("x")
    assert len({share(1, "p", key), share(2, "p", key), share(1, "q", key), share(1, "p", key, 1)}) == 4


def test_tokens_are_a_quarter_of_the_characters_and_at_least_one():
    assert [tokens("x" * n) for n in (0, 1, 4, 5, 400)] == [1, 1, 1, 2, 100]


def test_faults_keep_their_rates_and_repeat():
    laws = Laws(error_rate=0.1, overload_rate=0.2, reset_rate=0.05, hang_rate=0.05)
    met = [fault(laws, digest(str(n)), 0) for n in range(5000)]
    assert met == [fault(laws, digest(str(n)), 0) for n in range(5000)]
    for what, rate in ((Fault.ERROR, 0.1), (Fault.OVERLOAD, 0.2), (Fault.RESET, 0.05), (Fault.HANG, 0.05), (None, 0.6)):
        assert met.count(what) / 5000 == pytest.approx(rate, abs=0.025)


def test_a_retry_draws_its_fault_anew():
    laws = Laws(error_rate=0.5)
    assert {fault(laws, digest("x"), n) for n in range(50)} == {None, Fault.ERROR}


def test_a_prompt_that_fails_once_fails_the_first_time_only():
    laws = Laws(fail_once_rate=0.5)
    first = [fault(laws, digest(str(n)), 0) for n in range(2000)]
    assert first.count(Fault.OVERLOAD) / 2000 == pytest.approx(0.5, abs=0.05)
    assert not any(fault(laws, digest(str(n)), again) for n in range(2000) for again in (1, 2))


def test_service_takes_what_prompt_and_answer_take():
    laws = Laws(latency_ms=100, prefill_ms_per_token=1, decode_ms_per_token=10)
    assert service_s(laws, digest("x"), fresh_tokens=50, answer_tokens=7) == pytest.approx((0.150, 0.070))


def test_jitter_stays_within_its_share():
    laws = Laws(latency_ms=1000, jitter=0.2)
    taken = [service_s(laws, digest(str(n)), fresh_tokens=0, answer_tokens=0)[0] for n in range(500)]
    assert 0.8 <= min(taken) < 0.85
    assert 1.15 < max(taken) <= 1.2


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0.1, 40)), max_size=60))
def test_an_allowance_never_gives_more_than_its_burst_and_its_rate(steps: list[tuple[float, float]]):
    allowance, now, given_out = Allowance(60), 0.0, 0.0
    for wait, amount in steps:
        now += wait
        if allowance.wait_s(now, amount) == 0:
            allowance.take(now, amount)
            given_out += amount
        assert given_out <= 60 + now + 1e-6


def test_an_allowance_says_how_long_until_there_is_enough():
    allowance = Allowance(120)
    allowance.take(0, 120)
    assert allowance.wait_s(0, 2) == pytest.approx(1)
    assert allowance.wait_s(1, 2) == 0
    assert allowance.wait_s(0, 121) == math.inf
    assert Allowance(0).wait_s(0, 1e9) == 0


def test_rate_limit_headers_are_openai_s():
    allowance = Allowance(600)
    allowance.take(0, 100)
    assert allowance.headers(0, "tokens") == {
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "500",
        "x-ratelimit-reset-tokens": "10s",
    }
    assert Allowance(0).headers(0, "requests") == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0061, "7ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (60.052, "1m0.052s"),
        (360, "6m0s"),
        (3723, "1h2m3s"),
        (3600, "1h0m0s"),
    ],
)
def test_durations_read_as_go_prints_them(seconds: float, text: str):
    assert go_duration(seconds) == text


def test_a_prefix_is_cached_in_whole_blocks_once_kept():
    cache = PrefixCache()
    shared = "s" * 640
    assert cache.cached_tokens(prefixes_of(shared + "a" * 64)) == 0
    cache.keep(prefixes_of(shared + "a" * 64))
    assert cache.cached_tokens(prefixes_of(shared + "b" * 64)) == 160
    assert cache.cached_tokens(prefixes_of(shared + "a" * 63)) == 160
    assert cache.cached_tokens(prefixes_of("b" + shared)) == 0


def test_the_prefix_cache_forgets_what_was_used_least_lately():
    cache = PrefixCache(blocks=10)
    old, new = prefixes_of("o" * 640), prefixes_of("n" * 64)
    cache.keep(old)
    cache.keep(new)
    assert cache.cached_tokens(new) == 16
    assert cache.cached_tokens(old) == 144  # the block at its end has left
    cache.keep(prefixes_of("m" * 640))
    assert cache.cached_tokens(old) == cache.cached_tokens(new) == 0


def test_a_prefix_that_is_found_in_the_cache_has_been_used():
    cache = PrefixCache(blocks=20)
    used, unused = prefixes_of("u" * 640), prefixes_of("n" * 640)
    cache.keep(used)
    cache.keep(unused)
    assert cache.cached_tokens(used) == 160
    cache.keep(prefixes_of("m" * 640))
    assert cache.cached_tokens(used) == 160
    assert cache.cached_tokens(unused) == 0


def test_a_cache_without_room_holds_nothing():
    cache = PrefixCache(blocks=0)
    cache.keep(prefixes_of("a" * 640))
    assert cache.cached_tokens(prefixes_of("a" * 640)) == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"error_rate": 1.5}, "--error-rate is 1.5; allowed: a share between 0 and 1"),
        ({"latency_ms": -1}, "--latency-ms is -1"),
        ({"latency_ms": math.nan}, "--latency-ms is nan"),
        ({"overload_status": 418}, "allowed: 429 or 503"),
        ({"answer": "sing"}, "allowed: echo, echo:N, label, json or text:WORDS"),
        ({"answer": "echo:x"}, "allowed: echo"),
        ({"error_rate": 0.6, "hang_rate": 0.6}, "at most 1 together"),
        ({"retry_after_s": -2}, "--retry-after is -2"),
    ],
)
def test_impossible_laws_are_refused_in_one_line(wrong: dict[str, object], says: str):
    with pytest.raises(SpecError, match=says) as caught:
        Laws(**wrong)  # type: ignore[arg-type] # wrong on purpose
    assert "\n" not in str(caught.value)
