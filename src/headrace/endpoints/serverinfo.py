"""What a server is and how much it holds, read from its own pages. Nothing here sends, and nothing raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.endpoints.exposition import read_series
from headrace.values import Capacity

# Who says to own a model in GET /v1/models, and what serves it then.
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "library": "ollama",
    "openai": "openai",
    "openai-internal": "openai",
    "system": "openai",
}
# llama.cpp takes this many slots by itself, and then they share one cache; a number that is asked for divides it.
_SHARING_SLOTS = 4
_MOST_MODELS = 1000
_LONGEST_NAME = 200
_CACHE_INFO = "vllm:cache_config_info"
_TGI_TOKENS = "tgi_batch_max_total_tokens"


class Models(Struct, frozen=True):
    """GET /v1/models: the names, who serves them as far as that is said, and the context of the first or of the one named.

    `is_whole`: these are all names, and not a page of them.
    """

    names: tuple[str, ...] = ()
    server: str | None = None
    context: int | None = None
    is_whole: bool = True


def read_json(page: bytes | None) -> Any:
    """The page as JSON; None where it is none."""
    if page is None:
        return None
    try:
        return msgspec.json.decode(page)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def read_models(page: bytes | None, model: str | None) -> Models:
    """`model` is the name of the one that is meant, where there are several."""
    said = _dict(read_json(page))
    listed = _list(said.get("data"))[:_MOST_MODELS]
    cards = [card for card in listed if isinstance(card, dict) and isinstance(card.get("id"), str)]
    chosen = next((card for card in cards if card["id"] == model), cards[0] if cards else {})
    owner = chosen.get("owned_by")
    context = _number(chosen.get("max_model_len")) or _number(_dict(chosen.get("meta")).get("n_ctx"))
    names = tuple("".join(filter(str.isprintable, card["id"]))[:_LONGEST_NAME] for card in cards)
    is_whole = len(listed) < _MOST_MODELS and said.get("has_more") is not True
    return Models(names, _OWNERS.get(owner) if isinstance(owner, str) else None, context, is_whole)


def read_capacity(server: str, pages: Mapping[str, bytes], models: Models) -> Capacity:
    """`pages` by their names: metrics, props, slots, server_info, info."""
    read = {"vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama_cpp, "tgi": _text_generation, "tei": _embeddings}.get(server)
    capacity = read(pages) if read is not None else Capacity(server)
    return replace(capacity, context=capacity.context or models.context, models=models.names, lists_all=models.is_whole)


def server_of_info(page: bytes | None) -> str | None:
    """Whose GET /info this is: text-generation-inference and text-embeddings-inference both serve one."""
    info = _dict(read_json(page))
    if not isinstance(info.get("model_id"), str) or _number(info.get("max_concurrent_requests")) is None:
        return None
    return "tei" if "max_batch_tokens" in info or ("max_input_length" in info and "max_total_tokens" not in info) else "tgi"


def _vllm(pages: Mapping[str, bytes]) -> Capacity:
    """`kv_cache_size_tokens` is one engine's and repeated for each; `num_gpu_blocks` is the sum of all, repeated as well."""
    series = read_series(pages.get("metrics", b""), (_CACHE_INFO,)).get(_CACHE_INFO, [])
    if not series:
        return Capacity("vllm")
    labels = series[0].labels
    engines = len({one.labels.get("engine", "0") for one in series})
    block = _number(labels.get("block_size"))
    each, blocks = _number(labels.get("kv_cache_size_tokens")), _number(labels.get("num_gpu_blocks"))
    tokens, told_by = None, f"GET /metrics, {_CACHE_INFO}"
    if each is not None:
        tokens = each * engines
        told_by += f": kv_cache_size_tokens x {engines} engine{'s' if engines > 1 else ''}"
    elif blocks is not None and block is not None and not _is_hybrid(labels):
        tokens = blocks * block
        told_by += ": num_gpu_blocks x block_size"
    caching = {"true": True, "false": False}.get(labels.get("enable_prefix_caching", "").lower())
    return Capacity("vllm", tokens=tokens, block=block, prefix_caching=caching, told_by=told_by)


def _is_hybrid(labels: Mapping[str, str]) -> bool:
    """Several kinds of layers share one pool of blocks, so that blocks say nothing about tokens."""
    return any(_number(labels.get(name)) is not None for name in ("sliding_window", "mamba_block_size", "mamba_page_size_padded"))


def _sglang(pages: Mapping[str, bytes]) -> Capacity:
    """`internal_states` is one entry a rank of data parallelism; `max_total_num_tokens` is one rank's."""
    info = _dict(read_json(pages.get("server_info")))
    states = [state for state in _list(info.get("internal_states")) if isinstance(state, dict)]
    requests = _total([_number(state.get("effective_max_running_requests_per_dp")) for state in states])
    tokens = _total([_number(_dict(state.get("memory_usage")).get("token_capacity")) for state in states])
    each, ranks = _number(info.get("max_total_num_tokens")), _number(info.get("dp_size")) or 1
    told_by = "GET /server_info"
    if tokens is not None:
        told_by += f": internal_states of {len(states)} rank{'s' if len(states) > 1 else ''}"
    elif each is not None:
        tokens = each * ranks
        told_by += f": max_total_num_tokens x {ranks}"
    if requests is None:
        requests = _number(info.get("max_running_requests"))
    without = info.get("disable_radix_cache")
    return Capacity(
        "sglang",
        requests=requests,
        tokens=tokens,
        block=_number(info.get("page_size")),
        context=_number(info.get("context_length")),
        prefix_caching=not without if isinstance(without, bool) else None,
        told_by=told_by if info else "",
    )


def _llama_cpp(pages: Mapping[str, bytes]) -> Capacity:
    """Each slot says its own context. Only where the server chose their number do they share one cache of that size."""
    props = _dict(read_json(pages.get("props")))
    context = _number(_dict(props.get("default_generation_settings")).get("n_ctx"))
    slots, told_by = _number(props.get("total_slots")), "GET /props"
    if slots is None:
        listed = [slot for slot in _list(read_json(pages.get("slots"))) if isinstance(slot, dict)]
        slots, told_by = len(listed) or None, "GET /slots"
        context = _number(listed[0].get("n_ctx")) if listed else None
    tokens = None
    if slots is not None and context is not None:
        tokens = context if slots == _SHARING_SLOTS else slots * context
    return Capacity(
        "llama.cpp", requests=slots, tokens=tokens, context=context, prefix_caching=True, told_by=told_by if slots else ""
    )


def _text_generation(pages: Mapping[str, bytes]) -> Capacity:
    info = _dict(read_json(pages.get("info")))
    tokens = _number(info.get("max_batch_total_tokens"))
    if tokens is None:
        series = read_series(pages.get("metrics", b""), (_TGI_TOKENS,)).get(_TGI_TOKENS, [])
        tokens = round(series[0].value) if series and series[0].value >= 1 else None
    return Capacity(
        "tgi",
        requests=_number(info.get("max_concurrent_requests")),
        tokens=tokens,
        context=_number(info.get("max_total_tokens")),
        told_by="GET /info" if info else "GET /metrics",
    )


def _embeddings(pages: Mapping[str, bytes]) -> Capacity:
    info = _dict(read_json(pages.get("info")))
    return Capacity(
        "tei",
        requests=_number(info.get("max_concurrent_requests")),
        context=_number(info.get("max_input_length")),
        told_by="GET /info" if info else "",
    )


def _number(value: Any) -> int | None:
    """A whole number of at least 1, also as text; anything else is not said."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) < 16 else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) < 2**53 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**50 else None


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
