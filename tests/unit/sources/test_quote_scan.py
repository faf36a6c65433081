from __future__ import annotations

import csv
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headrace.sources.csv import QuoteScan

# What the csv module reads of a text is its first row; whether it asked for a second line says what it thought of the first.
TEXTS = st.lists(st.sampled_from(['"', '""', ",", "a", "é", " "]), max_size=12).map("".join)


def csv_goes_on(line: str) -> bool:
    asked = []

    def lines() -> Iterator[str]:
        yield line + "\n"
        asked.append(True)

    next(csv.reader(lines()), None)
    return bool(asked)


@given(TEXTS, st.integers(1, 5))
def test_a_row_goes_on_exactly_when_the_csv_module_thinks_so(line: str, step: int) -> None:
    scan = QuoteScan(",")
    data = line.encode()
    for start in range(0, len(data), step):
        scan.feed(data[start : start + step])
    assert scan.open == csv_goes_on(line)
