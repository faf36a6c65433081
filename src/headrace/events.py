"""Facts for observers: for people, metrics and logs. They may be lost; what must not be lost is an Outcome."""

from __future__ import annotations

from msgspec import Struct


class Progress(Struct, frozen=True):
    """A snapshot for the live line. `total` grows while the input is still read; rates are of the last minute."""

    total: int
    done: int
    failed: int
    quarantined: int
    rejected: int
    reading: bool
    in_flight: int
    window: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    units_per_second: float
    oldest_in_flight_s: float
    waiting: int
    bound_by: str | None
    paused_for_s: float | None
    paused_why: str | None
    spent: float | None = None  # USD of the whole run, as far as it is known; None: prices are not
    spent_is_all: bool = True


class Tried(Struct, frozen=True, gc=False):
    """A request came back, or was given up. `kind` None: with an answer that was accepted. `seconds`: from send to reply.

    Tokens as the server counted them, 0 where it did not say; `cached` is a part of `prompt`. `goes_on`: the unit is sent again.
    """

    endpoint: str
    kind: str | None
    seconds: float
    prompt: int
    completion: int
    cached: int
    goes_on: bool


class EndpointPaused(Struct, frozen=True):
    endpoint: str
    seconds: float
    why: str


class EndpointDown(Struct, frozen=True):
    """The breaker opened: the endpoint is held to be down and is probed with one unit in `seconds`."""

    endpoint: str
    seconds: float
    why: str


class EndpointBack(Struct, frozen=True):
    endpoint: str
    down_s: float


class EndpointGone(Struct, frozen=True):
    """The endpoint, or what is asked of it, is wrong: it is not asked any more. So many others are `left`."""

    endpoint: str
    why: str
    left: int


class Warned(Struct, frozen=True):
    """One line for people, said once however often its cause occurs."""

    message: str


class Stopping(Struct, frozen=True):
    """Dispatch has stopped. `draining` requests are still in flight."""

    reason: str
    message: str
    draining: int


Event = Progress | Tried | EndpointPaused | EndpointDown | EndpointBack | EndpointGone | Warned | Stopping
