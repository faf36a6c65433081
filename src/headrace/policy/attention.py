"""What the layers of a model keep in the KV cache for each request: descriptions, and the bytes that follow from them."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct


class CacheType(StrEnum):
    """How the elements of a cache are stored. The names are those of the servers' own options."""

    FP32 = "fp32"
    BF16 = "bf16"  # or fp16: as wide
    FP8 = "fp8"
    FP8_DS_MLA = "fp8_ds_mla"  # vLLM's layout of a latent: 8 bits with scales, its rotary part at 16 bits
    Q8_0 = "q8_0"  # llama.cpp: 34 bytes for 32 elements
    Q4_0 = "q4_0"  # llama.cpp: 18 bytes for 32 elements


# Bytes for 32 elements, the smallest block that comes out even for all of them.
_PER_32 = {
    CacheType.FP32: 128, CacheType.BF16: 64, CacheType.FP8: 32, CacheType.FP8_DS_MLA: 32, CacheType.Q8_0: 34, CacheType.Q4_0: 18,
}  # fmt: skip
_SCALED = 128  # elements that share one 4-byte scale in fp8_ds_mla


def stored(elements: int, kind: CacheType) -> int:
    """Bytes of so many elements."""
    return -(-elements * _PER_32[kind] // 32)


def per_gpu(heads: int, tp: int) -> int:
    """Heads that each GPU of a tensor-parallel group keeps. With more GPUs than heads they are replicated, one each."""
    return -(-heads // tp)


class Heads(Struct, frozen=True):
    """Layers that keep keys and values of their heads: all tokens (MHA, GQA, MQA), or no more than the last `reach`.

    `chunked`: the reach is a chunk that begins anew, not a window that slides.
    """

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    reach: int | None = None
    chunked: bool = False

    @property
    def kind(self) -> str:
        if self.reach is None:
            return "full"
        return "chunked" if self.chunked else "sliding"

    @property
    def grows(self) -> bool:
        """Whether each token costs the same, however many there are."""
        return self.reach is None

    def token_bytes(self, tp: int, kind: CacheType) -> int:
        """Of one token, in one layer, on one GPU."""
        return stored(per_gpu(self.kv_heads, tp) * (self.key_dim + self.value_dim), kind)

    def kept(self, tokens: int, block: int) -> int:
        """How many of `tokens` a layer keeps: whole blocks."""
        whole = _blocks(tokens, block)
        return whole if self.reach is None else min(whole, _blocks(self.reach, block))

    def constant_bytes(self, tp: int) -> int:  # noqa: ARG002 - one shape for all groups
        return 0


class Latent(Struct, frozen=True):
    """Layers of multi-head latent attention: one latent a token for all heads, so that every GPU of a tensor group keeps it.

    `index` is what an indexer keeps besides, in bytes a token (DeepSeek sparse attention).
    """

    layers: int
    rank: int
    rope: int
    index: int = 0
    kind: ClassVar[str] = "latent"
    grows: ClassVar[bool] = True

    def token_bytes(self, tp: int, kind: CacheType) -> int:  # noqa: ARG002 - replicated, whatever tp is
        if kind is CacheType.FP8_DS_MLA:
            return self.rank + 4 * -(-self.rank // _SCALED) + 2 * self.rope + self.index
        return stored(self.rank + self.rope, kind) + self.index

    def kept(self, tokens: int, block: int) -> int:
        return _blocks(tokens, block)

    def constant_bytes(self, tp: int) -> int:  # noqa: ARG002 - as above
        return 0


class State(Struct, frozen=True):
    """Layers that keep a state of one size, however long the request is: linear attention, Mamba. Elements of one layer."""

    layers: int
    recurrent: int
    conv: int
    recurrent_type: CacheType = CacheType.BF16
    conv_type: CacheType = CacheType.BF16
    kind: ClassVar[str] = "state"
    grows: ClassVar[bool] = False

    def token_bytes(self, tp: int, kind: CacheType) -> int:  # noqa: ARG002 - nothing, whatever they are
        return 0

    def kept(self, tokens: int, block: int) -> int:  # noqa: ARG002 - as above
        return 0

    def constant_bytes(self, tp: int) -> int:
        """Of one request, in one layer, on one GPU. A state has a type of its own, which the cache's type does not change."""
        recurrent, conv = per_gpu(self.recurrent, tp), per_gpu(self.conv, tp)
        return stored(recurrent, self.recurrent_type) + stored(conv, self.conv_type)


Group = Heads | Latent | State


class Attention(Struct, frozen=True):
    """The layers of a model, those that cache alike in one group. `query_heads` is 0 where it is not known.

    `cache_type` is what `auto` means for this model.
    """

    groups: tuple[Group, ...]
    query_heads: int = 0
    cache_type: CacheType = CacheType.BF16

    @property
    def name(self) -> str:
        """mha, gqa, mqa or `full` (heads unknown), mla, sliding, chunked, state; hybrid where kinds are mixed."""
        kinds = {group.kind for group in self.groups}
        if len(kinds) > 1:
            return "hybrid"
        (kind,) = kinds
        if kind == "latent":
            return "mla"
        if kind != "full":
            return kind
        heads = {group.kv_heads for group in self.groups if isinstance(group, Heads)}
        if heads == {1}:
            return "mqa"
        if not self.query_heads:
            return "full"
        return "mha" if heads == {self.query_heads} else "gqa"

    @property
    def grows_evenly(self) -> bool:
        """Whether a request costs in proportion to its length."""
        return all(group.grows for group in self.groups)

    @property
    def layers(self) -> int:
        return sum(group.layers for group in self.groups)


def token_bytes(attention: Attention, kind: CacheType, tp: int = 1) -> int | None:
    """Bytes a token takes on all GPUs of a tensor-parallel group together; None where that depends on the length."""
    if not attention.grows_evenly:
        return None
    return tp * sum(group.layers * group.token_bytes(tp, kind) for group in attention.groups)


def request_bytes(attention: Attention, kind: CacheType, tokens: int, block: int = 1, tp: int = 1) -> int:
    """Bytes of a request of so many tokens in whole blocks, on all GPUs of a tensor-parallel group together."""
    return tp * sum(group.layers * _layer_bytes(group, kind, tokens, block, tp) for group in attention.groups)


def fullest_bytes(attention: Attention, kind: CacheType, tokens: int, block: int, split: tuple[int, int]) -> int:
    """The same on one GPU, the one that holds the most layers. `split` is (tensor parallel, pipeline parallel)."""
    tp, pp = split
    return sum(-(-group.layers // pp) * _layer_bytes(group, kind, tokens, block, tp) for group in attention.groups)


def prefix_bytes(attention: Attention, kind: CacheType, tokens: int, block: int, split: tuple[int, int]) -> int:
    """What a prefix that all requests share takes on that GPU: kept once. States are kept by each request."""
    tp, pp = split
    return sum(
        -(-group.layers // pp) * group.kept(tokens, block) * group.token_bytes(tp, kind) for group in attention.groups if tokens
    )


def _layer_bytes(group: Group, kind: CacheType, tokens: int, block: int, tp: int) -> int:
    return group.kept(tokens, block) * group.token_bytes(tp, kind) + group.constant_bytes(tp)


def _blocks(tokens: int, block: int) -> int:
    return -(-tokens // block) * block
