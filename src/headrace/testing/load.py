"""What a simulated endpoint says of itself, in the manner of a real server: as values, and as the pages they are read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.testing.batching import Batching, Slots
from headrace.testing.laws import Laws
from headrace.values import Capacity, Gauges

BLOCK = 16
SHARING_SLOTS = 4  # llama.cpp's own choice, whose slots share one context
_SAID = {
    "llama.cpp": ("running", "waiting"),
    "vllm": ("running", "waiting", "waiting_for_capacity", "kv_used", "preemptions", "prefix_hits", "prefix_queries"),
    "sglang": ("running", "waiting", "kv_used", "preemptions", "prefix_hits", "prefix_queries"),
}


@dataclass
class Load:
    """The simulated endpoint as its own pages see it. `scaled` gives a bound as it is now, `in_flight` counts ours."""

    laws: Laws
    slots: Slots | None
    batching: Batching | None
    scaled: Callable[[int], int]

    def gauges(self, in_flight: int, prompt_tokens: int, cached_tokens: int) -> Gauges | None:
        """None where the style says nothing."""
        batching, slots = self.batching, self.slots
        running = batching.running if batching is not None else slots.taken if slots is not None else in_flight
        waiting = batching.waiting if batching is not None else slots.waiting if slots is not None else 0
        figures: dict[str, Any] = {
            "running": running,
            "waiting": waiting,
            "waiting_for_capacity": waiting,
            "kv_used": min(1.0, round(batching.used / self.scaled(self.laws.kv_tokens), 4)) if batching is not None else 0.0,
            "preemptions": batching.preemptions if batching is not None else 0,
            "prefix_hits": float(cached_tokens),
            "prefix_queries": float(prompt_tokens),
        }
        said = _SAID.get(self.laws.style)
        return Gauges(**{name: figures[name] for name in said}) if said is not None else None

    def capacity(self, models: tuple[str, ...] = (), context: int | None = None) -> Capacity:
        """As the server says it now; what it says nothing about is None."""
        style = self.laws.style
        slots, tokens = self.scaled(self.laws.slots) or None, self.scaled(self.laws.kv_tokens) or None
        if style == "none":
            return Capacity(context=context, models=models)
        gauges = _SAID[style]
        if style == "llama.cpp":
            each = context or (tokens // slots if slots and tokens else 4096)
            held = each if slots == SHARING_SLOTS else each * slots if slots is not None else None
            return Capacity(
                style, requests=slots, tokens=held, context=each, prefix_caching=True,
                told_by="GET /props" if slots else "", models=models, gauges=gauges,
            )  # fmt: skip
        if style == "sglang":
            told_by = "GET /server_info: internal_states of 1 rank" if tokens else "GET /server_info"
            return Capacity(
                style, requests=slots, tokens=tokens, block=1, context=context, prefix_caching=True, told_by=told_by,
                models=models, gauges=gauges,
            )  # fmt: skip
        told_by = "GET /metrics, vllm:cache_config_info" + (": kv_cache_size_tokens x 1 engine" if tokens else "")
        return Capacity(
            style, tokens=tokens, block=BLOCK, context=context, prefix_caching=True, told_by=told_by, models=models,
            gauges=gauges,
        )  # fmt: skip


def page_of(path: str, capacity: Capacity, gauges: Gauges | None) -> bytes | None:
    """A page beside /v1 as this style of server serves it; None where it serves none there."""
    if gauges is None:
        return None
    style = capacity.server
    if path == "/metrics":
        return _METRICS[style](capacity, gauges)
    if style == "llama.cpp" and path == "/props" and capacity.requests:
        context = {"default_generation_settings": {"n_ctx": capacity.context}}
        return orjson.dumps({**context, "total_slots": capacity.requests, "build_info": "sim"})
    if style == "llama.cpp" and path == "/slots" and capacity.requests:
        busy = gauges.running or 0
        slots = [{"id": n, "n_ctx": capacity.context, "is_processing": n < busy} for n in range(capacity.requests)]
        return orjson.dumps(slots)
    if style == "sglang" and path in ("/server_info", "/get_server_info"):
        return orjson.dumps(_sglang_info(capacity))
    if style == "sglang" and path == "/v1/loads":
        return orjson.dumps({"loads": [{"dp_rank": 0, "num_running_reqs": gauges.running, "num_waiting_reqs": gauges.waiting}]})
    return None


def owner_of(style: str) -> str:
    """Who owns the models in this style's GET /v1/models."""
    return {"llama.cpp": "llamacpp", "none": "headrace"}.get(style, style)


def _sglang_info(capacity: Capacity) -> dict[str, Any]:
    state: dict[str, Any] = {"last_gen_throughput": 0.0}
    if capacity.tokens is not None:
        state["memory_usage"] = {"token_capacity": capacity.tokens}
    if capacity.requests is not None:
        state["effective_max_running_requests_per_dp"] = capacity.requests
    return {
        "model_path": "sim",
        "page_size": 1,
        "dp_size": 1,
        "disable_radix_cache": False,
        "version": "sim",
        "internal_states": [state],
    }


def _text(rows: Mapping[str, object]) -> bytes:
    lines = []
    for name, value in rows.items():
        bare = name.partition("{")[0]
        kind = "counter" if bare.endswith("_total") else "gauge"
        lines += [f"# HELP {bare} Simulated.", f"# TYPE {bare} {kind}", f"{name} {value}"]
    return ("\n".join(lines) + "\n").encode()


def _llama_cpp(_capacity: Capacity, gauges: Gauges) -> bytes:
    return _text({"llamacpp:requests_processing": gauges.running, "llamacpp:requests_deferred": gauges.waiting})


def _vllm(capacity: Capacity, gauges: Gauges) -> bytes:
    label = '{engine="0",model_name="sim"}'
    info = f'block_size="{capacity.block}",enable_prefix_caching="True",engine="0"'
    if capacity.tokens is not None:
        info += f',kv_cache_size_tokens="{capacity.tokens}",num_gpu_blocks="{capacity.tokens // BLOCK}"'
    reason = '{engine="0",model_name="sim",reason="%s"}'
    return _text(
        {
            f"vllm:num_requests_running{label}": gauges.running,
            f"vllm:num_requests_waiting{label}": gauges.waiting,
            "vllm:num_requests_waiting_by_reason" + reason % "capacity": gauges.waiting_for_capacity,
            f"vllm:kv_cache_usage_perc{label}": gauges.kv_used,
            f"vllm:num_preemptions_total{label}": gauges.preemptions,
            f"vllm:prefix_cache_hits_total{label}": gauges.prefix_hits,
            f"vllm:prefix_cache_queries_total{label}": gauges.prefix_queries,
            f"vllm:cache_config_info{{{info}}}": 1,
        }
    )


def _sglang(_capacity: Capacity, gauges: Gauges) -> bytes:
    label = '{model_name="sim",tp_rank="0"}'
    return _text(
        {
            f"sglang:num_running_reqs{label}": gauges.running,
            f"sglang:num_queue_reqs{label}": gauges.waiting,
            f"sglang:token_usage{label}": gauges.kv_used,
            f"sglang:num_retracted_requests_total{label}": gauges.preemptions,
            f"sglang:cached_tokens_total{label}": gauges.prefix_hits,
            f"sglang:prompt_tokens_total{label}": gauges.prefix_queries,
        }
    )


_METRICS: dict[str, Callable[[Capacity, Gauges], bytes]] = {"llama.cpp": _llama_cpp, "vllm": _vllm, "sglang": _sglang}
