"""Prometheus text: the few series of a large page that are asked for, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_LABEL = re.compile(rb'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_LARGEST = 1e15  # above it no count is meant


class Series(Struct, frozen=True):
    """One sample: its labels and its value, which is finite and not negative."""

    labels: dict[str, str]
    value: float


def read_series(page: bytes, names: Sequence[str]) -> dict[str, list[Series]]:
    """The series with these names, by name. What cannot be read is left out, also NaN, infinities and negative values."""
    wanted = {name.encode(): name for name in names}
    beginnings = tuple(wanted)
    found: dict[str, list[Series]] = {}
    # Nearly every line is somebody else's: they are told by their beginnings, without looking into them.
    for line in [line for line in page.split(b"\n") if line.startswith(beginnings)]:
        head, brace, rest = line.rpartition(b"}")
        raw_name, _, raw_labels = head.partition(b"{") if brace else (line.split(b" ", 1)[0].split(b"\t", 1)[0], b"", b"")
        name = wanted.get(raw_name.strip())
        if name is None:
            continue
        value = _value(rest if brace else line[len(raw_name) :])
        if value is not None:
            found.setdefault(name, []).append(Series(_labels(raw_labels), value))
    return found


def _value(text: bytes) -> float | None:
    try:
        value = float(text.split(None, 1)[0])
    except (ValueError, IndexError):
        return None
    return value if 0.0 <= value < _LARGEST else None


def _labels(raw: bytes) -> dict[str, str]:
    return {key.decode(): value.decode("utf-8", "replace") for key, value in _LABEL.findall(raw)}
