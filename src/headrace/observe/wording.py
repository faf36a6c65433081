"""Events in words: one harmless ASCII line each."""

from __future__ import annotations

from headrace.events import EndpointBack, EndpointDown, EndpointGone, EndpointPaused, Event, Progress, Stopping, Warned
from headrace.observe.text import printable
from headrace.policy.amounts import counted, money

_LINE = 400


def said(event: Event) -> str | None:
    """What an event says to people; None for one that only feeds the live line."""
    match event:
        case Warned(message):
            line = f"warning: {message}"
        case EndpointPaused(endpoint, seconds, why):
            line = f"{endpoint} paused for {duration(seconds)}: {_without(endpoint, why)}"
        case EndpointDown(endpoint, seconds, why):
            line = f"{endpoint} is held to be down, next try in {duration(seconds)}: {_without(endpoint, why)}"
        case EndpointBack(endpoint, down_s):
            line = f"{endpoint} is back after {duration(down_s)}"
        case EndpointGone(endpoint, why, left):
            line = f"{endpoint} is not asked any more, {left:,} left: {_without(endpoint, why)}"
        case Stopping(reason, message, draining) if draining:  # else the end follows at once, and says the same
            again = " (Ctrl-C again stops at once)" if reason == "interrupted" else ""
            line = f"stopping: {message}; waiting for {draining:,} in flight{again}"
        case _:
            return None
    return printable(line, _LINE)


def _without(endpoint: str, why: str) -> str:
    """A reason that does not begin with the endpoint's name again."""
    return why.removeprefix(f"{endpoint}: ")


def amounts(progress: Progress) -> str:
    """How far the run is and how long it will take, in distinct requests and rejected records."""
    finished = settled(progress)
    of = f"{progress.total:,}" + ("+" if progress.reading else "")
    parts = [f"{finished:,}/{of} {'request' if of == '1' else 'requests'}"]
    if progress.total and not progress.reading:
        parts[0] += f" ({finished * 100 // progress.total} %)"
    parts.append(f"{progress.units_per_second * 60:,.0f}/min")
    left = time_left(progress)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def details(progress: Progress) -> str:
    """What happens at the moment; what is nothing is not mentioned."""
    parts = []
    if progress.paused_for_s is not None:
        why = f": {progress.paused_why}" if progress.paused_why else ""
        parts.append(f"paused for {duration(progress.paused_for_s)}{why}")
    parts.append(f"{progress.in_flight:,}/{progress.window:,} in flight")
    if progress.in_flight and progress.oldest_in_flight_s >= 1:
        parts.append(f"oldest {duration(progress.oldest_in_flight_s)}")
    parts += [
        f"{count:,} {word}"
        for count, word in (
            (progress.waiting, "waiting"),
            (progress.retries, "retry" if progress.retries == 1 else "retries"),
            (progress.failed, "failed"),
            (progress.quarantined, "quarantined"),
            (progress.rejected, "rejected"),
        )
        if count
    ]
    tokens = progress.prompt_tokens + progress.completion_tokens
    if tokens:
        parts.append(counted(tokens, "token"))
    if progress.spent is not None:
        parts.append(f"{'' if progress.spent_is_all else 'at least '}{money(progress.spent)} USD")
    if progress.paused_for_s is None and progress.bound_by is not None:
        parts.append(f"bound by {progress.bound_by}")
    return printable(", ".join(parts), _LINE)


def settled(progress: Progress) -> int:
    return progress.done + progress.failed + progress.quarantined + progress.rejected


def time_left(progress: Progress) -> float | None:
    """Seconds, from the rate of the last minute; None while it cannot be known."""
    left = progress.total - settled(progress)
    if progress.reading or left <= 0 or progress.units_per_second <= 0:
        return None
    return left / progress.units_per_second


def duration(seconds: float) -> str:
    """12 s, 3 min 05 s, 2 h 10 min."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
