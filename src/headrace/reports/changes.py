"""What differs between the configurations of two runs, key by key."""

from __future__ import annotations

import difflib
from typing import Any

import orjson
from msgspec import Struct

from headrace import canon
from headrace.engine.preflight import TOLD
from headrace.ledger.reader import LedgerReader
from headrace.runs import archive
from headrace.runs.registry import RunFolder

_SECTIONED = frozenset({"input", "slice", "prompt", "model", "endpoint", "answer", "output", "limits", "prices", "quality"})
_MOVED = {"retry_invalid": "answer.retry_invalid"}  # kept among the operating keys, written in another section
RECORDS = "input.records"
_SHORT = 30  # characters: such a value is shown whole
_UNTOLD = frozenset({"found_prices"})  # looked up, not written by anybody


class Change(Struct, frozen=True):
    """A key whose value differs; None where it is not set. `diff` shows a longer text's lines."""

    key: str
    a: Any
    b: Any
    diff: list[str] = []


def settings_of(folder: RunFolder, reader: LedgerReader) -> dict[str, Any]:
    """Every key of a run's configuration as the job file names it, and what else made the run what it was.

    Content is that of the first configuration, which asked all units; operating keys are the last ones. Where secrets stand
    is known, never what they are.
    """
    configs = reader.configs()
    found: dict[str, Any] = {}
    if configs:
        for section, value in {**configs[-1].operating, **configs[0].content}.items():
            if section not in _UNTOLD:
                found.update(_flat(_MOVED.get(section, section), value))
    found[RECORDS] = _fingerprint(reader)
    found["headrace"] = archive.read(folder).get("headrace")
    told = [reader.meta(f"{TOLD}{number}") for number, _ in reader.all("endpoints")]
    found["server"] = sorted({one["server"] for one in told if one})
    return found


def changes(a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    """The keys that differ, in the order in which the job file has them. One that is not set equals one that is null."""
    keys = dict.fromkeys([*a, *b])
    return [
        Change(key, a.get(key), b.get(key), [] if key == RECORDS else _diff(a.get(key), b.get(key)))
        for key in keys
        if a.get(key) != b.get(key)
    ]


def _fingerprint(reader: LedgerReader) -> list[str]:
    """What the input's bytes were, wherever the files lie; empty where that is not known."""
    return [chunk for file in reader.meta("fingerprint", []) for chunk in file["chunks"]]


def _flat(name: str, value: Any) -> dict[str, Any]:
    """`{"model": {"seed": 1}}` as `{"model.seed": 1}`; of one endpoint without its number."""
    if name == "endpoint" and isinstance(value, list):
        if len(value) == 1:
            return _flat(name, value[0])
        return {key: part for n, one in enumerate(value) for key, part in _flat(f"endpoint[{n}]", one).items()}
    if value == {}:
        return {}
    if isinstance(value, dict) and (name.partition("[")[0].partition(".")[0] in _SECTIONED) and name != "answer.schema":
        return {key: part for inner, one in value.items() for key, part in _flat(f"{name}.{inner}", one).items()}
    return {name: value}


def _in_lines(value: list[Any] | dict[str, Any]) -> str:
    """A list's elements, or an object's JSON, over several lines."""
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in value):
        return "".join(f"{canon.encode(one).decode()}\n" for one in value)
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _diff(a: Any, b: Any) -> list[str]:
    """The lines that differ, where one of two texts has several; of lists and objects those of their JSON, unless it is short."""
    if isinstance(a, list | dict) and isinstance(b, list | dict):
        if max(len(str(a)), len(str(b))) <= _SHORT:
            return []
        a, b = _in_lines(a), _in_lines(b)
    if not (isinstance(a, str) and isinstance(b, str) and "\n" in a + b):
        return []
    lines = difflib.unified_diff(a.splitlines(), b.splitlines(), lineterm="", n=1)
    return list(lines)[2:]
