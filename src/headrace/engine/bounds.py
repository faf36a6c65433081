"""What a request may take at most, kept in the ledger as it is learnt: for whoever finds leases that a dead process left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.policy.budget import Bound, Learnt, Most

if TYPE_CHECKING:
    from headrace.engine.committer import Committer
    from headrace.engine.lane import Lane

KEPT = "bound "  # before an endpoint's number: the fact in the ledger


class Kept(Struct, frozen=True):
    """What was learnt of an endpoint, and the number of the configuration under which."""

    config: int
    learnt: Learnt


def keep(lane: Lane, committer: Committer, config: int) -> None:
    """Have the ledger know what this lane's requests reserve, from now on. What an earlier process has kept is overwritten with
    the first lease: it may have asked another model.
    """

    def note() -> None:
        committer.batch.meta[f"{KEPT}{lane.number}"] = msgspec.to_builtins(Kept(config, lane.bound.learnt))

    lane.bound.on_learnt = note
    note()


def kept(meta: Callable[[str], Any], endpoints: Iterable[int], most: Most) -> Callable[[int], tuple[int, int]]:
    """Tokens of prompt and answer that a payload of so many bytes may have taken, by what the process that sent it had learnt.

    Nobody knows at which endpoint: so it is the most at any of them. Untaught where nothing is kept, as by an older release.
    """
    said = [meta(f"{KEPT}{number}") for number in endpoints]
    bounds = [Bound(msgspec.convert(one, Kept).learnt) for one in said if one is not None] or [Bound(most)]

    def of(size: int) -> tuple[int, int]:
        prompts, answers = zip(*(bound.of(size) for bound in bounds), strict=True)
        return max(prompts), max(answers)

    return of


def learnt_before(said: Any, most: Most, is_same: Callable[[int], bool]) -> Learnt | None:
    """What a process begins with that asks an endpoint what it was asked before: what the ledger keeps of it. None: nothing.

    `is_same` says whether a configuration's requests are those of the one that begins. What the server holds of a request is
    told anew: it may have been started with other options since.
    """
    kept = None if said is None else msgspec.convert(said, Kept)
    if kept is None or not is_same(kept.config):
        return None
    learnt = kept.learnt
    return Learnt(min(learnt.beside, most.beside), max(learnt.answer, most.answer), learnt.excess)
