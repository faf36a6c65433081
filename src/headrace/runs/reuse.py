"""`--reuse`: answers of another run, found by unit hash and judged again under the new rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.canon import HASH_BYTES
from headrace.ledger.reader import LedgerReader, as_likeliest, as_text
from headrace.protocols import Judge
from headrace.values import Answer, Attempt, Origin, Outcome, Reply, State, Unit, UnitKind, Usage

_CUT = frozenset({"length", "max_tokens"})


class Reuse:
    """The accepted and judged replies of one other run.

    Holds 16 bytes a unit in memory: prefixes sorted for searching, and their sequence numbers. A hit is verified against
    the full hash. An answer is taken over where one of `answerers` (identity → the ledger's number) gave it and it is accepted
    under the new `[answer]`; one that was cut at max_tokens only where `max_tokens` is the same.
    """

    def __init__(self, ledger: Path, answerers: Mapping[str, int], config: int, *, max_tokens: int | None) -> None:
        self._reader = LedgerReader(ledger)
        self._config = config
        self._answerers = answerers
        self._max_tokens = {
            stored.number: stored.content["model"].get("max_tokens") == max_tokens for stored in self._reader.configs()
        }
        self.taken = 0  # answers of the job itself
        blob = b"".join(self._reader.hashes())
        prefixes = np.frombuffer(blob, dtype=np.uint64)[::2]
        self._order = np.argsort(prefixes, kind="stable").astype(np.uint32)
        self._prefixes = prefixes[self._order]
        self._seqs = np.fromiter((row[0] for row in self._reader.stream("unit_seqs")), dtype=np.int64)

    def outcomes(self, units: Sequence[Unit], judge: Judge) -> list[Outcome]:
        """Outcomes of those units whose answer is there already and stands before the judge."""
        if not units or not len(self._prefixes):
            return []
        wanted = np.frombuffer(b"".join([unit.hash for unit in units]), dtype=np.uint64)[::2]
        first = np.searchsorted(self._prefixes, wanted, "left")
        last = np.searchsorted(self._prefixes, wanted, "right")
        found = []
        for unit, start, end in zip(units, first.tolist(), last.tolist(), strict=True):
            for place in range(start, end):
                outcome = self._take(unit, int(self._seqs[self._order[place]]), judge)
                if outcome is not None:
                    found.append(outcome)
                    break
        self.taken += len(found) if units[0].kind is UnitKind.ASK else 0
        return found

    def _take(self, unit: Unit, seq: int, judge: Judge) -> Outcome | None:
        row = self._reader.one("reusable", (seq,))
        if row is None or row[1] != unit.hash:
            return None
        endpoint = self._answerers.get(row[13])
        if endpoint is None:
            return None
        reply = _reply(row)
        if reply.finish in _CUT and reply.likeliest is None and not self._max_tokens.get(row[14], False):
            return None
        answer = judge.judge(reply)
        if not isinstance(answer, Answer):
            return None
        attempt = Attempt(
            unit=unit.seq, ask=0, started_at=row[12], seconds=row[11], config=self._config, endpoint=endpoint,
            reply=reply, usage=reply.usage, origin=Origin.REUSED,
        )  # fmt: skip
        return Outcome(unit=unit.seq, state=State.DONE, attempt=attempt, answer=answer)

    def close(self) -> None:
        self._reader.close()


def _reply(row: Sequence[Any]) -> Reply:
    return Reply(
        content=as_text(row[2]), finish=as_text(row[3]), reasoning=as_text(row[4]), refusal=as_text(row[5]),
        model=as_text(row[6]), usage=Usage(prompt=row[7], completion=row[8], cached=row[9], reasoning=row[10]),
        likeliest=as_likeliest(row[15]),
    )  # fmt: skip


assert HASH_BYTES == 16
