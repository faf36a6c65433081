"""From a job to what the engine is told: the limits of the run, and how fast each endpoint is asked."""

from __future__ import annotations

import resource

from headrace.engine.knobs import Knobs, Pace
from headrace.policy.budget import Caps, Most
from headrace.policy.classes import CLASSES
from headrace.policy.tuning import AUTO_MOST, AUTO_START
from headrace.spec import ConcurrencySpec, EndpointSpec, JobSpec


def knobs_of(spec: JobSpec, run: str, config: int, shared_bytes: int = 0, most: Most = Most()) -> Knobs:  # noqa: B008 (frozen)
    """The limits of a run. `shared_bytes`: what all its payloads have in common at their beginning; `most`: what a request may
    take besides its payload.
    """
    limits = spec.limits
    generates = spec.answer.method == "generate"
    return Knobs(
        run=run, config=config, max_attempts=limits.max_attempts, retry_invalid=spec.answer.retry_invalid if generates else 0,
        retry_ambiguous=limits.retry_ambiguous == "always", attempt_timeout=limits.attempt_timeout,
        max_tokens=spec.model.max_tokens if generates else 1, unit_deadline_s=limits.unit_deadline,
        run_deadline_s=limits.run_deadline, give_up_after_s=limits.give_up_after, drain_s=limits.drain,
        order=limits.order, shared_bytes=shared_bytes,
        manners=CLASSES[limits.class_], most=most,
        caps=Caps(limits.max_cost, limits.max_total_tokens, limits.max_requests),
    )  # fmt: skip


def pace_of(endpoint: EndpointSpec, slots: int | None, endpoints: int = 1) -> Pace:
    """How fast one of so many endpoints is asked. `slots`: what it is known to work on at once."""
    start, tuned = _window_of(endpoint.concurrency, slots, endpoints)
    return Pace(
        start, tuned, endpoint.requests_per_minute, endpoint.tokens_per_minute, background=endpoint.share == "background"
    )  # fmt: skip


def _window_of(concurrency: str | int | ConcurrencySpec, slots: int | None, endpoints: int) -> tuple[int, tuple[int, int] | None]:
    """Where the window begins, and within which bounds it finds its own size; None: it does not."""
    if isinstance(concurrency, int):
        return concurrency, None
    if isinstance(concurrency, ConcurrencySpec):
        return concurrency.start, (concurrency.min, concurrency.max)
    if slots:
        return slots, None  # the server has said how many it works on at once
    return AUTO_START, (1, max(AUTO_START, min(AUTO_MOST, _most_connections() // endpoints)))


def _most_connections() -> int:
    """What the limit on open files leaves for connections: a window that finds its own size must not run into it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (soft if soft != resource.RLIM_INFINITY else AUTO_MOST * 2) // 2
