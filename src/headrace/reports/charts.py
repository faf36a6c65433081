"""Charts as SVG: what is drawn is a few hundred numbers at most, and nothing in a chart can act or ask for anything."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from headrace.errors import SpecError
from headrace.observe.text import printable

WIDTH, HEIGHT = 640, 180
_LABEL = 40  # characters
# Readable on white and on near black, and told apart by people who do not tell red from green (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f")
_SVG = "{http://www.w3.org/2000/svg}"
_HARMLESS = frozenset(
    {"svg", "g", "path", "text", "rect", "line", "circle", "defs", "clipPath", "linearGradient", "stop", "tspan"}
)
_CONFIG: dict[str, Any] = {
    "font": "system-ui, sans-serif",
    "padding": {"left": 28, "right": 12, "top": 4, "bottom": 4},  # a browser's font may be wider than the one it was drawn with
    "axis": {
        "labelFontSize": 12, "titleFontSize": 12, "labelOverlap": "greedy", "labelSeparation": 6,
        "labelColor": "currentColor", "titleColor": "currentColor", "domainColor": "currentColor", "tickColor": "currentColor",
        "gridColor": "currentColor", "gridOpacity": 0.12, "titleFontWeight": "normal", "titlePadding": 16,
    },
    "legend": {"labelFontSize": 12, "labelColor": "currentColor", "titleColor": "currentColor", "orient": "top", "title": None},
    "range": {"category": list(COLOURS)},
    "view": {"stroke": None},
}  # fmt: skip


def lines(rows: Sequence[dict[str, Any]], x: str, y: str, by: str) -> str:
    """One line for each value of `by`."""
    return _drawn(
        rows,
        {"type": "line", "strokeWidth": 1.8, "interpolate": "step-after" if len(rows) < 60 else "linear"},
        x={"field": x, "type": "quantitative", "title": x, "axis": {"tickCount": 10}, "scale": {"domainMin": 0}},
        y={"field": y, "type": "quantitative", "title": y, "scale": {"zero": True}},
        color={"field": by, "type": "nominal", "sort": None},
    )


def area(rows: Sequence[dict[str, Any]], x: str, y: str) -> str:
    return _drawn(
        rows,
        {"type": "area", "line": True, "opacity": 0.5, "color": COLOURS[0]},
        x={"field": x, "type": "quantitative", "title": x, "axis": {"tickCount": 10}, "scale": {"domainMin": 0}},
        y={"field": y, "type": "quantitative", "title": y, "scale": {"zero": True}},
    )


def stacked(rows: Sequence[dict[str, Any]], x: str, y: str, by: str) -> str:
    """Bars over time, one part for each value of `by`."""
    return _drawn(
        rows,
        {"type": "bar", "width": max(1.5, WIDTH / 140)},
        x={"field": x, "type": "quantitative", "title": x, "axis": {"tickCount": 10}, "scale": {"domainMin": 0}},
        y={"field": y, "type": "quantitative", "title": y, "stack": "zero"},
        color={"field": by, "type": "nominal", "sort": None},
    )


def histogram(bins: Sequence[dict[str, Any]], title: str, *, is_log: bool, what: str) -> str:
    """Rows of `low`, `high` and `count`."""
    scale = {"type": "log", "nice": False} if is_log else {"zero": False, "nice": False}
    return _drawn(
        bins,
        {"type": "bar", "color": COLOURS[0]},
        x={
            "field": "low",
            "type": "quantitative",
            "title": title,
            "scale": scale,
            "axis": {"tickCount": 8, "format": "~g" if is_log else "~s"},
        },
        x2={"field": "high"},
        y={"field": "count", "type": "quantitative", "title": what},
        y2={"datum": 0},
    )


def bars(rows: Sequence[dict[str, Any]], name: str, value: str) -> str:
    """A bar for each row, in their order, its name beside it."""
    shown = [{**row, name: printable(str(row[name]), _LABEL)} for row in rows]
    return _drawn(
        shown,
        {"type": "bar", "color": COLOURS[0]},
        height=max(40, 18 * len(rows)),
        y={"field": name, "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 260}},
        x={"field": value, "type": "quantitative", "title": value},
    )


def _drawn(rows: Sequence[dict[str, Any]], mark: dict[str, Any], height: int = HEIGHT, **encoding: Any) -> str:
    try:
        import vl_convert  # noqa: PLC0415  30 MB, of an extra
    except ImportError as error:
        raise SpecError(
            "report: charts need vl-convert-python: pip install '.[report]'", key="report", allowed="that package"
        ) from error
    chart = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "width": WIDTH, "height": height, "background": None,
        "data": {"values": list(rows)}, "mark": mark, "encoding": encoding, "config": _CONFIG,
    }  # fmt: skip
    return harmless(vl_convert.vegalite_to_svg(chart))


def harmless(svg: str) -> str:
    """The same drawing, as wide as the page lets it be. Raises ValueError for one that holds more than shapes and text."""
    root = ET.fromstring(svg)  # noqa: S314  drawn here, without a document type
    for element in root.iter():
        if element.tag.removeprefix(_SVG) not in _HARMLESS:
            raise ValueError(f"a chart holds <{element.tag}>")
        for name in element.attrib:
            if name.lower().startswith("on") or name.endswith("href"):
                raise ValueError(f"a chart's <{element.tag}> has {name}")
    # Screen readers are given the table; what Vega says of each mark would be read out number by number.
    cleaned = re.sub(r' aria-[a-z]+="[^"]*"| role="[^"]*"', "", svg)
    return re.sub(r'(<svg[^>]*?) width="[0-9.]+" height="[0-9.]+"', r'\1 aria-hidden="true"', cleaned, count=1)
