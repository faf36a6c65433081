"""`headrace explain-class`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json
from headrace.cli.printing import columns, print_json, print_lines
from headrace.observe.wording import duration


class ClassName(StrEnum):
    BATCH = "batch"
    ONLINE = "online"


_HAPPENS = {"retry": "sent again", "reask": "asked again", "quarantine": "quarantined", "fail": "failed", "stop": "run stops"}
_WAITS = {"backoff": "back-off", "server": "back-off or told", None: ""}
Name = Annotated[ClassName | None, typer.Argument(metavar="batch|online", help="Only this class.")]


def explain_class(name: Name = None, json: Json = False) -> None:
    """Print what follows from limits.class: the limits of each class, and what becomes of each kind of failure.

    A key of [limits] that the job writes wins over its class. "counts": the send is one of max_attempts; "told": the wait that
    the server names; "after 6": after so many sends. Pauses of a whole endpoint, and times when it is held to be down, count
    for neither attempts nor deadline.
    """
    from headrace.runs.classes import explain_classes  # noqa: PLC0415 (help and completion do not pay for it)

    document = explain_classes([name.value]) if name is not None else explain_classes()
    if json:
        print_json(document)
    else:
        print_lines([*_limits(document["classes"]), "", *_kinds(document["kinds"], document["classes"])])


def _limits(classes: Mapping[str, Any]) -> list[str]:
    keys = next(iter(classes.values()))["limits"]
    rows = [["", *classes]]
    rows += [[key, *(_value(of["limits"][key]) for of in classes.values())] for key in keys]
    autos, backoffs = ([of[part] for of in classes.values()] for part in ("auto_timeout", "backoff"))
    rows += [
        ["auto: at least", *(f"{auto['base_s']:g} s + {auto['per_token_s']:g} s per max_tokens" for auto in autos)],
        ["auto: and", *(f"{auto['times']:g} times what slow replies take" for auto in autos)],
        ["back-off", *(f"{backoff['first_s']:g} s, doubled up to {backoff['longest_s']:g} s" for backoff in backoffs)],
    ]
    return columns(rows)


def _value(value: float | str) -> str:
    return _short(value) if isinstance(value, float) else str(value)


def _short(seconds: float) -> str:
    """As elsewhere, without what is nothing: 1 h, 5 min."""
    return duration(seconds).removesuffix(" 00 min").removesuffix(" 00 s")


def _kinds(kinds: list[dict[str, Any]], classes: Mapping[str, Any]) -> list[str]:
    rows = [["kind", "what then", "counts", "waits", *classes]]
    for row in kinds:
        ends = [_end(row["classes"][name], of["limits"]) for name, of in classes.items()]
        rows.append([row["kind"], _HAPPENS[row["action"]], "yes" if row["counts"] else "no", _WAITS[row["waits"]], *ends])
    return columns(rows)


def _end(course: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """What it comes to when each send ends alike."""
    if course["sends"] is None:
        return f"failed after {_short(limits['unit_deadline'])}"
    if course["then"] == "stop":
        return "exit 4, pending"
    return f"{_HAPPENS[course['then']]} " + ("at once" if course["sends"] == 1 else f"after {course['sends']}")
