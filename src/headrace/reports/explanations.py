"""Which changed keys could explain which figures: what each key can move, as far as it is known how it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from headrace.reports.changes import Change
from headrace.reports.operation import Difference

ANSWERS = "answers"
IN_FLIGHT = "in_flight.mean"
_PACE = frozenset({"items_per_minute", "latency_s.p50", "latency_s.p95", IN_FLIGHT})
_FAILING = frozenset({"failure_rate"})
_RETRIES = frozenset({"retry_rate"})
_LENGTH = frozenset({"completion_tokens.mean", "cost_per_item"})
_PROMPTS = frozenset({"prompt_tokens.mean", "cached_share", "cost_per_item"})
_ALL = _PACE | _FAILING | _RETRIES | _LENGTH | _PROMPTS | {ANSWERS}
_NOTHING: frozenset[str] = frozenset()

# The longest beginning of a key that stands here counts.
_MOVES: dict[str, frozenset[str]] = {
    "input": _ALL - _RETRIES,
    "input.path": _NOTHING,  # what is in it counts: input.records
    "input.id": _NOTHING,
    "input.max_record": _FAILING,
    "input.dedupe": _PACE | _PROMPTS | _LENGTH,
    "slice": _ALL - _RETRIES,
    "prompt": _ALL - _RETRIES,
    "prompt.user_file": _NOTHING,  # what it says is prompt.user
    "prompt.version": _NOTHING,
    "model": _ALL,
    "model.temperature": _PACE | _LENGTH | _FAILING | _RETRIES | {ANSWERS},
    "model.top_p": _PACE | _LENGTH | _FAILING | _RETRIES | {ANSWERS},
    "model.seed": _LENGTH | _FAILING | {ANSWERS},
    "model.stop": _PACE | _LENGTH | _FAILING | {ANSWERS},
    "model.max_tokens": _PACE | _LENGTH | _FAILING | {ANSWERS},
    "answer": _ALL - {"prompt_tokens.mean", "cached_share"},
    "answer.retry_invalid": _FAILING | _RETRIES | _PACE | {ANSWERS},
    "endpoint": _ALL,  # another address may be another server with another model
    "concurrency": _PACE | _RETRIES | _FAILING | {"cached_share", "cost_per_item"},
    "requests_per_minute": _PACE | _RETRIES,
    "tokens_per_minute": _PACE | _RETRIES,
    "share": _PACE | _RETRIES,
    "priority": _PACE | _RETRIES,
    "identity": _NOTHING,
    "api_key": _FAILING | _RETRIES | _PACE,  # another account may have other limits
    "verify": _NOTHING,
    "limits": _NOTHING,
    "limits.class": _PACE | _RETRIES | _FAILING,
    "limits.order": _PACE | {"cached_share", "cost_per_item"},
    "limits.max_attempts": _RETRIES | _FAILING,
    "limits.attempt_timeout": _RETRIES | _FAILING | {"latency_s.p95", IN_FLIGHT},
    "limits.unit_deadline": _RETRIES | _FAILING,
    "prices": frozenset({"cost_per_item"}),
    "quality": frozenset(),  # what is measured of the answers, not what makes them
    "headrace": _PACE | _RETRIES | _FAILING,
    "server": _ALL,
    "output": _NOTHING,
    "name": _NOTHING,
}


class Explanation(Struct, frozen=True):
    """A figure that differs beyond noise, and the changed keys that could be why: none where nothing that was changed is."""

    figure: str
    keys: list[str]
    beside: list[str] = []  # figures that differ too and move this one, whatever moved them


def explain(changes: Sequence[Change], differences: Iterable[Difference], *, answers_differ: bool) -> list[Explanation]:
    figures = [difference.name for difference in differences if difference.verdict == "differs"]
    figures += [ANSWERS] if answers_differ else []
    return [
        Explanation(
            figure,
            [change.key for change in changes if figure in moved_by(change.key)],
            [IN_FLIGHT] if figure.startswith("latency") and IN_FLIGHT in figures else [],
        )
        for figure in figures
    ]


def moved_by(key: str) -> frozenset[str]:
    """What a key can move. `endpoint.concurrency` and `endpoint[2].concurrency` are looked up as `concurrency`."""
    section, _, rest = key.partition(".")
    name = rest if section.partition("[")[0] == "endpoint" and rest else key
    found = max(
        (known for known in _MOVES if name == known or name.startswith((known + ".", known + "_"))), key=len, default=None
    )
    return _MOVES[found] if found is not None else _ALL
