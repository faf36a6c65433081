"""Figures, their bars, and the table that shows both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured figure. `holds` is None for what is only shown."""

    what: str
    measured: str
    bar: str = ""
    holds: bool | None = None


def at_most(what: str, value: float, bar: float, unit: str, digits: int = 1) -> Figure:
    return Figure(what, f"{value:.{digits}f} {unit}", f"≤ {bar:g} {unit}", value <= bar)


def at_least(what: str, value: float, bar: float, unit: str = "", digits: int = 1) -> Figure:
    return Figure(what, f"{value:.{digits}f}{unit}", f"≥ {bar:g}{unit}", value >= bar)


def shown(what: str, value: float, unit: str, digits: int = 1) -> Figure:
    return Figure(what, f"{value:.{digits}f} {unit}")


def verdict(figure: Figure) -> str:
    return {True: "holds", False: "MISSED", None: ""}[figure.holds]


def print_table(figures: Iterable[Figure]) -> int:
    """Print the table; returns 1 if a bar was missed, else 0."""
    rows = [("figure", "measured", "bar", "verdict"), *((f.what, f.measured, f.bar, verdict(f)) for f in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return int(any(row[3] == "MISSED" for row in rows))
