"""What the simulated endpoint counted: the other side of a run's own figures."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import Any

MAX_COUNTED = 1_000_000
MAX_PRIORITIES = 100


class Stats:
    """Counts since the start or the last reset. A request is one POST to an inference route."""

    def __init__(self) -> None:
        self.requests = 0
        self.by_status: Counter[int] = Counter()
        self.by_action: Counter[str] = Counter()
        self.in_flight = 0
        self.in_flight_peak = 0
        self.sockets = 0
        self.sockets_peak = 0
        self.sockets_total = 0
        self.aborted_by_client = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.bill = 0.0  # USD, where the tokens have a price
        self.began_at: float | None = None  # monotonic time of the first request
        self.ended_at: float | None = None  # and of the last reply
        self.keys = 0
        self.duplicates = 0
        self.repeats = 0
        self.prompts: dict[bytes, int] = {}
        self.priorities: Counter[int] = Counter()
        self._keys: set[bytes] = set()

    def reset(self) -> None:
        """Start from zero; what is open now stays counted as open."""
        in_flight, sockets = self.in_flight, self.sockets
        self.__init__()  # type: ignore[misc] # the same fields at the same values, declared once
        self.in_flight = self.in_flight_peak = in_flight
        self.sockets = self.sockets_peak = sockets

    def opened(self) -> None:
        self.sockets += 1
        self.sockets_total += 1
        self.sockets_peak = max(self.sockets_peak, self.sockets)

    def began(self) -> None:
        if self.began_at is None:
            self.began_at = time.monotonic()
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight_peak, self.in_flight)

    def ended(self, status: int) -> None:
        """A reply has left whole."""
        self.by_status[status] += 1
        self.ended_at = time.monotonic()

    def came(self, prompt: bytes) -> int:
        """Count a prompt by its digest; returns how often it came before. Past a million prompts new ones are not kept."""
        before = self.prompts.get(prompt, 0)
        if before:
            self.repeats += 1
        if before or len(self.prompts) < MAX_COUNTED:
            self.prompts[prompt] = before + 1
            return before
        return self.requests

    def keyed(self, key: bytes) -> None:
        """Count an idempotency key: a new one, or a duplicate. Past a million keys new ones are counted, not kept."""
        short = key if len(key) <= 16 else hashlib.blake2b(key, digest_size=16).digest()
        if short in self._keys:
            self.duplicates += 1
            return
        self.keys += 1
        if len(self._keys) < MAX_COUNTED:
            self._keys.add(short)

    def ranked(self, priority: int | None) -> None:
        """Count what a request asked to be served before or behind. Of many different values the first are told apart."""
        if priority is not None and (priority in self.priorities or len(self.priorities) < MAX_PRIORITIES):
            self.priorities[priority] += 1

    def document(self, *, prompts: bool = False) -> dict[str, Any]:
        """What GET /stats answers."""
        made: dict[str, Any] = {
            "requests": self.requests,
            "by_status": {str(status): count for status, count in sorted(self.by_status.items())},
            "by_action": dict(sorted(self.by_action.items())),
            "in_flight": {"now": self.in_flight, "peak": self.in_flight_peak},
            "sockets": {"now": self.sockets, "peak": self.sockets_peak, "total": self.sockets_total},
            "aborted_by_client": self.aborted_by_client,
            "tokens": {"prompt": self.prompt_tokens, "completion": self.completion_tokens, "cached": self.cached_tokens},
            "bill": round(self.bill, 12),
            "keys": self.keys,
            "duplicates": self.duplicates,
            "prompts": len(self.prompts),
            "repeats": self.repeats,
            "seconds": 0.0 if self.began_at is None or self.ended_at is None else round(self.ended_at - self.began_at, 6),
            "priorities": {str(priority): count for priority, count in sorted(self.priorities.items())},
        }
        if prompts:
            made["prompt_counts"] = {key.hex(): count for key, count in self.prompts.items()}
        return made
