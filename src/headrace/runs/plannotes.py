"""What people should know beside the figures of a plan: what does not fit, what was assumed, what differs in practice."""

from __future__ import annotations

from headrace.models.description import Description
from headrace.models.served import Served
from headrace.policy.attention import Attention, CacheType, Group, Heads, Latent, State
from headrace.policy.capacity import MOST_STARTED, Load, Memory, Plan, Store

_LLAMA_TYPES = frozenset({CacheType.Q8_0, CacheType.Q4_0})


def notes_of(described: Description, found: Plan, memory: Memory, load: Load, store: Store) -> tuple[str, ...]:
    """The notes that follow from the figures, the gravest first."""
    notes = _memory_notes(described, found, memory, load)
    if described.attention is None:
        notes.append("a vLLM, SGLang, llama.cpp or TGI that runs it knows what it holds: give its URL as --model")
    if described.context is not None and load.tokens > described.context:
        notes.append(f"a request of {load.tokens:,} tokens is longer than the model's context of {described.context:,}")
    if described.attention is not None:
        notes += _layout_notes(described.attention, memory)
        notes += _store_notes(described.attention, store)
    if found.max_concurrency is not None and found.max_concurrency > MOST_STARTED:
        notes.append(
            f"vLLM runs at most --max-num-seqs at once, whatever fits: {MOST_STARTED} on most GPUs, 1,024 on those from 70 GiB on"
        )
    return tuple(notes)


def served_notes(served: Served, memory: Memory, load: Load, found: Plan) -> tuple[str, ...]:
    """The same where a server spoke for itself."""
    notes = list(served.notes)
    if served.tokens is not None and memory.gpu_memory is not None:
        notes.append("the server's own figure is used; what was said of its GPUs is not")
    if served.tokens is None:
        notes.append("how many fit is unknown; plan from the model's own files instead, with --gpu-memory")
    if served.context is not None and load.tokens > served.context:
        notes.append(f"a request of {load.tokens:,} tokens is longer than the server's context of {served.context:,}")
    if served.most is not None and found.max_concurrency == served.most:
        notes.append(f"the server works on at most {served.most:,} at once, whatever fits")
    return tuple(notes)


def size(count: int) -> str:
    """Bytes for people."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:,.2f} {unit}"
    return f"{count:,} bytes"


def layers(group: Group) -> str:
    """One kind of layer for people."""
    match group:
        case Heads(reach=None):
            kept = f"of {group.kv_heads:,} KV heads"
        case Heads():
            kept = f"{'in chunks' if group.chunked else 'with a window'} of {group.reach:,}, {group.kv_heads:,} KV heads"
        case Latent():
            kept = f"of a latent of {group.rank + group.rope:,}"
        case State():
            kept = f"with a state of {size(group.constant_bytes(1))}"
    return f"{group.layers:,} layers {kept}"


def _memory_notes(described: Description, found: Plan, memory: Memory, load: Load) -> list[str]:
    if memory.gpu_memory is None:
        return ["without --gpu-memory the pool is unknown"]
    if found.kv_pool_bytes == 0:
        held = f"weights of {size(described.weights or 0)} and {size(memory.overhead)} a GPU set aside"
        there = f"{memory.tp * memory.pp} × {size(memory.gpu_memory)}"
        return [f"nothing is left for the cache: {held}, on {there}; more --tp or --pp, or smaller weights"]
    if found.max_concurrency == 0 and found.bytes_per_request is not None and found.kv_pool_bytes is not None:
        there = size(found.kv_pool_bytes // memory.copies)
        return [f"not one request of {load.tokens:,} tokens fits: it takes {size(found.bytes_per_request)}, the pool has {there}"]
    return []


def _layout_notes(attention: Attention, memory: Memory) -> list[str]:
    notes = []
    heads = [group.kv_heads for group in attention.groups if isinstance(group, Heads)]
    if any(memory.tp > count for count in heads) or (memory.tp > 1 and any(isinstance(g, Latent) for g in attention.groups)):
        what = "the latent" if not heads else f"{min(heads)} KV heads"
        notes.append(f"--tp {memory.tp}: {what} cannot be divided further, so that GPUs keep the same cache several times")
    if any(count > memory.tp and count % memory.tp for count in heads) or attention.query_heads % memory.tp:
        notes.append(f"--tp {memory.tp} does not divide the model's heads evenly, which servers refuse")
    if any(group.layers % memory.pp for group in attention.groups):
        notes.append(f"--pp {memory.pp} does not divide the layers evenly: counted by the stage that has the most")
    if memory.copies > 1:
        notes.append(
            f"{memory.copies * memory.tp * memory.pp} GPUs hold {memory.copies} copies of the model; "
            "one copy over several GPUs is --tp or --pp"
        )
    return notes


def _store_notes(attention: Attention, store: Store) -> list[str]:
    notes = []
    if any(isinstance(group, Heads) and group.reach is not None for group in attention.groups):
        notes.append(
            "layers with a window are counted with the window alone; while a prompt is read, servers keep a step's tokens more"
        )
    if len({group.kind for group in attention.groups}) > 1:
        notes.append("servers that page all kinds of layers alike take more than this; a running server's own figure is better")
    if any(isinstance(group, Latent) and group.index for group in attention.groups) and store.kind is CacheType.BF16:
        notes.append("vLLM keeps this model's cache as fp8_ds_mla unless told: --kv-dtype fp8 counts that")
    if store.kind in _LLAMA_TYPES:
        notes.append(f"{store.kind} is a type of llama.cpp's cache; vLLM and SGLang have fp8")
    return notes
