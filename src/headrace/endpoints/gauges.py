"""A server's own pages read as `Gauges`: which names mean what at whom, and how the series of several engines add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headrace.endpoints.exposition import Series, read_series
from headrace.values import Gauges


class Names(Struct, frozen=True):
    """What a server calls each gauge, newest name first: of several the first that is there counts."""

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    by_reason: tuple[str, ...] = ()
    kv_used: tuple[str, ...] = ()
    preemptions: tuple[str, ...] = ()
    prefix_hits: tuple[str, ...] = ()
    prefix_queries: tuple[str, ...] = ()

    def all(self) -> list[str]:
        return [name for field in self.__struct_fields__ for name in getattr(self, field)]


NAMES = {
    "vllm": Names(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        by_reason=("vllm:num_requests_waiting_by_reason",),
        kv_used=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        preemptions=("vllm:num_preemptions_total", "vllm:num_preemptions"),
        prefix_hits=("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total"),
        prefix_queries=("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries_total"),
    ),
    "sglang": Names(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_used=("sglang:token_usage",),
        # `num_retracted_reqs` is a gauge of the last step, and no count.
        preemptions=("sglang:num_retracted_requests_total",),
        prefix_hits=("sglang:cached_tokens_total",),
        prefix_queries=("sglang:prompt_tokens_total",),
    ),
    "llama.cpp": Names(running=("llamacpp:requests_processing",), waiting=("llamacpp:requests_deferred",)),
    "tgi": Names(running=("tgi_batch_current_size",), waiting=("tgi_queue_size",)),
    "tei": Names(waiting=("te_queue_size",)),
    "tensorrt-llm": Names(
        running=("trtllm_num_requests_running",),
        waiting=("trtllm_num_requests_waiting",),
        kv_used=("trtllm_kv_cache_utilization",),
    ),
}
# What the names on a page begin with, by which its server is known.
BEGINNINGS = {
    b"vllm:": "vllm",
    b"sglang:": "sglang",
    b"llamacpp:": "llama.cpp",
    b"tgi_": "tgi",
    b"te_": "tei",
    b"trtllm_": "tensorrt-llm",
}
# Ranks that work on the same requests: each says the same.
_ALIKE = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "cp_rank"})
# Waits for something else than room, such as a grammar that is compiled or a cache that is fetched.
_CAPACITY = "capacity"


def server_of(page: bytes) -> str | None:
    """Whose page of metrics this is; None where no line begins as one of ours."""
    beginnings = tuple(BEGINNINGS)
    for line in page.split(b"\n"):
        if line.startswith(beginnings):
            return next(server for beginning, server in BEGINNINGS.items() if line.startswith(beginning))
    return None


def read_gauges(server: str, page: bytes) -> Gauges | None:
    """What a page of metrics says; None where it says nothing that is known. Never raises."""
    names = NAMES.get(server)
    if names is None:
        return None
    found = read_series(page, names.all())

    def of(choices: Sequence[str]) -> list[Series]:
        return next((found[name] for name in choices if name in found), [])

    reasons = [series for series in of(names.by_reason) if series.labels.get("reason") == _CAPACITY]
    gauges = Gauges(
        running=_count(of(names.running)),
        waiting=_count(of(names.waiting)),
        waiting_for_capacity=_count(reasons),
        kv_used=_share(of(names.kv_used)),
        preemptions=_count(of(names.preemptions)),
        prefix_hits=_sum(of(names.prefix_hits)),
        prefix_queries=_sum(of(names.prefix_queries)),
    )
    return gauges if gauges != Gauges() else None


def read_slots(page: bytes) -> Gauges | None:
    """How many slots of llama.cpp are at work, where it serves no metrics. How many requests wait is not said."""
    slots = _decoded(page)
    if not isinstance(slots, list) or not slots:
        return None
    busy = [slot.get("is_processing") for slot in slots if isinstance(slot, dict)]
    if not busy or not all(isinstance(value, bool) for value in busy):
        return None
    return Gauges(running=busy.count(True))


def read_loads(page: bytes) -> Gauges | None:
    """What SGLang says of its ranks' load, which it does without metrics too."""
    value = _decoded(page)
    ranks = value.get("loads") if isinstance(value, dict) else value
    if not isinstance(ranks, list):
        return None
    ranks = [rank for rank in ranks if isinstance(rank, dict)]
    waiting = _whole(ranks, "num_waiting_reqs")
    running = _whole(ranks, "num_running_reqs")
    every = _whole(ranks, "num_reqs")  # the older form counts both together
    if running is None and every is not None and waiting is not None:
        running = max(0, every - waiting)
    return Gauges(running=running, waiting=waiting) if running is not None or waiting is not None else None


def told(gauges: Gauges | None) -> tuple[str, ...]:
    """The names of what is said."""
    if gauges is None:
        return ()
    return tuple(name for name in gauges.__struct_fields__ if getattr(gauges, name) is not None)


def _whole(ranks: Sequence[dict[str, Any]], name: str) -> int | None:
    values = [rank.get(name) for rank in ranks]
    counted = [value for value in values if type(value) is int and 0 <= value < 2**50]
    return sum(counted) if counted and len(counted) == len(values) else None


def _decoded(page: bytes) -> Any:
    try:
        return msgspec.json.decode(page)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _engines(series: Sequence[Series]) -> list[float]:
    """One value an engine: of ranks that work together the largest. What is split by priority is in the whole already."""
    values: dict[tuple[tuple[str, str], ...], float] = {}
    for one in series:
        if one.labels.get("priority"):
            continue
        key = tuple(sorted(item for item in one.labels.items() if item[0] not in _ALIKE))
        values[key] = max(values.get(key, 0.0), one.value)
    return list(values.values())


def _sum(series: Sequence[Series]) -> float | None:
    values = _engines(series)
    return sum(values) if values else None


def _count(series: Sequence[Series]) -> int | None:
    value = _sum(series)
    return None if value is None else round(value)


def _share(series: Sequence[Series]) -> float | None:
    """Of the fullest engine: it is the one that puts requests back."""
    values = [value for value in _engines(series) if value <= 1.05]
    return min(1.0, max(values)) if values else None
