"""`headrace plan`: from the description of a model and the GPUs it lies on to how many requests fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import SpecError
from headrace.local.gguf import SPLIT, GgufHeader, read_header
from headrace.models.description import Description
from headrace.models.folder import read_folder
from headrace.models.ggufkeys import describe_gguf
from headrace.models.served import Served
from headrace.policy.attention import Attention, CacheType, Group, Heads, Latent, State
from headrace.policy.capacity import Load, Memory, Plan, Store, plan, plan_of_pool
from headrace.runs.plannotes import notes_of, served_notes

KV_DTYPES = ("auto", "bf16", "fp8", "fp8_ds_mla", "q8_0", "q4_0")


class Wanted(Struct, frozen=True):
    """What was asked, checked. `weights` is what the user says they are; `kv_dtype` is one of KV_DTYPES."""

    load: Load
    memory: Memory = Memory()
    kv_dtype: str = "auto"
    block: int = 16
    weights: int | None = None


class Planned(Struct, frozen=True):
    """What follows, and what it follows from. `store` is None where a server spoke for itself."""

    model: str
    wanted: Wanted
    description: Description
    plan: Plan
    notes: tuple[str, ...]
    store: Store | None = None
    server: str | None = None


def copies_of(gpus: int | None, tp: int, pp: int) -> int:
    """How many copies of a model that lies on tp × pp GPUs there are. Raises SpecError where the GPUs do not come out even."""
    one = tp * pp
    if gpus is None:
        return 1
    if gpus % one:
        allowed = f"a multiple of {one}"
        raise SpecError(
            f"--gpus: found {gpus}; allowed: {allowed}, the GPUs of one copy (--tp {tp} × --pp {pp})",
            key="--gpus", found=str(gpus), allowed=allowed,
        )  # fmt: skip
    return gpus // one


def describe_path(path: Path) -> Description:
    """The model in a Hugging Face folder, its config.json, or a .gguf. Raises SpecError in one line."""
    if path.is_dir() or path.name.lower().endswith(".json"):
        return read_folder(path)
    return _describe_gguf(path)


def describe_numbers(layers: int, kv_heads: int, head_dim: int) -> Description:
    """A model of which only this is known: every layer keeps keys and values of its heads."""
    return Description(attention=Attention((Heads(layers, kv_heads, head_dim, head_dim),)))


def plan_described(model: str, description: Description, wanted: Wanted) -> Planned:
    """What follows from a description. Raises SpecError for a cache type that this model cannot have."""
    if wanted.weights is not None:
        told = tuple(note for note in description.notes if "--weights" not in note)
        description = replace(description, weights=wanted.weights, notes=told)
    attention = description.attention
    store = Store(_cache_type(wanted.kv_dtype, attention), wanted.block)
    result = plan(attention, description.weights, wanted.memory, wanted.load, store, description.context)
    notes = (*description.notes, *notes_of(description, result, wanted.memory, wanted.load, store))
    return Planned(model, wanted, description, result, notes, store)


def plan_served(model: str, served: Served, wanted: Wanted) -> Planned:
    """What follows from a server's own figure. GPUs and cache types are its own affair."""
    described = Description(context=served.context)
    if served.tokens is None:
        bound = Plan(max_concurrency=None)
    else:
        bound = plan_of_pool(served.tokens, wanted.load, served.block, served.most, served.context)
        if served.at_least:
            bound = replace(bound, kv_pool_tokens=None)
    return Planned(model, wanted, described, bound, served_notes(served, wanted.memory, wanted.load, bound), server=served.server)


def document(planned: Planned) -> dict[str, Any]:
    """The document of `plan --json`."""
    found, described, load = planned.plan, planned.description, planned.wanted.load
    return {
        "known": found.attention is not None or found.max_concurrency is not None,
        "attention": found.attention,
        "bytes_per_token": found.bytes_per_token,
        "bytes_per_request": found.bytes_per_request,
        "weights_bytes": described.weights,
        "kv_pool_bytes": found.kv_pool_bytes,
        "kv_pool_tokens": found.kv_pool_tokens,
        "max_concurrency": found.max_concurrency,
        "suggested_start": found.suggested_start,
        "notes": list(planned.notes),
        "model": planned.model,
        "server": planned.server,
        "family": described.family,
        "context": described.context,
        "kv_dtype": str(planned.store.kind) if planned.store is not None and described.attention is not None else None,
        "block": planned.store.block if planned.store is not None else None,
        "layers": [_layers(group) for group in described.attention.groups] if described.attention is not None else [],
        "tokens_per_request": load.tokens,
        "shared_prefix_bytes": found.shared_prefix_bytes,
        "times": None if found.times is None else round(found.times, 2),
        "table": [
            {"tokens": row.tokens, "bytes_per_request": row.bytes_per_request, "max_concurrency": row.max_concurrency}
            for row in found.table
        ],
    }


def _layers(group: Group) -> dict[str, Any]:
    """One kind of layer, for scripts: what of it is there depends on the kind."""
    facts: dict[str, Any] = {"kind": group.kind, "layers": group.layers}
    match group:
        case Heads():
            return facts | {
                "kv_heads": group.kv_heads, "key_dim": group.key_dim, "value_dim": group.value_dim, "reach": group.reach,
            }  # fmt: skip
        case Latent():
            return facts | {"width": group.rank + group.rope, "index_bytes": group.index}
        case State():
            return facts | {"bytes": group.constant_bytes(1)}


def _cache_type(kv_dtype: str, attention: Attention | None) -> CacheType:
    if kv_dtype == "auto":
        return attention.cache_type if attention is not None else CacheType.BF16
    kind = CacheType(kv_dtype)
    groups = attention.groups if attention is not None else ()
    if kind is CacheType.FP8_DS_MLA and groups and not any(isinstance(group, Latent) for group in groups):
        allowed = ", ".join(name for name in KV_DTYPES if name != "fp8_ds_mla")
        raise SpecError(
            f"--kv-dtype: found fp8_ds_mla, a layout for latent attention (MLA), which this model has not; allowed: {allowed}",
            key="--kv-dtype", found="fp8_ds_mla", allowed=allowed,
        )  # fmt: skip
    if kind is CacheType.FP8 and any(isinstance(group, Latent) and group.index for group in groups):
        return CacheType.FP8_DS_MLA
    return kind


_ALLOWED = "a Hugging Face folder or its config.json, a .gguf, or a server's URL"


def _describe_gguf(path: Path) -> Description:
    """The keys stand in the first of several parts, the tensors in all of them."""
    parts = _parts(path)
    first = _header(parts[0])
    described = describe_gguf(first.fields)
    missing = [part for part in parts[1:] if not part.exists()]
    if missing:
        note = f"the weights are unknown: {missing[0].name} is not there; --weights SIZE tells them"
        return replace(described, notes=(*described.notes, note))
    weights = first.tensor_bytes + sum(_header(part).tensor_bytes for part in parts[1:])
    return replace(described, weights=weights or None)


def _header(path: Path) -> GgufHeader:
    try:
        header = read_header(path)
    except SpecError as error:
        raise SpecError(f"--model: {error}", key="--model", allowed=_ALLOWED) from None
    if not header.complete:
        raise SpecError(f"--model: {path}: the file is cut short; fetch it again", key="--model", allowed=_ALLOWED)
    return header


def _parts(path: Path) -> list[Path]:
    match = SPLIT.search(path.name)
    if match is None or int(match[2]) < 2:
        return [path]
    stem = path.name[: match.start()]
    return [path.with_name(f"{stem}-{part:05}-of-{match[2]}.gguf") for part in range(1, int(match[2]) + 1)]
