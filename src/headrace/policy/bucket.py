"""Requests and tokens per minute: reserved before a send, settled by usage, spent evenly. Configured, or learnt from a server."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.values import Limit, Usage

BURST_S = 0.5  # so much of a limit may be saved up: a late timer costs nothing, and no slice of a second gets a minute's worth
SCARCE = 0.1  # below this share of a server's own remaining count the pace gives way to whoever else spends it
SLOWEST = 0.05
MINUTE_S = 60.0
OTHER_PERIOD_S = 120.0  # a limit that takes longer than this to be whole again is not one per minute
TOKENS_A_BYTE = 0.3  # before usage says how many
ANSWER_TOKENS = 200.0
MEMORY = 30.0


class Bucket:
    """One limit per minute that refills steadily. Spending may go below zero: then the next send waits until it is paid."""

    __slots__ = ("_at", "_level", "_pace", "per_minute")

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self._level = 0.0
        self._at = now
        self._pace = 1.0

    def take(self, now: float, amount: float) -> None:
        """Spend; a negative amount gives back."""
        self._refill(now)
        self._level -= amount

    def ready_at(self) -> float:
        """When nothing is owed any more."""
        return self._at - min(0.0, self._level) * MINUTE_S / (self.per_minute * self._pace)

    def allow(self, now: float, per_minute: float, pace: float) -> None:
        """The limit as it is from now on, and the share of it that is used."""
        self._refill(now)
        self.per_minute, self._pace = per_minute, pace

    def _refill(self, now: float) -> None:
        rate = self.per_minute * self._pace / MINUTE_S
        self._level = min(self._level + max(0.0, now - self._at) * rate, self.per_minute / MINUTE_S * BURST_S)
        self._at = max(now, self._at)


class Rates:
    """The limits of one endpoint. Times are loop time. Nothing is held back while no limit is known.

    A unit may go when `now` has reached `ready_at`. What it will spend is estimated from its bytes and from the answers so
    far (before the first: `longest`), and put right by what the server counted.
    """

    def __init__(
        self, requests_per_minute: float | None = None, tokens_per_minute: float | None = None, longest: int | None = None
    ) -> None:
        self.ready_at = 0.0
        self._configured = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._buckets: dict[str, Bucket] = {}
        for what, per_minute in self._configured.items():
            if per_minute is not None:
                self._buckets[what] = Bucket(per_minute, 0.0)
        self._tokens_a_byte = TOKENS_A_BYTE
        self._answer = float(longest) if longest is not None else ANSWER_TOKENS
        self._seen = 0
        self.is_on = bool(self._buckets)

    def reserve(self, now: float, size: int) -> tuple[float, float]:
        """A unit whose payload has so many bytes is sent. Returns the tokens reserved for prompt and answer."""
        prompt, answer = size * self._tokens_a_byte, self._answer
        self._spend(now, 1.0, prompt, answer)
        return prompt, answer

    def settle(self, now: float, reserved: tuple[float, float], size: int, usage: Usage | None, *, is_charged: bool = True) -> None:
        """The unit is back. Without usage the reservation stands, unless the server is known to have charged nothing."""
        prompt, answer = reserved
        if not is_charged:
            self._spend(now, 0.0, -prompt, -answer)
        elif usage is not None and usage.prompt is not None:
            completion = usage.completion or 0
            self._spend(now, 0.0, usage.prompt - prompt, completion - answer)
            self._seen += 1
            weight = max(1 / self._seen, 1 / MEMORY)
            self._tokens_a_byte += (usage.prompt / max(size, 1) - self._tokens_a_byte) * weight
            self._answer += (completion - self._answer) * weight

    def on_limits(self, limits: Iterable[Limit], now: float) -> None:
        """What a server said of its limits."""
        for said in limits:
            if said.limit is None or said.limit <= 0 or not _is_per_minute(said):
                continue
            configured = self._configured.get(said.what)
            per_minute = said.limit if configured is None else min(configured, said.limit)
            bucket = self._buckets.get(said.what)
            if bucket is None:
                bucket = self._buckets[said.what] = Bucket(per_minute, now)
                self.is_on = True
            bucket.allow(now, per_minute, _pace(said))
        self._look()

    def _spend(self, now: float, requests: float, prompt: float, answer: float) -> None:
        amounts = {"requests": requests, "tokens": prompt + answer, "input_tokens": prompt, "output_tokens": answer}
        for what, bucket in self._buckets.items():
            bucket.take(now, amounts[what])
        self._look()

    def _look(self) -> None:
        self.ready_at = max([bucket.ready_at() for bucket in self._buckets.values()], default=0.0)


def _is_per_minute(said: Limit) -> bool:
    """Limits per day are named like those per minute; the time until they are whole again gives them away."""
    if said.period_s is not None:
        return said.period_s <= OTHER_PERIOD_S
    if said.reset_s is None:
        return True
    if said.reset_s > OTHER_PERIOD_S:
        return False
    if said.limit is None or said.remaining is None or not said.refills or said.remaining >= said.limit:
        return True
    return said.reset_s * said.limit / (said.limit - said.remaining) <= 10 * OTHER_PERIOD_S


def _pace(said: Limit) -> float:
    """1, or less where somebody else spends the same limit too, or the server counts more than usage says."""
    if said.limit is None or said.remaining is None or said.remaining >= SCARCE * said.limit:
        return 1.0
    left = said.remaining / said.limit
    if not said.refills and said.reset_s is not None and left >= 0.9 * said.reset_s / MINUTE_S:
        return 1.0  # a window that ends soon, and what is left lasts until then
    return max(SLOWEST, left / SCARCE)
