"""What a run may spend: each request reserves its upper bound before it goes, and settles by what the server counted."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from headrace.policy.amounts import counted, money
from headrace.policy.price import Prices, answered
from headrace.values import Kind, Sent, Usage

UNTOLD_ANSWER = 131_072  # tokens of an answer that nothing bounds: no model gives a longer one
TEMPLATE_TOKENS = 512  # that a chat template puts around the messages at most: some bring a system prompt of their own
NEAR = 0.8  # of a limit: worth a warning
_GRAIN = 1e-9  # sums of floats may differ by this share
ANSWERED = frozenset({Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH, Kind.TRUNCATED, Kind.EMPTY, Kind.REFUSAL, Kind.CONTENT_FILTER})


def may_be_billed(kind: str | None, sent: str) -> bool:
    """An answer was billed; so, perhaps, was what was sent and brought no complete reply. A refusal by status is not."""
    return kind is None or sent == Sent.MAYBE or kind in ANSWERED


class Caps(Struct, frozen=True):
    """The limits of a run: USD, tokens of prompts and answers, requests. None: no such limit."""

    cost: float | None = None
    tokens: int | None = None
    requests: int | None = None

    def __bool__(self) -> bool:
        return self.cost is not None or self.tokens is not None or self.requests is not None


class Spent(Struct, frozen=True):
    """What a run has spent. `cost` is USD of attempts whose usage is known; `at_most` and `tokens` count those whose usage is not
    known, `unknown` of them, at all that they may have taken.
    """

    cost: float = 0.0
    at_most: float = 0.0
    tokens: float = 0.0
    requests: int = 0
    unknown: int = 0


class Most(Struct, frozen=True):
    """Tokens that a request may take at most, besides those of its payload: `beside` them in the prompt, and the `answer`."""

    beside: int = TEMPLATE_TOKENS
    answer: int = UNTOLD_ANSWER


class Learnt(Struct, frozen=True):
    """What is known of a request's tokens beside its payload: at most so many around the prompt, so many that prompts had in
    `excess` of their bytes, the longest answer, and what the server holds of one request.
    """

    beside: int
    answer: int
    excess: int = 0
    context: int | None = None


class Bound:
    """The tokens that a request at one endpoint may take at most, from the bytes of its payload.

    No tokenizer makes more tokens of a text than it has bytes. What the server puts around it is at most what the shortest
    prompt so far had in all; a prompt that had more than its bound (an image behind an address) raises that of all others.
    `on_learnt` is called when anything of this has changed.
    """

    __slots__ = ("_beside", "_context", "_excess", "answer", "on_learnt")

    def __init__(self, most: Most | Learnt) -> None:
        known = most if isinstance(most, Learnt) else Learnt(most.beside, most.answer)
        self._beside = known.beside
        self._excess = known.excess
        self._context = known.context
        self.answer = known.answer
        self.on_learnt: Callable[[], None] = _nobody_asks

    @property
    def learnt(self) -> Learnt:
        return Learnt(self._beside, self.answer, self._excess, self._context)

    def of(self, size: int) -> tuple[int, int]:
        """Tokens of prompt and answer for a payload of so many bytes."""
        prompt, answer, context = size + self._beside + self._excess, self.answer, self._context
        return (prompt, answer) if context is None else (min(prompt, context), min(answer, context))

    def learn(self, size: int, usage: Usage) -> None:
        """What a request has taken."""
        prompt, answer = usage.prompt, answered(usage)
        is_new = False
        if prompt:
            over = prompt - size - self._beside - self._excess
            if over > 0:
                self._excess += over
                is_new = True
            elif prompt < self._beside:
                self._beside = prompt
                is_new = True
        if answer > self.answer:
            self.answer = answer
            is_new = True
        if is_new:
            self.on_learnt()

    def allow(self, context: int | None) -> None:
        """The server holds so many tokens of one request, prompt and answer together, as far as it says."""
        if context != self._context:
            self._context = context
            self.on_learnt()


class Budget:
    """The limits of a run and what counts against them, over all its endpoints. Amounts are USD, tokens, requests."""

    def __init__(self, caps: Caps, spent: Spent = Spent()) -> None:  # noqa: B008 (frozen)
        self.caps = caps
        self.cost = spent.cost
        self.unknown = spent.unknown
        self.spent = [spent.at_most, spent.tokens, float(spent.requests)]
        self.reserved = [0.0, 0.0, 0.0]
        self.in_flight = 0
        self.settled = 0  # grows with everything that comes back: then there may be room again
        self.on_near: Callable[[str], None] = _nobody
        limits = ((caps.cost, "max_cost"), (caps.tokens, "max_total_tokens"), (caps.requests, "max_requests"))
        self._limits = [(place, limit, name) for place, (limit, name) in enumerate(limits) if limit is not None]
        self._near = list(self._limits)

    def exceeded(self, amounts: tuple[float, float, float]) -> str | None:
        """The limit that these would break now, on top of what is spent and in flight; None: they fit."""
        for place, limit, name in self._limits:
            if self.spent[place] + self.reserved[place] + amounts[place] > limit * (1 + _GRAIN):
                return name
        return None

    def reserve(self, amounts: tuple[float, float, float]) -> None:
        reserved = self.reserved
        reserved[0] += amounts[0]
        reserved[1] += amounts[1]
        reserved[2] += amounts[2]
        self.in_flight += 1

    def settle(self, amounts: tuple[float, float, float], taken: tuple[float, float, float]) -> None:
        """What reserved these amounts has taken those. Booked before it is given back, so that nothing fits in between."""
        spent, reserved = self.spent, self.reserved
        self.in_flight -= 1
        self.settled += 1
        for place in (0, 1, 2):
            spent[place] += taken[place]
            reserved[place] = reserved[place] - amounts[place] if self.in_flight else 0.0  # no rest of rounding stays
        if self._near:
            self.look()

    def look(self) -> None:
        """Say once of each limit that it is near."""
        for near in [near for near in self._near if self.spent[near[0]] >= NEAR * near[1]]:
            self._near.remove(near)
            place, limit, name = near
            spent = self.spent[place]
            used = "are spent or may have been" if self.unknown and place != 2 else "are spent"
            self.on_near(f"limits.{name}: {shown(spent, name)} of {shown(limit, name)} {used} ({spent / limit:.0%}).")

    def refusal(self, name: str, amounts: tuple[float, float, float]) -> str:
        """One line for a run that ends because what it would send next breaks a limit."""
        place, limit, _ = next(entry for entry in self._limits if entry[2] == name)
        wanted = "the next request is one more" if place == 2 else f"the next request may take {shown(amounts[place], name)}"
        is_whole = self.unknown and place != 2
        used = f"counted ({counted(self.unknown, 'request')} of unknown use whole)" if is_whole else "spent"
        return (
            f"limits.{name} = {shown(limit, name)}: {shown(self.spent[place], name)} {used}, and {wanted}; "
            "raise the limit to go on"
        )


class Purse:
    """What one endpoint takes out of the budget, at its own prices. Closed while a unit waits for room in it."""

    __slots__ = ("_asks", "_budget", "_closed_at", "_prices", "_refused", "bound")

    def __init__(self, budget: Budget, bound: Bound, prices: Prices | None) -> None:
        self.bound = bound
        self._budget = budget
        self._prices = prices if prices is not None and prices.known else None
        self._asks = bool(budget.caps)
        self._closed_at = -1
        self._refused: tuple[str, int] | None = None

    @property
    def has_prices(self) -> bool:
        return self._prices is not None

    @property
    def is_closed(self) -> bool:
        """Whether the next unit has not fitted, and nothing has come back since."""
        return self._closed_at == self._budget.settled

    @property
    def has_refused(self) -> bool:
        """Whether it was ever closed."""
        return self._refused is not None

    @property
    def refusal(self) -> tuple[str, int, str]:
        """The limit that closed it, the payload's size that did not fit, and one line for people."""
        assert self._refused is not None
        name, size = self._refused
        return name, size, self._budget.refusal(name, self._amounts(size))

    def takes(self, size: int) -> bool:
        """Whether a request with a payload of so many bytes may go now. If not, nothing may until something comes back."""
        if not self._asks:
            return True
        amounts = self._amounts(size)
        name = self._budget.exceeded(amounts)
        if name is None:
            return True
        self._closed_at = self._budget.settled
        self._refused = name, size
        return False

    def reserve(self, size: int) -> tuple[float, float, float]:
        """It goes. Returns what is to be given to `settle` or `give_back`."""
        amounts = self._amounts(size) if self._asks else (0.0, 0.0, 1.0)
        self._budget.reserve(amounts)
        return amounts

    def settle(
        self, amounts: tuple[float, float, float], size: int, usage: Usage | None, *, kind: Kind | None, sent: Sent
    ) -> None:
        """What came of it: usage counts where it is known, else all that was reserved where it may have been billed."""
        budget = self._budget
        if usage is not None and usage.prompt is not None and usage.completion is not None:
            self.bound.learn(size, usage)
            cost = self._prices.cost(usage) if self._prices is not None else None
            budget.cost += cost or 0.0
            budget.settle(amounts, (cost or 0.0, usage.prompt + answered(usage), 1.0))
        elif may_be_billed(kind, sent):
            budget.unknown += 1
            budget.settle(amounts, amounts)
        else:
            budget.settle(amounts, (0.0, 0.0, 0.0 if sent is Sent.NO else 1.0))

    def give_back(self, amounts: tuple[float, float, float]) -> None:
        """It was not sent after all."""
        self._budget.settle(amounts, (0.0, 0.0, 0.0))

    def _amounts(self, size: int) -> tuple[float, float, float]:
        prompt, answer = self.bound.of(size)
        cost = self._prices.most(prompt, answer) if self._prices is not None else None
        return cost or 0.0, prompt + answer, 1.0


def shown(amount: float, name: str) -> str:
    """An amount of one of the limits in words."""
    if name == "max_cost":
        return f"{money(amount)} USD"
    return counted(math.ceil(amount), "token" if name == "max_total_tokens" else "request")


def _nobody_asks() -> None:
    """Nobody wants to know what is learnt."""


def _nobody(_text: str) -> None:
    """Nobody has asked to be told."""
