"""How values become the bins of a histogram."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.reports.figures import BINS, _bins


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200))
def test_every_whole_number_is_in_one_bin(values: list[int]) -> None:
    bins = _bins(np.array(values, np.float32), is_log=False)
    assert len(bins) <= BINS + 1
    assert sum(one.count for one in bins) == len(values)
    assert bins[0].low <= min(values)


@given(st.lists(st.floats(0, 1e5, allow_nan=False), min_size=1, max_size=200))
def test_every_time_is_in_one_bin(values: list[float]) -> None:
    bins = _bins(np.array(values, np.float64), is_log=True)
    assert len(bins) == BINS
    assert sum(one.count for one in bins) == len(values)
    assert all(a.high == b.low for a, b in itertools.pairwise(bins))


def test_of_nothing_there_are_no_bins() -> None:
    assert _bins(np.empty(0), is_log=True) == []
