"""A model's attention out of its Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.models.description import (
    Description,
    UnknownError,
    context_of,
    layers_of,
    number,
    optional,
    share,
    shown,
)
from headrace.models.families import (
    CHUNK,
    CHUNKED,
    DEFAULTS,
    FOREIGN,
    FULL,
    GLOBAL_HEADS,
    INDEXED,
    JAMBA,
    LINEAR,
    LINEAR_TYPE,
    MAMBA,
    PATTERNED,
    PLAIN,
    SHARED_LAYERS,
    SLIDING,
    SWITCHED,
    WINDOWED,
)
from headrace.policy.attention import Attention, CacheType, Group, Heads, Latent, State

_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
_CONTEXT = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length")
_FALCON = frozenset({"falcon", "RefinedWeb", "RefinedWebModel"})
_INDEX_SCALED = 128  # elements of an indexer's key that share a 4-byte scale


def describe_config(config: Mapping[str, Any]) -> Description:
    """What the file says. Never raises: what is not understood is a note, and `attention` None."""
    text = _text_part(config)
    broken = next((key for key in _INNER if text.get(key) is not None), None)
    family = text.get("model_type")
    family = family if isinstance(family, str) and family else None
    fields = {**DEFAULTS.get(family or "", {}), **text}
    context = context_of(fields, *_CONTEXT)
    said = family[:60] if family is not None else None
    try:
        if broken is not None:  # what stands in for it would be another model
            raise UnknownError(f"{broken} is no description")
        groups, notes = _groups(family, fields)
        heads = optional(fields, *_HEADS) or 0
        attention = Attention(tuple(group for group in groups if group.layers), heads, _cache_type(config, fields))
    except UnknownError as unknown:
        return Description(said, None, context, None, (f"the attention of this model is unknown: {unknown}",))
    return Description(said, attention, context, None, tuple(notes))


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that is about text: models that also see or hear keep it inside."""
    for _ in range(3):
        inner = next((config[key] for key in _INNER if isinstance(config.get(key), dict)), None)
        if inner is None:
            break
        config = inner
    return config


def _groups(family: str | None, fields: Mapping[str, Any]) -> tuple[list[Group], list[str]]:
    foreign = next((key for key in FOREIGN if fields.get(key)), None)
    if foreign is not None:
        raise UnknownError(f"{foreign} is not understood here")
    if fields.get("kv_lora_rank") is not None:
        return _latent(fields)
    if family in MAMBA:
        return [_mamba(layers_of(fields, *_LAYERS), fields, "state_size", "conv_kernel", "expand")], []
    if family in JAMBA:
        return _jamba(fields), []
    if family in LINEAR:
        return _linear(fields, LINEAR[family])
    if family in PLAIN or family in WINDOWED or family in SWITCHED or family in PATTERNED or family in CHUNKED:
        return _by_kind(family, fields), []
    raise UnknownError("no model_type" if family is None else f"model_type {shown(family)}")


# -- keys and values of heads


def _by_kind(family: str, fields: Mapping[str, Any]) -> list[Group]:
    kinds = _kinds(family, fields)
    if family in SHARED_LAYERS:
        kinds = _without_shared(fields, kinds)
    counts = {kind: kinds.count(kind) for kind in (FULL, SLIDING, CHUNK)}
    kv_heads, width = _kv_heads(family, fields), _head_dim(fields)
    full_heads, full_width = kv_heads, width
    if family in GLOBAL_HEADS:
        full_width = number(fields, "global_head_dim")
        if fields.get("attention_k_eq_v") is True:
            full_heads = optional(fields, "num_global_key_value_heads") or kv_heads
    groups: list[Group] = [Heads(counts[FULL], full_heads, full_width, full_width)]
    if counts[SLIDING]:
        groups.append(Heads(counts[SLIDING], kv_heads, width, width, number(fields, "sliding_window")))
    if counts[CHUNK]:
        groups.append(Heads(counts[CHUNK], kv_heads, width, width, number(fields, "attention_chunk_size"), chunked=True))
    return groups


def _without_shared(fields: Mapping[str, Any], kinds: list[str]) -> list[str]:
    """The last layers may use the cache of earlier ones."""
    if "num_kv_shared_layers" not in fields:
        raise UnknownError("num_kv_shared_layers is not told")
    own = len(kinds) - (optional(fields, "num_kv_shared_layers") or 0)
    if own < 1:
        raise UnknownError("num_kv_shared_layers leaves no layer with a cache")
    return kinds[:own]


def _kinds(family: str, fields: Mapping[str, Any]) -> list[str]:
    """What each layer is. `layer_types` wins over every other key."""
    layers = layers_of(fields, *_LAYERS)
    listed = fields.get("layer_types")
    if listed is not None and not (family in SWITCHED and fields.get("use_sliding_window") is False):
        kinds = _listed(listed, layers, (FULL, SLIDING, CHUNK))
    elif family in PATTERNED:
        kinds = _every(
            optional(fields, "sliding_window_pattern", "_sliding_window_pattern") or PATTERNED[family], layers, SLIDING
        )
    elif family in CHUNKED:
        kinds = _rotary(fields, layers, CHUNKED[family])
    elif family in SWITCHED and fields.get("use_sliding_window") is True and fields.get("sliding_window"):
        most = fields.get("max_window_layers", layers)
        if isinstance(most, bool) or not isinstance(most, int):
            raise UnknownError(f"max_window_layers is {shown(most)}")
        kinds = [SLIDING if place >= most else FULL for place in range(layers)]
    elif family in WINDOWED and fields.get("sliding_window"):
        kinds = [SLIDING] * layers
    else:
        kinds = [FULL] * layers
    if family in GLOBAL_HEADS:
        kinds[-1] = FULL
    return kinds


def _listed(listed: Any, layers: int, allowed: tuple[str, ...]) -> list[str]:
    if not isinstance(listed, list) or len(listed) != layers:
        raise UnknownError(f"layer_types is not a list of {layers} layers")
    odd = next((kind for kind in listed if kind not in allowed), None)
    if odd is not None:
        raise UnknownError(f"layer_types has {shown(odd)}")
    return list(listed)


def _every(nth: int, layers: int, other: str) -> list[str]:
    return [FULL if (place + 1) % nth == 0 else other for place in range(layers)]


def _rotary(fields: Mapping[str, Any], layers: int, nth: int) -> list[str]:
    """Llama 4: layers with rotary positions see a chunk, the others everything."""
    rotary = fields.get("no_rope_layers")
    if not rotary:
        return _every(optional(fields, "no_rope_layer_interval") or nth, layers, CHUNK)
    if not isinstance(rotary, list) or len(rotary) != layers or not all(value in (0, 1) for value in rotary):
        raise UnknownError(f"no_rope_layers is not a list of {layers} layers")
    return [CHUNK if value else FULL for value in rotary]


def _kv_heads(family: str, fields: Mapping[str, Any]) -> int:
    heads = number(fields, *_HEADS)
    found = _told_kv_heads(family, fields, heads)
    if heads % found:
        raise UnknownError(f"{heads} heads cannot share {found} KV heads")
    return found


def _told_kv_heads(family: str, fields: Mapping[str, Any], heads: int) -> int:
    if family == "chatglm":
        return number(fields, "multi_query_group_num") if fields.get("multi_query_attention") is True else heads
    if family == "gpt_bigcode":
        return heads if fields.get("multi_query") is False else 1
    if family in _FALCON:
        if fields.get("new_decoder_architecture") is True:
            return optional(fields, "num_kv_heads", "n_head_kv") or heads
        return heads if fields.get("multi_query") is False else 1
    if family == "mpt" and isinstance(fields.get("attn_config"), dict):
        return optional(fields["attn_config"], "kv_n_heads") or heads
    return optional(fields, "num_key_value_heads") or heads


def _head_dim(fields: Mapping[str, Any]) -> int:
    return optional(fields, "head_dim", "kv_channels") or share(number(fields, *_HIDDEN), number(fields, *_HEADS), "hidden_size")


# -- one latent for all heads


def _latent(fields: Mapping[str, Any]) -> tuple[list[Group], list[str]]:
    layers = layers_of(fields, *_LAYERS)
    listed = fields.get("layer_types")
    if listed is not None:
        _listed(listed, layers, (FULL, INDEXED))
    rank, rope = number(fields, "kv_lora_rank"), number(fields, "qk_rope_head_dim")
    width = optional(fields, "index_head_dim")
    if width is None:
        if listed is not None and INDEXED in listed:
            raise UnknownError("index_head_dim is not told")
        return [Latent(layers, rank, rope)], []
    index = width + 4 * -(-width // _INDEX_SCALED)
    notes = [f"each token's key of the indexer is counted with {index} bytes a layer, at 8 bits with scales"]
    indexed = listed.count(INDEXED) if listed is not None else layers
    return [Latent(indexed, rank, rope, index), Latent(layers - indexed, rank, rope)], notes


# -- layers with a state


def _linear(fields: Mapping[str, Any], nth: int) -> tuple[list[Group], list[str]]:
    layers = layers_of(fields, *_LAYERS)
    listed = fields.get("layer_types")
    if listed is not None:
        kinds = _listed(listed, layers, (FULL, LINEAR_TYPE))
    else:
        kinds = _every(optional(fields, "full_attention_interval") or nth, layers, LINEAR_TYPE)
    key_heads, value_heads = number(fields, "linear_num_key_heads"), number(fields, "linear_num_value_heads")
    key_dim, value_dim = number(fields, "linear_key_head_dim"), number(fields, "linear_value_head_dim")
    kernel = number(fields, "linear_conv_kernel_dim", "linear_conv_kernel_size")
    states = kinds.count(LINEAR_TYPE)
    state = State(
        states, value_heads * key_dim * value_dim, (2 * key_heads * key_dim + value_heads * value_dim) * (kernel - 1),
        recurrent_type=_state_type(fields),
    )  # fmt: skip
    heads, width = optional(fields, "num_key_value_heads") or number(fields, *_HEADS), _head_dim(fields)
    return [Heads(layers - states, heads, width, width), state], _state_notes(state)


def _jamba(fields: Mapping[str, Any]) -> list[Group]:
    layers = layers_of(fields, *_LAYERS)
    period = number(fields, "attn_layer_period")
    offset = optional(fields, "attn_layer_offset") or 0
    full = len(range(offset, layers, period)) if offset < period else 0
    heads, width = optional(fields, "num_key_value_heads") or number(fields, *_HEADS), _head_dim(fields)
    state = _mamba(layers - full, fields, "mamba_d_state", "mamba_d_conv", "mamba_expand")
    return [Heads(full, heads, width, width), state]


def _mamba(layers: int, fields: Mapping[str, Any], state: str, conv: str, expand: str) -> State:
    """Mamba 1. The inner width is a multiple of the hidden one."""
    inner = number(fields, expand) * number(fields, *_HIDDEN)
    return State(layers, inner * number(fields, state), inner * (number(fields, conv) - 1), recurrent_type=_state_type(fields))


def _state_type(fields: Mapping[str, Any]) -> CacheType:
    return CacheType.FP32 if fields.get("mamba_ssm_dtype") == "float32" else CacheType.BF16


def _state_notes(state: State) -> list[str]:
    if state.recurrent_type is CacheType.FP32:
        return []
    more = 2 * state.layers * state.recurrent
    return [f"states are counted at 16 bits; a server that keeps them at 32 takes {more:,} bytes more a request"]


# -- what `auto` stores


def _cache_type(config: Mapping[str, Any], fields: Mapping[str, Any]) -> CacheType:
    """16 bits, unless the checkpoint comes with scales for a cache of 8."""
    for quantized in (config.get("quantization_config"), fields.get("quantization_config")):
        if not isinstance(quantized, dict):
            continue
        scheme = quantized.get("kv_cache_scheme")
        if isinstance(scheme, dict) and scheme.get("num_bits") == 8 and scheme.get("type") == "float":
            return CacheType.FP8
        if quantized.get("kv_cache_quant_algo") == "FP8":
            return CacheType.FP8
    return CacheType.BF16
