"""The laws that simulated endpoints obey, in memory and over HTTP: pure, and drawn from (seed, prompt), not from arrival."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from headrace.errors import SpecError

CHARS_PER_TOKEN = 4
BLOCK_CHARS = 16 * CHARS_PER_TOKEN
ANSWERS = ("echo", "label", "json", "text")
MOST_OTHERS = 10_000
STYLES = ("none", "vllm", "sglang", "llama.cpp")


def setting(default: Any, text: str, **more: Any) -> Any:
    """A field with its help, from which the command's option derives."""
    return dataclasses.field(default=default, repr=not more.get("secret"), metadata={"help": text, **more})


@dataclass(frozen=True, kw_only=True)
class Laws:
    """How an endpoint behaves. Every default means: instantly, without bound, without fault.

    Rates are shares between 0 and 1. A fault is drawn from the seed, the prompt and how often that prompt came before,
    so a run repeats whatever the order of arrival, and a retry draws anew. Raises SpecError for impossible values.
    """

    seed: int = setting(0, "Draws everything that is left to chance; an equal seed repeats a run.")
    slots: int = setting(0, "Requests served at once; others queue. 0: no bound.")
    latency_ms: float = setting(0.0, "Time that each answer takes at least.")
    prefill_ms_per_token: float = setting(0.0, "Time per prompt token that is not in the prefix cache.")
    decode_ms_per_token: float = setting(0.0, "Time per token of the answer.")
    jitter: float = setting(0.0, "Share by which each answer's time varies, up or down.")
    error_rate: float = setting(0.0, "Share of requests answered with a 500.")
    overload_rate: float = setting(0.0, "Share of requests answered with a 503.")
    fail_once_rate: float = setting(0.0, "Share of distinct prompts answered with a 503 the first time only.")
    reset_rate: float = setting(0.0, "Share of requests whose connection is reset instead of answered.")
    hang_rate: float = setting(0.0, "Share of requests that are read and never answered.")
    max_in_flight: int = setting(0, "More requests at once than this are turned away. 0: no bound.")
    max_in_flight_tokens: int = setting(0, "More prompt tokens at once than this are turned away. 0: no bound.")
    kv_tokens: int = setting(
        0, "Tokens that the KV cache holds: served in shared steps; what overflows is put back and computed again. 0: no bound."
    )
    cache_blocks: int = setting(
        65_536, "Blocks of 16 tokens that the prefix cache holds, the least lately used leaving first. 0: no prefix is cached."
    )
    capacity: tuple[tuple[float, float], ...] = setting(
        (), "How slots, KV cache and the bounds in flight change: SECOND:FACTOR,… from the first request on."
    )
    style: str = setting("none", "Whose pages tell of what it holds and how it is loaded: vllm, sglang, llama.cpp or none.")
    background: tuple[tuple[float, float], ...] = setting(
        (), "How many requests of others are in flight: SECOND:COUNT,… from the first request on."
    )
    background_prompt: int = setting(200, "Prompt tokens of each request of others.")
    background_answer: int = setting(100, "Answer tokens of each request of others.")
    overload_status: int = setting(503, "How a request is turned away: 429 or 503.")
    retry_after_s: float | None = setting(None, "Seconds that 429 and 503 ask to wait.", flag="--retry-after")
    requests_per_minute: float = setting(0.0, "A rate limit, with x-ratelimit headers. 0: none.")
    tokens_per_minute: float = setting(0.0, "A rate limit on prompt and answer tokens, with x-ratelimit headers. 0: none.")
    reads: int = setting(0, "Tokens of a prompt that are read and counted at most; the rest is dropped without a word. 0: all.")
    answer: str = setting("echo", "What is answered: echo, echo:N (its first N characters), label, json or text:WORDS.")
    labels: tuple[str, ...] = setting((), "Labels to choose from where the request's schema has none: a,b,c.")
    label_errors: float = setting(0.0, "Share of prompts that get a wrong label.")
    table: Mapping[str, str] = dataclasses.field(
        default_factory=dict, metadata={"help": 'A JSON file {"substring": "label"}: the first that the prompt holds decides.'}
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(Laws):
            value = getattr(self, field.name)
            if isinstance(value, float | int) and not (math.isfinite(value) and (value >= 0 or field.name == "seed")):
                raise _impossible(field.name, value, "a number of 0 or more")
            if (field.name.endswith("_rate") or field.name in ("label_errors", "jitter")) and value > 1:
                raise _impossible(field.name, value, "a share between 0 and 1")
        if self.overload_status not in (429, 503):
            raise _impossible("overload_status", self.overload_status, "429 or 503")
        if any(not (0 <= at < math.inf and 0 < factor < math.inf) for at, factor in self.capacity):
            raise _impossible("capacity", self.capacity, "SECOND:FACTOR,… with factors above 0")
        if any(not (0 <= at < math.inf and 0 <= count <= MOST_OTHERS) for at, count in self.background):
            raise _impossible("background", self.background, f"SECOND:COUNT,… with counts of 0 to {MOST_OTHERS}")
        if self.style not in STYLES:
            raise _impossible("style", repr(self.style[:40]), ", ".join(STYLES))
        kind, _, rest = self.answer.partition(":")
        if kind not in ANSWERS or (kind == "echo" and rest and not rest.isdecimal()):
            raise _impossible("answer", repr(self.answer[:40]), "echo, echo:N, label, json or text:WORDS")
        if self.error_rate + self.overload_rate + self.reset_rate + self.hang_rate > 1:
            raise _impossible("error_rate + overload_rate + reset_rate + hang_rate", "more", "at most 1 together")

    @cached_property
    def faultless(self) -> bool:
        return not (self.error_rate or self.overload_rate or self.fail_once_rate or self.reset_rate or self.hang_rate)

    def read(self, prompt_tokens: int) -> int:
        """How many tokens of a prompt are read."""
        return min(prompt_tokens, self.reads) if self.reads else prompt_tokens

    def scaled(self, bound: int, now: float) -> int:
        """A bound on what is held at once, `now` seconds after the first request; 0 stays 0, else it is at least 1."""
        if not bound or not self.capacity:
            return bound
        factor = 1.0
        for at, then in self.capacity:
            if now >= at:
                factor = then
        return max(1, round(bound * factor))

    @cached_property
    def instant(self) -> bool:
        return not (self.latency_ms or self.prefill_ms_per_token or self.decode_ms_per_token or self.slots or self.kv_tokens)


def _impossible(name: str, found: object, allowed: str) -> SpecError:
    flag = name if " " in name else "--" + name.removesuffix("_s").replace("_", "-")
    return SpecError(f"{flag} is {found}; allowed: {allowed}", key=name, found=str(found), allowed=allowed)


class Fault(StrEnum):
    """What becomes of a request by chance."""

    ERROR = "error"
    OVERLOAD = "overload"
    RESET = "reset"
    HANG = "hang"


def digest(text: str) -> bytes:
    """The 8 bytes by which a prompt is known in counts and draws."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def share(seed: int, purpose: str, prompt: bytes, n: int = 0) -> float:
    """A number in [0, 1), evenly spread, the same for the same arguments on every machine."""
    key = b"%d\x00%s\x00%d\x00" % (seed, purpose.encode(), n)
    return int.from_bytes(hashlib.blake2b(key + prompt, digest_size=7).digest()) / 2**56


def tokens(text: str) -> int:
    """Tokens of a text: a quarter of its characters, rounded up, at least 1."""
    return max(1, -(-len(text) // CHARS_PER_TOKEN))


def fault(laws: Laws, prompt: bytes, nth: int) -> Fault | None:
    """The fault that the `nth` request (from 0) with this prompt's digest meets."""
    if laws.faultless:
        return None
    if laws.fail_once_rate and nth == 0 and share(laws.seed, "once", prompt) < laws.fail_once_rate:
        return Fault.OVERLOAD
    drawn = share(laws.seed, "fault", prompt, nth)
    for rate, what in (
        (laws.error_rate, Fault.ERROR),
        (laws.overload_rate, Fault.OVERLOAD),
        (laws.reset_rate, Fault.RESET),
        (laws.hang_rate, Fault.HANG),
    ):
        if drawn < rate:
            return what
        drawn -= rate
    return None


def service_s(laws: Laws, prompt: bytes, *, fresh_tokens: int, answer_tokens: int) -> tuple[float, float]:
    """Seconds of prefill (the fixed latency included) and of decoding for one request.

    `fresh_tokens` are the prompt's tokens that no cache holds.
    """
    factor = 0.001
    if laws.jitter:
        factor *= 1 + laws.jitter * (2 * share(laws.seed, "jitter", prompt) - 1)
    prefill = laws.latency_ms + laws.prefill_ms_per_token * fresh_tokens
    return prefill * factor, laws.decode_ms_per_token * answer_tokens * factor


class Allowance:
    """A limit per minute that refills steadily and holds a minute's worth. 0: no limit. `now` is in seconds."""

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._level = per_minute
        self._at: float | None = None

    def wait_s(self, now: float, amount: float) -> float:
        """Seconds until so much is there: 0 when it is there now, infinite when it never can be."""
        if not self.per_minute:
            return 0.0
        if amount > self.per_minute:
            return math.inf
        missing = amount - self.remaining(now)
        return missing * 60 / self.per_minute if missing > 1e-9 else 0.0

    def take(self, now: float, amount: float) -> None:
        if self.per_minute:
            self._level = self.remaining(now) - amount
            self._at = now

    def remaining(self, now: float) -> float:
        gained = 0.0 if self._at is None else (now - self._at) * self.per_minute / 60
        return min(self.per_minute, self._level + gained)

    def full_in_s(self, now: float) -> float:
        """Seconds until a minute's worth is there again."""
        return (self.per_minute - self.remaining(now)) * 60 / self.per_minute

    def headers(self, now: float, what: str) -> dict[str, str]:
        """The three x-ratelimit headers for `what` (requests, tokens); none without a limit."""
        if not self.per_minute:
            return {}
        left = self.remaining(now)
        return {
            f"x-ratelimit-limit-{what}": str(int(self.per_minute)),
            f"x-ratelimit-remaining-{what}": str(max(0, int(left))),
            f"x-ratelimit-reset-{what}": go_duration(self.full_in_s(now)),
        }


def go_duration(seconds: float) -> str:
    """A duration as Go prints it, to the millisecond: 6m0s, 1.5s, 12ms."""
    ms = math.ceil(seconds * 1000 - 1e-6)
    if ms < 1000:
        return f"{max(0, ms)}ms"
    whole, rest = divmod(ms, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(whole, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if whole else "") + text


class PrefixCache:
    """Which prompt prefixes a server has already computed, in blocks of 16 tokens; the least lately used leave first.

    Of one prompt the blocks at its end leave before those at its beginning, without which they would be of no use.
    """

    def __init__(self, blocks: int = 65_536) -> None:
        self._room = blocks
        self._kept: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, prefixes: Sequence[int]) -> int:
        """How many tokens at a text's start are there already, and used by this; `prefixes` as `prefixes_of` gives them."""
        found = 0
        for key in prefixes:
            if key not in self._kept:
                break
            found += 1
        self._use(prefixes[:found])
        return found * BLOCK_CHARS // CHARS_PER_TOKEN

    def keep(self, prefixes: Sequence[int]) -> None:
        """A text has been computed."""
        self._use(prefixes)
        while len(self._kept) > self._room:
            self._kept.popitem(last=False)

    def _use(self, prefixes: Sequence[int]) -> None:
        for key in reversed(prefixes):
            self._kept[key] = None
            self._kept.move_to_end(key)


def prefixes_of(text: str) -> list[int]:
    """One number a whole block; each stands for the text up to its end. They mean something in this process only."""
    keys, key = [], 0
    for start in range(0, len(text) - BLOCK_CHARS + 1, BLOCK_CHARS):
        key = hash((key, text[start : start + BLOCK_CHARS]))
        keys.append(key)
    return keys
