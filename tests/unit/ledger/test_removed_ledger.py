"""A ledger that is removed under a working run stops it at the next commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import DiskError
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_committed_into_a_file_that_was_removed(tmp_path: Path, *, replaced: bool) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    batch = Batch()
    batch.meta = {"fact": 1}
    ledger.commit(batch)
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    if replaced:
        (tmp_path / "ledger.db").touch()
    with pytest.raises(DiskError, match="removed or replaced"):
        ledger.commit(batch)
    ledger.close()
