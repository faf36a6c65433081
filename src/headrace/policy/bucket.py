"""Requests and tokens per minute: reserved before a send, settled by usage, spent evenly. Configured, or learnt from a server."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.policy.estimate import Estimate
from headrace.values import Limit, Usage

BURST_S = 0.5  # so much of a limit may be saved up: a late timer costs nothing, and no slice of a second gets a minute's worth
SCARCE = 0.1  # below this share of a server's own remaining count the pace gives way to whoever else spends it
SLOWEST = 0.05
MINUTE_S = 60.0
OTHER_PERIOD_S = 120.0  # a limit that takes longer than this to be whole again is not one per minute
KINDS = {"requests": 0, "tokens": 1, "input_tokens": 2, "output_tokens": 3}


class Bucket:
    """One limit per minute that refills steadily, as the time at which all that was spent is paid: the next send waits for it.

    A send may spend more than is there, so that its size need not be known before; what is not used is saved for BURST_S.
    """

    __slots__ = ("_each_s", "pace", "paid_at", "per_minute")

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self.pace = 1.0
        self.paid_at = now
        self._each_s = MINUTE_S / per_minute

    def take(self, now: float, amount: float) -> float:
        """Spend; a negative amount gives back. Returns when nothing is owed any more."""
        self.paid_at = paid_at = max(self.paid_at, now - BURST_S) + amount * self._each_s
        return paid_at

    def allow(self, now: float, per_minute: float, pace: float) -> None:
        """The limit as it is from now on, and the share of it that is used. What is owed stays owed."""
        before, self._each_s = self._each_s, MINUTE_S / (per_minute * pace)
        self.per_minute, self.pace = per_minute, pace
        if self.paid_at > now:
            self.paid_at = now + (self.paid_at - now) * self._each_s / before


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
        self._kinds: list[tuple[int, Bucket]] = []
        self._counts_tokens = False
        self.is_on = False
        self.estimate = Estimate(longest)
        for what, per_minute in self._configured.items():
            if per_minute is not None:
                self._add(what, per_minute, 0.0)

    def reserve(self, now: float, size: int) -> tuple[float, float]:
        """A unit whose payload has so many bytes is sent. Returns the tokens reserved for prompt and answer."""
        prompt, answer = self.estimate.of(size)
        self._spend(now, (1.0, prompt + answer, prompt, answer))
        return prompt, answer

    def settle(
        self, now: float, reserved: tuple[float, float], size: int, usage: Usage | None, *, is_charged: bool = True
    ) -> None:
        """The unit is back. Without usage the reservation stands, unless the server is known to have charged nothing."""
        prompt, answer = reserved
        if not is_charged:
            self._spend(now, (0.0, -prompt - answer, -prompt, -answer))
        elif usage is not None and usage.prompt is not None:
            completion = usage.completion or 0
            if self._counts_tokens:
                more, longer = usage.prompt - prompt, completion - answer
                self._spend(now, (0.0, more + longer, more, longer))
            self.estimate.learn(size, usage)

    def on_limits(self, limits: Iterable[Limit], now: float) -> None:
        """What a server said of its limits."""
        changed = False
        for said in limits:
            if said.limit is None or said.limit <= 0 or said.what not in KINDS or not _is_per_minute(said):
                continue
            configured = self._configured.get(said.what)
            per_minute = said.limit if configured is None else min(configured, said.limit)
            bucket, pace = self._buckets.get(said.what), _pace(said)
            if bucket is None:
                bucket = self._add(said.what, per_minute, now)
            if bucket.per_minute != per_minute or bucket.pace != pace:
                bucket.allow(now, per_minute, pace)
                changed = True
        if changed:
            self.ready_at = max(bucket.paid_at for bucket in self._buckets.values())

    def _add(self, what: str, per_minute: float, now: float) -> Bucket:
        bucket = self._buckets[what] = Bucket(per_minute, now)
        self._kinds.append((KINDS[what], bucket))
        self._counts_tokens |= what != "requests"
        self.is_on = True
        return bucket

    def _spend(self, now: float, amounts: tuple[float, float, float, float]) -> None:
        ready_at = 0.0
        for kind, bucket in self._kinds:
            paid_at = bucket.take(now, amounts[kind])
            ready_at = max(ready_at, paid_at)
        self.ready_at = ready_at


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
