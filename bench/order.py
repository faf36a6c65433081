"""Does the order pay? How long the last answers keep a run waiting, and how often a shared prefix is computed.

`python -m bench.order [--quick]`. The whole engine on virtual time: lengths against the bound max(longest, total / slots),
prefixes against what a server with an endless cache computes for units that come one after another. Then what an order
costs a unit, beside the window and the rates.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

from bench.feed import Meter
from bench.feed import cpu as cpu_of_the_rest
from bench.figures import Figure, at_most, print_table, shown
from headrace.engine.knobs import Knobs, Pace
from headrace.policy.order import Order
from headrace.testing import Laws
from headrace.testing.laws import CHARS_PER_TOKEN, PrefixCache, prefixes_of
from headrace.testing.life import Life, payload_of
from headrace.testing.replies import Drawn, Prompt
from headrace.values import Failure, Reply, Unit, Usage

SEEDS = 100
QUICK_SEEDS = 11
TAIL_UNITS = 200
TAIL_SLOTS = 16
TAIL_BAR = 1.05
GROUPS, MEMBERS = 1000, 10
QUICK_GROUPS = 200
PREFIX_TOKENS, REST_TOKENS = 1500, 50
PREFIX_SLOTS = 64
PREFIX_BAR = 1.05
HELD_OUT = (101, 102, 103, 104, 105, 106)
CPU_BAR = 10.0
IN_FLIGHT, BUFFERED = 64, 1024


class Drawing(Meter):
    """Answers with the tokens that were drawn for a prompt."""

    def __init__(self, laws: Laws, lengths: dict[bytes, int]) -> None:
        super().__init__(laws)
        self._lengths = lengths

    async def _served(self, prompt: Prompt, drawn: Drawn) -> Reply | Failure:
        return await super()._served(prompt, drawn._replace(tokens=self._lengths[prompt.key]))


def lived(endpoint: Meter, texts: Sequence[str], order: str, pace: Pace, seed: int = 1) -> float:
    """Seconds of a life of these texts, to its last answer."""
    knobs = Knobs(run="order", config=1, order=order, unit_deadline_s=1e6, attempt_timeout=1e5)
    ending = Life(texts, endpoint, knobs=knobs, pace=pace, max_steps=100_000_000).step(seed)
    assert ending is not None
    assert ending.reason is None, ending
    return endpoint.ended_at


# -- the last answers


def tail(seed: int, order: str, pace: Pace, *, predictable: bool) -> float:
    """The time of a run over what it cannot be shorter than. Prompts are Pareto with alpha 1.5, from 50 tokens on."""
    rng = random.Random(seed)
    prompts = [min(50_000, round(50 * rng.paretovariate(1.5))) for _ in range(TAIL_UNITS)]
    texts = [f"{n} ".ljust(CHARS_PER_TOKEN * size, "abcdefgh"[n % 8]) for n, size in enumerate(prompts)]
    if not predictable:
        rng.shuffle(prompts)
    answers = [max(1, round(size * rng.lognormvariate(0, 0.5))) for size in prompts]
    laws = Laws(slots=TAIL_SLOTS, decode_ms_per_token=20, prefill_ms_per_token=0.2, cache_blocks=0)
    asked = [Prompt.of_text(text) for text in texts]
    endpoint = Drawing(laws, {prompt.key: answer for prompt, answer in zip(asked, answers, strict=True)})
    seconds = [0.02 * answer + 0.0002 * prompt.tokens for prompt, answer in zip(asked, answers, strict=True)]
    return lived(endpoint, texts, order, pace, seed) / max(*seconds, sum(seconds) / TAIL_SLOTS)


def tails(seeds: int) -> list[Figure]:
    fixed, tuned = Pace(TAIL_SLOTS), Pace(6, (1, 256))
    figures = []
    for predictable, name in ((True, "answers as long as prompts, σ 0.5"), (False, "answers of any length")):
        for order, pace, words in (("auto", fixed, "auto"), ("auto", tuned, "auto, own window"), ("input", fixed, "input")):
            ratios = sorted(tail(seed, order, pace, predictable=predictable) for seed in range(seeds))
            what = f"tail, {name}: {words}, time over the bound, median of {seeds} seeds"
            median = statistics.median(ratios)
            if predictable and words == "auto":
                figures.append(at_most(what, median, TAIL_BAR, "x", 3))
            else:
                figures.append(shown(what, median, "x", 3))
    return figures


# -- shared prefixes


def grouped(groups: int, seed: int = 7) -> list[str]:
    """Texts of groups that share a prefix, shuffled."""
    rng = random.Random(seed)
    texts = []
    for group in range(groups):
        prefix = f"document {group} ".ljust(CHARS_PER_TOKEN * PREFIX_TOKENS, chr(97 + group % 26))
        texts += [
            (prefix + f" question {n} ").ljust(CHARS_PER_TOKEN * (PREFIX_TOKENS + REST_TOKENS), "?") for n in range(MEMBERS)
        ]
    rng.shuffle(texts)
    return texts


def least_computed(texts: Sequence[str]) -> int:
    """Prompt tokens that are computed when nothing is forgotten and each unit waits for the one before."""
    cache, computed = PrefixCache(10**9), 0
    for text in texts:
        prefixes = prefixes_of(text)
        computed += -(-len(text) // CHARS_PER_TOKEN) - cache.cached_tokens(prefixes)
        cache.keep(prefixes)
    return computed


def computed(texts: Sequence[str], order: str, laws: Laws, pace: Pace) -> tuple[float, float]:
    """Prompt tokens computed, and seconds."""
    endpoint = Meter(laws)
    seconds = lived(endpoint, texts, order, pace)
    return endpoint.prompt_tokens - endpoint.cached_tokens, seconds


def prefixes(groups: int) -> list[Figure]:
    texts = grouped(groups)
    blocks = -(-(PREFIX_TOKENS + REST_TOKENS) // 16)
    words = "text:" + "word " * 80
    slow = Laws(
        slots=PREFIX_SLOTS, prefill_ms_per_token=1, decode_ms_per_token=20, answer=words, jitter=0.2, cache_blocks=50 * blocks
    )
    small = replace(slow, cache_blocks=25 * blocks)
    fixed, tuned = Pace(PREFIX_SLOTS), Pace(6, (1, 256))
    least = least_computed(texts)
    figures = []
    for name, given, order, laws, pace in (
        ("auto", texts, "auto", slow, fixed), ("prefix", texts, "prefix", slow, fixed), ("input", texts, "input", slow, fixed),
        ("input sorted", sorted(texts), "input", slow, fixed), ("auto, input sorted", sorted(texts), "auto", slow, fixed),
        ("auto, own window", texts, "auto", slow, tuned), ("auto, a cache for 25", texts, "auto", small, fixed),
    ):  # fmt: skip
        tokens, seconds = computed(given, order, laws, pace)
        what = f"{groups:,} prefixes for {MEMBERS} units each: {name}, prompt tokens computed over the least"
        figure = shown(what, tokens / least, "x", 3)
        figures.append(figure._replace(measured=f"{figure.measured} in {seconds:.3g} s"))
    with patch("headrace.engine.pool.MOST_KEYS", 0):  # what lies beyond the buffer is not looked at
        tokens, seconds = computed(texts, "auto", slow, fixed)
    what = f"{groups:,} prefixes for {MEMBERS} units each: auto, never beyond 1,024 units, prompt tokens computed over the least"
    figures.append(Figure(what, f"{tokens / least:.3f} x in {seconds:.3g} s"))
    # The rules were made on the first shuffle; the worst of others is what a job may meet.
    others = [grouped(groups, seed) for seed in HELD_OUT]
    worst = max(computed(given, "auto", slow, fixed)[0] / least_computed(given) for given in others)
    what = f"{groups:,} prefixes for {MEMBERS} units each: auto, the worst of {len(others)} other shuffles"
    is_judged = groups >= GROUPS  # what the beginning costs weighs more in fewer
    figures.append(at_most(what, worst, PREFIX_BAR, "x", 3) if is_judged else shown(what, worst, "x", 3))
    return figures


# -- what it costs


def cpu(observations: int = 200_000, rounds: int = 3) -> list[Figure]:
    """Units through the order in a closed loop of 64, nothing shared and lengths even; beside it where ten share a prefix.

    The least of a few rounds counts: what disturbs only ever adds.
    """
    rest = min(float(cpu_of_the_rest(observations).measured.split()[0]) for _ in range(rounds))
    single = min(order_us(observations, _single) for _ in range(rounds))
    member = min(order_us(observations, _member) for _ in range(rounds))
    return [
        shown("order, nothing shared: CPU a unit", single, "µs"),
        shown("order, ten share a prefix: CPU a unit", member, "µs"),
        shown("window, buckets and pause: CPU a unit", rest, "µs"),
        at_most("window, buckets, pause and order together: CPU a unit", rest + single, CPU_BAR, "µs"),
    ]


def _single(n: int) -> bytes:
    return payload_of(f"{n * 7919 % 200_003} " + "a record that is to be read " * 60)


def _member(n: int) -> bytes:
    return payload_of(f"{n // 10} " + "a record that is to be read " * 50 + f"{n} what is it about? ")


def order_us(observations: int, payload: Callable[[int], bytes]) -> float:
    order = Order("auto", 27)
    order.window = IN_FLIGHT
    usage = Usage(400, 100)
    spent, now = 0.0, 0.0
    flying: deque[int] = deque()
    for first in range(0, observations, 64):
        units = [Unit(seq=n, hash=b"", item=n, payload=payload(n)) for n in range(first, first + 64)]
        began = time.process_time()
        order.add(units)
        left = 0 if first + 64 >= observations else BUFFERED
        while len(order) > left:
            now += 0.02
            unit = order.take(now, IN_FLIGHT - len(flying))
            if unit is not None:
                flying.append(unit.seq)
            if unit is None or len(flying) >= IN_FLIGHT:
                order.on_answer(flying.popleft(), usage, 100.0)
        spent += time.process_time() - began
    return spent / observations * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.order", description="What the order of units is worth.")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and groups")
    quick = parser.parse_args().quick
    figures: list[Figure] = []
    for name, measure in (
        ("the last answers", lambda: tails(QUICK_SEEDS if quick else SEEDS)),
        ("shared prefixes", lambda: prefixes(QUICK_GROUPS if quick else GROUPS)),
        ("what it costs", lambda: cpu(50_000 if quick else 200_000)),
    ):
        print(f"-- {name}", flush=True)
        figures += measure()
    return print_table(figures)


if __name__ == "__main__":
    raise SystemExit(main())
