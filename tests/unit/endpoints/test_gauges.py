"""What the pages of real servers say of their load, and everything that says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoints import server_pages as pages

from headrace.endpoints.exposition import Series, read_series
from headrace.endpoints.gauges import NAMES, read_gauges, read_loads, read_slots, server_of, told
from headrace.values import Gauges


@pytest.mark.parametrize(
    ("server", "page", "gauges"),
    [
        ("vllm", pages.VLLM_METRICS, Gauges(23, 4, 3, 0.9312, 8, 900_050.0, 1_200_100.0)),
        ("sglang", pages.SGLANG_METRICS, Gauges(20, 2, None, 0.61, 4, 350.0, 1000.0)),
        ("llama.cpp", pages.LLAMA_METRICS, Gauges(8, 3)),
        ("tgi", pages.TGI_METRICS, Gauges(5, 3)),
        ("tei", pages.TEI_METRICS, Gauges(waiting=9)),
        ("tensorrt-llm", pages.TRTLLM_METRICS, Gauges(4, 2, kv_used=0.62)),
    ],
)
def test_a_server_is_known_by_its_page_and_read(server: str, page: bytes, gauges: Gauges) -> None:
    assert server_of(page) == server
    assert read_gauges(server, page) == gauges


def test_what_older_releases_call_it_counts_where_the_newer_name_is_not_there() -> None:
    page = b"vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 3\nvllm:num_requests_running 2\n"
    assert read_gauges("vllm", page) == Gauges(2, kv_used=0.5, prefix_hits=3.0)
    both = page + b"vllm:kv_cache_usage_perc 0.25\n"
    assert read_gauges("vllm", both) == Gauges(2, kv_used=0.25, prefix_hits=3.0)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:num_requests_running",
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running +Inf",
        "vllm:num_requests_running -1",
        "vllm:num_requests_running 1e300",
        "vllm:num_requests_running many",
        'vllm:num_requests_running{engine="0"',
        'vllm:num_requests_running{engine="0"}',
        "vllm:num_requests_running_total 3",
        "# vllm:num_requests_running 3",
        " vllm:num_requests_running 3",
    ],
)
def test_a_line_that_cannot_be_read_says_nothing(line: str) -> None:
    assert read_gauges("vllm", line.encode()) is None


@pytest.mark.parametrize("page", [b"", b"<html><body>404</body></html>", b"{}", b"\xff\xfe\x00", b"up 1\n", b"[" * 5000])
def test_other_pages_are_nobodys(page: bytes) -> None:
    assert server_of(page) is None
    assert read_gauges("vllm", page) is None
    assert read_slots(page) is None
    assert read_loads(page) is None


def test_a_server_without_gauges_has_none() -> None:
    assert read_gauges("ollama", pages.VLLM_METRICS) is None


def test_timestamps_carriage_returns_and_tabs_do_no_harm() -> None:
    page = b'vllm:num_requests_running{engine="0"} 3 1700000000000\r\nvllm:num_requests_waiting\t2\n'
    assert read_gauges("vllm", page) == Gauges(3, 2)


def test_a_share_above_one_is_none() -> None:
    assert read_gauges("vllm", b"vllm:kv_cache_usage_perc 1.01\n") == Gauges(kv_used=1.0)
    assert read_gauges("vllm", b"vllm:kv_cache_usage_perc 45.2\n") is None


def test_labels_may_hold_anything() -> None:
    line = b'a:b{x="1, 2",y="\\"}",z=""} 2.5\n'
    assert read_series(line, ["a:b"]) == {"a:b": [Series({"x": "1, 2", "y": '\\"}', "z": ""}, 2.5)]}


def test_slots_say_how_many_are_at_work() -> None:
    assert read_slots(pages.LLAMA_SLOTS) == Gauges(running=1)
    assert read_slots(b"[]") is None
    assert read_slots(b'[{"id":0}]') is None
    assert read_slots(b"[1]") is None


def test_sglang_says_its_load_without_metrics() -> None:
    assert read_loads(pages.SGLANG_LOADS) == Gauges(7, 1)
    assert read_loads(pages.SGLANG_OLD_LOADS) == Gauges(4, 3)
    assert read_loads(b'{"loads":[{"num_waiting_reqs":-1}]}') is None
    assert read_loads(b'{"loads":[{"num_waiting_reqs":1},{}]}') is None
    assert read_loads(b'[{"num_waiting_reqs":1}]') == Gauges(waiting=1)


def test_told_names_what_is_said() -> None:
    assert told(Gauges(running=0, kv_used=0.0)) == ("running", "kv_used")
    assert told(None) == ()


def test_a_page_of_half_a_megabyte_is_read_to_the_end() -> None:
    rest = b"".join(b'vllm:e2e_request_latency_seconds_bucket{engine="0",le="%d"} 1.0\n' % n for n in range(9000))
    assert read_gauges("vllm", rest + pages.VLLM_METRICS) == read_gauges("vllm", pages.VLLM_METRICS)


@given(st.binary(max_size=300), st.sampled_from(sorted(NAMES)), st.binary(max_size=60))
def test_no_page_raises(page: bytes, server: str, more: bytes) -> None:
    for name in NAMES[server].all()[:3]:
        read_gauges(server, page + b"\n" + name.encode() + more)
    server_of(page)
    read_slots(page)
    read_loads(page)
