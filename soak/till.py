"""What endpoints charge, whatever a run believes that it has spent, and whether a limit held."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from headrace.engine.knobs import Ending
from headrace.policy.budget import Bound, Caps, Most, Spent
from headrace.testing.fake_endpoint import prompt_of
from headrace.values import Failure, Reply, Request, Sent
from soak.plans import PRICES

CAPS = {"max_cost": "cost", "max_total_tokens": "tokens", "max_requests": "requests"}
RAISED = 2  # times, when a limit has ended a process


class Till:
    """`charged`: USD, tokens and requests, over all processes and endpoints, whatever has come of them."""

    def __init__(self) -> None:
        self.charged = [0.0, 0, 0]

    def charge(self, request: Request) -> Callable[[Reply | Failure], None]:
        """Charge the prompt of a request; what is returned puts it right by the result, if one comes."""
        prompt = prompt_of(request.payload).tokens
        self._add(PRICES.of(prompt, 0), prompt, 1)

        def settle(result: Reply | Failure) -> None:
            usage = result.usage
            if usage is not None:
                self._add((PRICES.cost(usage) or 0.0) - (PRICES.of(prompt, 0) or 0.0), usage.completion or 0, 0)
            elif isinstance(result, Failure) and result.sent is not Sent.MAYBE:
                self._add(-(PRICES.of(prompt, 0) or 0.0), -prompt, -(result.sent is Sent.NO))

        return settle

    def broken(self, caps: Caps) -> str | None:
        """What is wrong where more is charged than these allow."""
        for charged, limit in zip(self.charged, (caps.cost, caps.tokens, caps.requests), strict=True):
            if limit is not None and charged > limit * (1 + 1e-9):
                return f"{charged} were charged of {limit}, {caps}"
        return None

    def forgotten(self, spent: Spent) -> str | None:
        """What is wrong where less counts as spent than was charged: asked when a process has taken the run up."""
        counted = (spent.at_most, spent.tokens, spent.requests)
        if all(charged <= most * (1 + 1e-9) + 1e-12 for charged, most in zip(self.charged, counted, strict=True)):
            return None
        return f"{self.charged} were charged, and {counted} count as spent"

    def _add(self, dollars: float | None, tokens: int, requests: int) -> None:
        for place, amount in enumerate((dollars or 0.0, tokens, requests)):
            self.charged[place] += amount


def wrongly_ended(ending: Ending, caps: Caps, spent: Spent, next_one: tuple[Most, int], *, lost: bool) -> str | None:
    """What is wrong with a limit's ending a process: the next request, of at most so many bytes, must break it. What a dead
    process left open counts, though it may never have left.
    """
    name = CAPS[ending.reason or ""]
    prompt, answer = Bound(next_one[0]).of(next_one[1])
    wanted = {"cost": PRICES.most(prompt, answer) or 0.0, "tokens": prompt + answer, "requests": 1}[name]
    held = {"cost": spent.at_most, "tokens": spent.tokens, "requests": spent.requests}[name]
    limit = getattr(caps, name)
    if not lost and held > limit * (1 + 1e-9):
        return f"{held} of {name} are spent of {limit}"
    return None if held + wanted > limit else f"{ending.reason} ended it with {held} of {limit} spent"


def raised(caps: Caps, ending: Ending) -> Caps:
    """The limits of the next process: the one that ended this is higher."""
    name = CAPS[ending.reason or ""]
    return replace(caps, **{name: getattr(caps, name) * RAISED})
