from __future__ import annotations

from typing import Any

import pytest

from headrace.protocols import Batch


def test_a_batch_into_which_nothing_was_put_need_not_be_committed() -> None:
    assert not Batch()


@pytest.mark.parametrize("name", Batch.__slots__)
def test_whatever_was_put_into_a_batch_has_to_be_committed(name: str) -> None:
    batch = Batch()
    content: Any = {"done": True} if name == "meta" else [7]
    setattr(batch, name, content)
    assert batch


def test_two_batches_share_nothing() -> None:
    one, other = Batch(), Batch()
    one.leases.append(1)
    one.meta["done"] = True
    assert not other
