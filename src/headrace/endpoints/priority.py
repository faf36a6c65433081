"""Priority among a server's requests: which field, with which sign, and what has to be asked of the server for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from headrace.endpoints.envelopes import parse
from headrace.endpoints.transport import Response

STEP = 100  # more than the 10 by which SGLang lets one request push out another
Get = Callable[[str], Awaitable[Response]]
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


async def ask_scheduling(url: str, suffix: str, get: Get) -> Scheduling:
    """Ask the server behind the route `url` what it is. Costs nothing: pages beside the route. Raises TransportError."""
    parts = urlsplit(url)
    base = parts.path.removesuffix(suffix).rstrip("/")

    async def page(path: str) -> Any:
        response = await get(urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")))
        return parse(response.body) if response.status == 200 else None

    owner = _owner(await page(f"{base}/models"))
    if owner == "vllm":
        return Scheduling("vllm")
    root = base.removesuffix("/v1")
    if owner == "sglang":
        info = await page(f"{root}/server_info") or await page(f"{root}/get_server_info")
        return _of_sglang(info if isinstance(info, dict) else {})
    return Scheduling()


def _owner(models: Any) -> Any:
    """Who says to own the first model of GET /v1/models: both servers put their own name there."""
    listed = models.get("data") if isinstance(models, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return first.get("owned_by") if isinstance(first, dict) else None


def _of_sglang(info: dict[str, Any]) -> Scheduling:
    usual = info.get("default_priority_value")
    return Scheduling(
        "sglang",
        is_on=info.get("enable_priority_scheduling") is not False,
        lower_first=info.get("schedule_low_priority_values_first") is True,
        usual=usual if type(usual) is int and abs(usual) <= _MOST - STEP else None,
    )
