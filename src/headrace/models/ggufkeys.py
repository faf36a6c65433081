"""A model's attention out of the keys of a GGUF header, which Ollama's /api/show tells too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.models.description import Description, UnknownError, context_of, layers_of, number, optional, share, shown
from headrace.policy.attention import Attention, CacheType, Group, Heads, Latent, State

# Architectures whose every layer llama.cpp caches as told here; the same rule as for model_type: others are unknown.
_PLAIN = frozenset(
    {
        "arcee", "baichuan", "bloom", "chatglm", "command-r", "dbrx", "deepseek", "dots1", "ernie4_5", "ernie4_5-moe", "exaone",
        "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptneox", "granite", "granitemoe", "hunyuan-dense", "internlm2", "llama",
        "minicpm", "mistral3", "mpt", "nemotron", "olmo", "olmo2", "olmoe", "orion", "phi2", "phi3", "phimoe", "qwen", "qwen2",
        "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm",
        "starcoder", "starcoder2", "xverse",
    }
)  # fmt: skip
# Windows with a full layer as every nth, where the file has no pattern of its own.
_PATTERNED = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "gemma3n": 5, "gemma4": 6}
_PATTERN_TOLD = frozenset({"gemma3n", "gemma4"})  # nothing is taken for granted here
_LATENT = frozenset({"deepseek2", "glm-dsa"})
_STATE = frozenset({"mamba", "falcon_mamba", "jamba", "qwen3next", "qwen35", "qwen35moe"})
_DELTA = frozenset({"qwen3next", "qwen35", "qwen35moe"})


def describe_gguf(fields: Mapping[str, Any]) -> Description:
    """What the keys say. Never raises: what is not understood is a note, and `attention` None; so is `weights`."""
    name = fields.get("general.architecture")
    family = name if isinstance(name, str) else ""
    own = {key.removeprefix(f"{family}."): value for key, value in fields.items() if key.startswith(f"{family}.")}
    context = context_of(own, "context_length")
    try:
        groups = _groups(family, own)
        heads = own.get("attention.head_count")
        query = 0 if isinstance(heads, list) else optional(own, "attention.head_count") or 0
        attention = Attention(tuple(group for group in groups if group.layers), query)
    except UnknownError as unknown:
        return Description(family[:60] or None, None, context, None, (f"the attention of this model is unknown: {unknown}",))
    return Description(family[:60] or None, attention, context, None, ())


def asks_for_lists(fields: Mapping[str, Any]) -> bool:
    """Whether what is needed stands in lists that were left out: Ollama tells those only when asked to be verbose."""
    family = fields.get("general.architecture")
    wanted = (f"{family}.attention.head_count_kv", f"{family}.attention.sliding_window_pattern")
    return any(key in fields and not isinstance(fields[key], int) and not fields[key] for key in wanted)


def _groups(family: str, own: Mapping[str, Any]) -> list[Group]:
    if not family:
        raise UnknownError("general.architecture is not told")
    if family in _LATENT:
        return [_latent(own)]
    if family not in _PLAIN and family not in _PATTERNED and family not in _STATE:
        raise UnknownError(f"architecture {shown(family)}")
    layers = layers_of(own, "block_count")
    states = _states(family, own, layers)
    windows = _windows(family, own, layers)
    heads = _by_layer(own, "attention.head_count_kv", layers) or _by_layer(own, "attention.head_count", layers)
    # The last layers may use the cache of earlier ones, or only guess tokens ahead, which is not done here.
    cached = layers - (optional(own, "attention.shared_kv_layers") or 0) - (optional(own, "nextn_predict_layers") or 0)
    if cached < 1:
        raise UnknownError("attention.shared_kv_layers leaves no layer with a cache")
    states = states[:cached]
    counted: dict[tuple[int, bool], int] = {}
    for place in range(cached):
        if not states[place] and heads is not None:
            counted[heads[place], windows[place]] = counted.get((heads[place], windows[place]), 0) + 1
    if not all(states) and (heads is None or any(not kv for kv, _ in counted)):
        raise UnknownError("attention.head_count_kv is not told for each layer")
    groups: list[Group] = [_heads(own, count, kv, window=window) for (kv, window), count in counted.items()]
    return [*groups, _state(family, own, sum(states))] if any(states) else groups


def _heads(own: Mapping[str, Any], layers: int, kv_heads: int, *, window: bool) -> Heads:
    """Keys and values may be of different length, and of another in layers with a window."""
    ending, reach = ("_swa", number(own, "attention.sliding_window")) if window else ("", None)
    dims = []
    for which in ("attention.key_length", "attention.value_length"):
        told = optional(own, which + ending, which)
        if told is None:
            query = own.get("attention.head_count")
            if isinstance(query, list):
                raise UnknownError(f"{which} is not told")
            told = share(number(own, "embedding_length"), number(own, "attention.head_count"), "embedding_length")
        dims.append(told)
    return Heads(layers, kv_heads, dims[0], dims[1], reach)


def _by_layer(own: Mapping[str, Any], key: str, layers: int) -> list[int] | None:
    """A number for each layer; None where the key is not there. A list must have all of them."""
    told = own.get(key)
    if told is None:
        return None
    if not isinstance(told, list):
        return [optional(own, key) or 0] * layers
    if len(told) != layers:
        raise UnknownError(f"{key} is not a list of {layers} layers")
    return [optional({key: value}, key) or 0 for value in told]


def _windows(family: str, own: Mapping[str, Any], layers: int) -> list[bool]:
    if family not in _PATTERNED or not own.get("attention.sliding_window"):
        return [False] * layers
    pattern = own.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) != layers:
            raise UnknownError(f"attention.sliding_window_pattern is not a list of {layers} layers")
        return [bool(value) for value in pattern]
    nth = optional(own, "attention.sliding_window_pattern")
    if nth is None and family in _PATTERN_TOLD:
        raise UnknownError("attention.sliding_window_pattern is not told")
    nth = nth or _PATTERNED[family]
    return [(place + 1) % nth != 0 for place in range(layers)]


def _states(family: str, own: Mapping[str, Any], layers: int) -> list[bool]:
    """Which layers keep a state: those without heads of their own, or all but every nth."""
    if family not in _STATE:
        return [False] * layers
    told = own.get("attention.recurrent_layers")
    if isinstance(told, list) and len(told) == layers:
        return [bool(value) for value in told]
    if family in _DELTA:
        nth = number(own, "full_attention_interval", default=4)
        return [(place + 1) % nth != 0 for place in range(layers)]
    heads = _by_layer(own, "attention.head_count_kv", layers)
    return [not count for count in heads] if heads is not None else [True] * layers


def _state(family: str, own: Mapping[str, Any], layers: int) -> State:
    """llama.cpp keeps all of it at 32 bits."""
    inner, width, kernel = number(own, "ssm.inner_size"), number(own, "ssm.state_size"), number(own, "ssm.conv_kernel")
    grouped = 2 * number(own, "ssm.group_count") * width if family in _DELTA else 0
    return State(layers, width * inner, (kernel - 1) * (inner + grouped), CacheType.FP32, CacheType.FP32)


def _latent(own: Mapping[str, Any]) -> Latent:
    if optional(own, "attention.key_length_mla") is None:
        raise UnknownError(
            "attention.key_length_mla is not told: the file was made before llama.cpp kept a latent; convert it again"
        )
    return Latent(layers_of(own, "block_count"), number(own, "attention.kv_lora_rank"), number(own, "rope.dimension_count"))
