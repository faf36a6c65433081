"""Some hundred lives out of the ten thousand of `make soak`, and that the faults of `make mutants` still fit the code."""

from __future__ import annotations

import pytest
from soak.chunks import chunk
from soak.faults import ENGINE
from soak.mutations import mutated, text_of
from soak.plans import draw


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 25))
def test_every_promise_holds_in_whatever_life(first: int) -> None:
    failures, _ = chunk(first, 25)
    assert failures == []


def test_an_equal_seed_is_an_equal_life() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


@pytest.mark.parametrize("fault", ENGINE, ids=lambda fault: fault.name)
def test_a_fault_still_finds_its_place(fault) -> None:
    compile(mutated(fault, text_of(fault.module)), fault.module, "exec")
