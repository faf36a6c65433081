"""Runs over HTTP whose window finds its own size, and whose rate the server's headers or the job give."""

from __future__ import annotations

import pytest

URL = "http://127.0.0.1:9/v1"


@pytest.mark.slow
def test_the_window_grows_over_what_it_began_with(mill):
    mill.put_texts(600)
    mill.put_job(URL)
    done = mill.rehearse(latency_ms=50)
    assert done.items == {"done": 600}
    assert done.seen["in_flight"]["peak"] >= 24


@pytest.mark.slow
def test_a_table_bounds_it(mill):
    mill.put_texts(300)
    mill.put_job(URL, endpoint={"concurrency": {"start": 2, "max": 9}})
    done = mill.rehearse(latency_ms=30)
    assert done.items == {"done": 300}
    assert done.seen["in_flight"]["peak"] == 9


@pytest.mark.slow
def test_limits_in_headers_are_kept_without_a_refusal(mill):
    mill.put_texts(100)
    mill.put_job(URL)
    done = mill.rehearse(requests_per_minute=1800)
    assert done.items == {"done": 100}
    assert done.result.status["requests"]["by_kind"] == {}
    assert done.result.status["concurrency"]["bound_by"] == "rate"


@pytest.mark.slow
def test_limits_of_the_job_are_kept(mill):
    mill.put_texts(60)
    mill.put_job(URL, endpoint={"requests_per_minute": 1200})
    done = mill.rehearse()
    assert done.items == {"done": 60}
    assert done.result.status["concurrency"]["bound_by"] == "rate"


@pytest.mark.slow
def test_a_server_with_a_bounded_cache_is_served_whole(mill):
    mill.put_texts(200)
    mill.put_job(URL)
    done = mill.rehearse(kv_tokens=300, prefill_ms_per_token=0.1, decode_ms_per_token=1, capacity=((0.2, 0.5),))
    assert done.items == {"done": 200}
