"""What failed, by reason: every figure and example from the ledger's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace import canon
from headrace.ledger.reader import LedgerReader, as_text
from headrace.runs.divided import join_of
from headrace.runs.excerpts import Excerpts
from headrace.runs.registry import RunFolder
from headrace.runs.shapes import failure_shape, shape_of
from headrace.values import State, Status

_STATUS = {State.FAILED: "failed", State.QUARANTINED: "quarantined"}
_EXAMPLES = 3
_EXCERPTS = 100  # groups with an excerpt; nobody reads more


def failures(path: Path) -> dict[str, Any]:
    """The document of `failures --json`: what failed, was quarantined or rejected, by kind and message, most first.

    Messages that differ by their numbers alone (a prompt's length, a piece's) are one group, under the most frequent of them.
    `excerpt` shows how the first example's record and its answer begin.
    """
    folder = RunFolder(path)
    reader = LedgerReader(folder.ledger)
    try:
        reader.snapshot()
        groups = _merged(_told(reader))
        with Excerpts(reader, folder) as excerpts:
            for number, group in enumerate(groups):
                places = group.pop("places")
                group["examples"] = [item_name(reader, place) for place in places]
                group["excerpt"] = excerpts.of(places[0]) if number < _EXCERPTS else None
    finally:
        reader.close()
    return {"groups": groups}


def _told(reader: LedgerReader) -> Iterator[dict[str, Any]]:
    """What failed by its whole message; of those that have one status the most first."""
    for state, error, count, low, high in reader.all("failed_units" if join_of(reader) is None else "failed_pieces"):
        yield _group(_STATUS[State(state)], as_text(error) or "", count, (low, high))
    for error, count, low, high in reader.all("rejected_items"):
        yield _group(Status.REJECTED.value, as_text(error) or "", count, (low, high))


def _group(what: str, error: str, count: int, places: tuple[int, int]) -> dict[str, Any]:
    kind, _, message = error.partition(": ")
    return {"status": what, "kind": kind, "message": message, "count": count, "places": [*dict.fromkeys(places)]}


def _merged(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups whose messages tell the same as one, the most first. `groups` come by status with the most first."""
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    for group in groups:
        shape = shape_of if group["status"] == Status.REJECTED else failure_shape
        kept = merged.setdefault((group["status"], group["kind"], shape(group["message"])), group)
        if kept is not group:
            kept["count"] += group["count"]
            kept["places"] = sorted({*kept["places"], *group["places"]})[:_EXAMPLES]
    return sorted(merged.values(), key=lambda group: -int(group["count"]))


def item_name(reader: LedgerReader, seq: int) -> Any:
    """How people know an item: its id field, else its number."""
    _, number, name = reader.one("item_names", (seq,))
    return number if name is None else canon.decode(as_text(name) or "null")
