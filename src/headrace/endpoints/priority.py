"""Priority among a server's requests: which field, with which sign, by what the server says of itself."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

STEP = 100  # more than the 10 by which SGLang lets one request push out another
_MOST = 2**63 - 1


class Scheduling(Struct, frozen=True):
    """How a server orders its requests, as far as it says so. `kind` is vllm, sglang or unknown.

    The rest is SGLang's: whether it orders by priority at all, whether lower goes first there too, and what a request
    without a priority counts as (None: as the last of all).
    """

    kind: str = "unknown"
    is_on: bool = True
    lower_first: bool = False
    usual: int | None = None


def priority_field(level: str | int, scheduling: Scheduling) -> dict[str, int]:
    """What is put into the body; empty where nothing is to be sent. A number is the server's own, whoever it is.

    vLLM takes the lowest first and counts a request without one as 0; SGLang takes the highest first, unless it was started
    the other way round, and counts one without as the last of all, which is what `low` wants, unless it was told a default.
    """
    if isinstance(level, int):
        return {"priority": level}
    up = 1 if level == "high" else -1
    if scheduling.kind == "vllm":
        return {"priority": -up * STEP}
    if scheduling.kind != "sglang" or not scheduling.is_on or (level == "low" and scheduling.usual is None):
        return {}
    sign = -1 if scheduling.lower_first else 1
    return {"priority": (scheduling.usual or 0) + up * sign * STEP}


def unsent(name: str, level: str | int, scheduling: Scheduling) -> str | None:
    """A line for people where what they asked for cannot be had."""
    if isinstance(level, int) or (scheduling.kind != "unknown" and scheduling.is_on):
        return None
    why = "it cannot be told which server this is, and each wants another sign; a number is sent as it stands"
    if not scheduling.is_on:
        why = "the server was started without --enable-priority-scheduling"
    return f'{name}: endpoint.priority = "{level}" is not sent: {why}.'


def scheduling_of(server: str, info: dict[str, Any]) -> Scheduling:
    """How this server orders. `info`: what SGLang says of its arguments, empty where it says nothing."""
    if server == "vllm":
        return Scheduling("vllm")
    return _of_sglang(info) if server == "sglang" else Scheduling()


def _of_sglang(info: dict[str, Any]) -> Scheduling:
    usual = info.get("default_priority_value")
    return Scheduling(
        "sglang",
        is_on=info.get("enable_priority_scheduling") is not False,
        lower_first=info.get("schedule_low_priority_values_first") is True,
        usual=usual if type(usual) is int and abs(usual) <= _MOST - STEP else None,
    )
