"""What running servers tell of the cache they have: vLLM, SGLang, llama.cpp, TGI. Their replies are not to be trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_LARGEST = 2**40
_CONFIG = b"vllm:cache_config_info{"
_LINES_READ = 4_096
_LINE_READ = 65_536
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,80})="((?:[^"\\]|\\.){0,2000})"')


class Served(Struct, frozen=True):
    """`tokens`: what the caches of all engines hold; `most`: requests at once; `context`: of one request. None: not told.

    `at_least`: whether more tokens than told may fit.
    """

    server: str
    tokens: int | None = None
    block: int = 1
    most: int | None = None
    context: int | None = None
    at_least: bool = False
    notes: tuple[str, ...] = ()


def vllm(metrics: bytes) -> Served | None:
    """Out of /metrics; None where it is not vLLM's. Several engines repeat the figures of the first."""
    if b"vllm:" not in metrics:
        return None
    engines: dict[str, dict[str, str]] = {}
    for line in _lines(metrics):
        labels = dict(_LABEL.findall(line))
        engines.setdefault(labels.get("engine", "0"), labels)
    if not engines:
        return Served("vllm", notes=("this vLLM does not tell its cache in /metrics",))
    labels = next(iter(engines.values()))
    tokens, block = _digits(labels.get("kv_cache_size_tokens")), _digits(labels.get("block_size"))
    if tokens is not None:
        return Served("vllm", tokens * len(engines), block or 16)
    blocks = _digits(labels.get("num_gpu_blocks"))
    if blocks is None or block is None:
        return Served("vllm", notes=("this vLLM does not tell its cache in /metrics",))
    note = (
        f"this vLLM tells {blocks:,} blocks of {block} tokens and not what they hold: {blocks * block:,} tokens"
        " if every layer keeps all of them, less with windows or states"
    )
    return Served("vllm", block=block, notes=(note,))


def sglang(info: Any) -> Served | None:
    """Out of /server_info; None where it is not SGLang's."""
    if not isinstance(info, dict) or "max_total_num_tokens" not in info:
        return None
    states = info.get("internal_states")
    states = [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    usages = [state.get("memory_usage") for state in states]
    told = [_whole(usage.get("token_capacity")) if isinstance(usage, dict) else None for usage in usages]
    running = [_whole(state.get("effective_max_running_requests_per_dp")) for state in states]
    ranks = max(len(states), 1)
    first = _whole(info.get("max_total_num_tokens"))
    tokens = sum(filter(None, told)) if told and all(told) else None if first is None else first * ranks
    most = sum(filter(None, running)) if running and all(running) else None
    return Served("sglang", tokens, _whole(info.get("page_size")) or 1, most, _whole(info.get("context_length")))


def llama_cpp(props: Any) -> Served | None:
    """Out of /props; None where it is not llama.cpp's. Whether its slots share one cache is not told."""
    if not isinstance(props, dict) or "total_slots" not in props:
        return None
    settings = props.get("default_generation_settings")
    context = _whole(settings.get("n_ctx")) if isinstance(settings, dict) else None
    slots = _whole(props.get("total_slots"))
    note = (
        f"llama.cpp has {slots} slots of {context:,} tokens and does not tell whether they share them: this many surely fit"
        if slots is not None and context is not None
        else "llama.cpp tells no slots or no context"
    )
    return Served("llama.cpp", context, 1, slots, context, at_least=True, notes=(note,))


def tgi(info: Any) -> Served | None:
    """Out of /info; None where it is not TGI's."""
    if not isinstance(info, dict) or "max_concurrent_requests" not in info:
        return None
    tokens, most = _whole(info.get("max_batch_total_tokens")), _whole(info.get("max_concurrent_requests"))
    return Served("tgi", tokens, 1, most, _whole(info.get("max_total_tokens")))


def model_names(listing: Any) -> list[str]:
    """The names of /v1/models or of Ollama's /api/tags."""
    return [name for name, _ in _models(listing)]


def model_context(listing: Any, name: str | None) -> int | None:
    """`max_model_len` of the named model, or of the first."""
    return next((_whole(card.get("max_model_len")) for found, card in _models(listing) if name in (None, found)), None)


def model_size(listing: Any, name: str) -> int | None:
    """The bytes that /api/tags tells of the named model."""
    return next((_whole(card.get("size")) for found, card in _models(listing) if found == name), None)


def shown_model(reply: Any) -> Mapping[str, Any] | None:
    """The GGUF keys in a reply of /api/show."""
    fields = reply.get("model_info") if isinstance(reply, dict) else None
    return fields if isinstance(fields, dict) else None


def _models(listing: Any) -> list[tuple[str, dict[str, Any]]]:
    cards = (listing.get("data") or listing.get("models")) if isinstance(listing, dict) else None
    found = []
    for card in cards[:10_000] if isinstance(cards, list) else []:
        name = (card.get("id") or card.get("name")) if isinstance(card, dict) else None
        if isinstance(name, str):
            found.append((name, card))
    return found


def _lines(metrics: bytes) -> list[str]:
    """The lines of the one gauge that tells the cache."""
    found: list[str] = []
    at = metrics.find(_CONFIG)
    while at >= 0 and len(found) < _LINES_READ:
        end = metrics.find(b"\n", at)
        line = metrics[at : end if end >= 0 else len(metrics)][:_LINE_READ]
        found.append(line.decode("utf-8", "replace"))
        at = metrics.find(_CONFIG, at + len(line))
    return found


def _digits(text: str | None) -> int | None:
    return _whole(int(text)) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST else None
