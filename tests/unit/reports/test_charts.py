"""Charts hold shapes and text, whatever the names in them are."""

from __future__ import annotations

import re

import pytest

from headrace.reports import charts

HOSTILE = "</text><script>alert(1)</script>&\" onload='x'\x1b[2J"


def marks(svg: str) -> int:
    return len(re.findall(r'<path[^>]* d="M', svg))


def test_a_bar_for_each_row_and_its_name_beside_it() -> None:
    rows = [{"label": name, "records": 3} for name in ("red", "green", HOSTILE)]
    svg = charts.bars(rows, "label", "records")
    assert marks(svg) >= 3
    assert ">red</text>" in svg
    assert "<script" not in svg
    assert "onload='x'" not in re.sub(r">[^<]*<", "><", svg)
    assert "\x1b" not in svg
    assert re.match(r'<svg[^>]* viewBox="', svg)
    assert not re.match(r'<svg[^>]* width="', svg)


def test_bars_of_a_histogram_stand_on_the_axis() -> None:
    svg = charts.histogram([{"low": 1, "high": 2, "count": 5}, {"low": 2, "high": 4, "count": 9}], "s", is_log=True, what="n")
    heights = [float(height) for height in re.findall(r'd="M[^"]*?v([0-9.]+)h', svg)]
    assert max(heights) > charts.HEIGHT / 2


def test_lines_areas_and_stacks_are_drawn() -> None:
    rows = [{"x": n, "y": n * n % 7, "k": "ab"[n % 2]} for n in range(10)]
    for svg in (charts.lines(rows, "x", "y", "k"), charts.area(rows, "x", "y"), charts.stacked(rows, "x", "y", "k")):
        assert marks(svg) > 1
        assert "currentColor" in svg


@pytest.mark.parametrize(
    "inner",
    [
        "<script>1</script>", "<foreignObject/>", "<image/>", "<style>*{}</style>", "<g onclick='1'/>", "<a/>",
        "<text href='x'>t</text>", '<g xmlns:x="http://www.w3.org/1999/xlink" x:href="http://elsewhere.invalid"/>',
    ],
)  # fmt: skip
def test_a_drawing_that_could_act_or_fetch_is_no_chart(inner: str) -> None:
    with pytest.raises(ValueError, match="a chart"):
        charts.harmless(f'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1">{inner}</svg>')
