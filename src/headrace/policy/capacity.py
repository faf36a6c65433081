"""How many requests fit in the memory: weights, what is left for the cache, and what each request takes of it."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from headrace.policy.attention import Attention, CacheType, fullest_bytes, prefix_bytes, request_bytes, token_bytes
from headrace.policy.tuning import AUTO_START

GIB = 2**30
MOST_STARTED = 256  # vLLM's own bound on most GPUs (--max-num-seqs); the window grows from there by itself
_SHORTEST, _LONGEST = 1024, 2**20  # of the table


class Memory(Struct, frozen=True):
    """The GPUs. One copy of the model lies on `tp` × `pp` of them. Sizes are bytes; `overhead` is of each GPU."""

    gpu_memory: int | None = None
    tp: int = 1
    pp: int = 1
    copies: int = 1
    utilization: float = 0.92
    overhead: int = 2 * GIB

    @property
    def split(self) -> tuple[int, int]:
        return self.tp, self.pp


class Load(Struct, frozen=True):
    """What is asked: tokens of a request's prompt and answer, and how many its prompt shares with all others."""

    prompt: int
    output: int
    shared_prefix: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.output


class Store(Struct, frozen=True):
    """How the cache is kept: its elements' type, and how many tokens make a block."""

    kind: CacheType = CacheType.BF16
    block: int = 16


class Row(Struct, frozen=True):
    """One line of the table over lengths. None: not known."""

    tokens: int
    bytes_per_request: int | None
    max_concurrency: int | None


class Plan(Struct, frozen=True):
    """What follows. Bytes are of all GPUs of one copy, the pool of all copies. None: not known, or not linear.

    `bytes_per_request` is what one request more takes: all but the shared prefix, which is kept once (`shared_prefix_bytes`).
    `times` is how often the pool holds such a request; `max_concurrency` is its whole part, `suggested_start` where to begin.
    """

    attention: str | None = None
    bytes_per_token: int | None = None
    bytes_per_request: int | None = None
    shared_prefix_bytes: int | None = None
    kv_pool_bytes: int | None = None
    kv_pool_tokens: int | None = None
    times: float | None = None
    max_concurrency: int | None = None
    suggested_start: int = AUTO_START
    table: tuple[Row, ...] = ()


def pool_bytes(memory: Memory, weights: int | None) -> int | None:
    """What weights and overhead leave for the cache of one copy, at least 0; None where memory or weights are not known."""
    if memory.gpu_memory is None or weights is None:
        return None
    gpus = memory.tp * memory.pp
    usable = int(memory.gpu_memory * gpus * Fraction(repr(memory.utilization)))
    return max(usable - weights - memory.overhead * gpus, 0)


def plan(
    attention: Attention | None, weights: int | None, memory: Memory, load: Load, store: Store, context: int | None = None
) -> Plan:
    """Everything that can be said. `context` is the longest request that the model takes, where that is known."""
    pool = pool_bytes(memory, weights)
    if attention is None:
        return Plan(kv_pool_bytes=None if pool is None else pool * memory.copies)
    fits = _times(attention, pool, memory, load, store)
    most = None if fits is None else int(fits) * memory.copies
    whole = token_bytes(attention, store.kind, memory.tp)
    shared, own = _shared(attention, load, store, memory.tp)
    return Plan(
        attention=attention.name, bytes_per_token=whole, bytes_per_request=own, shared_prefix_bytes=shared,
        kv_pool_bytes=None if pool is None else pool * memory.copies,
        kv_pool_tokens=_pool_tokens(attention, pool, memory, store),
        times=None if fits is None else float(fits) * memory.copies, max_concurrency=most, suggested_start=start_at(most),
        table=tuple(_row(attention, pool, memory, load, store, tokens) for tokens in lengths(load, context)),
    )  # fmt: skip


def plan_of_pool(tokens: int, load: Load, block: int, most: int | None = None, context: int | None = None) -> Plan:
    """The same where a server says itself how many tokens its cache holds; it runs at most `most` requests at once."""
    times = token_times(tokens, load, block)
    bound = _bounded(times, most)
    rows = (
        Row(length, None, _bounded(token_times(tokens, _as_long(load, length), block), most)) for length in lengths(load, context)
    )
    return Plan(
        kv_pool_tokens=tokens, times=float(times), max_concurrency=bound, suggested_start=start_at(bound), table=tuple(rows)
    )


def token_times(tokens: int, load: Load, block: int) -> Fraction:
    """How often a pool of so many tokens holds the request, its shared prefix counted once."""
    shared = load.shared_prefix // block * block
    own = -(-load.tokens // block) * block - shared
    return max(Fraction(tokens - shared, own), Fraction(0))


def start_at(most: int | None) -> int:
    """Where to begin: half of what fits, so that one doubling is there; what runs begin with where nothing is known."""
    return AUTO_START if most is None else min(-(-most // 2), MOST_STARTED)


def lengths(load: Load, context: int | None) -> list[int]:
    """The table's lengths: powers of two up to the model's context, that itself, and the request's own."""
    longest = min(context or _LONGEST, _LONGEST)
    found = {load.tokens} | ({context} if context is not None else set())
    length = _SHORTEST
    while length <= longest:
        found.add(length)
        length *= 2
    return sorted(length for length in found if length > load.shared_prefix)


def _bounded(times: Fraction, most: int | None) -> int:
    return int(times) if most is None else min(int(times), most)


def _as_long(load: Load, tokens: int) -> Load:
    return Load(tokens - load.output, load.output, load.shared_prefix)


def _shared(attention: Attention, load: Load, store: Store, tp: int) -> tuple[int, int]:
    """Bytes of the shared prefix, and of what is each request's own."""
    whole_blocks = load.shared_prefix // store.block * store.block
    shared = prefix_bytes(attention, store.kind, whole_blocks, store.block, (tp, 1)) * tp
    return shared, request_bytes(attention, store.kind, load.tokens - whole_blocks, store.block, tp)


def _times(attention: Attention, pool: int | None, memory: Memory, load: Load, store: Store) -> Fraction | None:
    """How often one copy holds the request, by the GPU that holds the most layers."""
    if pool is None:
        return None
    here = pool // (memory.tp * memory.pp)
    shared = load.shared_prefix // store.block * store.block
    left = here - prefix_bytes(attention, store.kind, shared, store.block, memory.split)
    own = fullest_bytes(attention, store.kind, load.tokens - shared, store.block, memory.split)
    return max(Fraction(left, own), Fraction(0))


def _pool_tokens(attention: Attention, pool: int | None, memory: Memory, store: Store) -> int | None:
    if pool is None or not attention.grows_evenly:
        return None
    token = fullest_bytes(attention, store.kind, 1, 1, memory.split)
    return pool // (memory.tp * memory.pp) // token * memory.copies


def _row(attention: Attention, pool: int | None, memory: Memory, load: Load, store: Store, tokens: int) -> Row:
    asked = _as_long(load, tokens)
    fits = _times(attention, pool, memory, asked, store)
    _, own = _shared(attention, asked, store, memory.tp)
    return Row(tokens, own, None if fits is None else int(fits) * memory.copies)
