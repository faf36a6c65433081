"""What reviewers' verdicts come to: the share that is right, by stratum, and how far reviewers agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from headrace.policy.sampling import Stratum, accepts, cohen, simple, stratified
from headrace.quality.reviews import Review, ReviewStore


def outcome(reviews: Sequence[Review], sizes: Mapping[str, int], level: float | None = None) -> dict[str, Any]:
    """The document of `review --json`. `sizes`: how many items each stratum has. `level`: the most that may be bad, as a share.

    Of an item with several verdicts the first counts, so that an overlap says how reviewers agree and weighs nothing.
    """
    first: dict[int, Review] = {}
    for review in reviews:
        if review.is_good is not None:
            first.setdefault(review.item, review)
    seen = Counter(review.stratum for review in first.values())
    good = Counter(review.stratum for review in first.values() if review.is_good)
    strata = {name: Stratum(max(size, seen[name]), seen[name], good[name]) for name, size in sizes.items()}
    for name in seen.keys() - strata.keys():  # of a kind that the run no longer has
        strata[name] = Stratum(seen[name], seen[name], good[name])
    size = sum(one.size for one in strata.values())
    reviewed, accepted = len(first), sum(good.values())
    estimate = simple(size, reviewed, accepted) if len(strata) <= 1 else stratified(list(strata.values()))
    return {
        "population": size, "reviewed": reviewed, "accepted": accepted,
        "corrected": sum(review.verdict == "correct" for review in first.values()),
        "skipped": sum(review.verdict == "skip" for review in reviews),
        "share": estimate.share, "interval": list(estimate.interval) if reviewed else None,
        "strata": {name: _figures(one) for name, one in sorted(strata.items())},
        "agreement": agreement(reviews),
        "level": None if level is None else {"bad": level, "verdict": accepts(size, reviewed, reviewed - accepted, level)},
    }  # fmt: skip


def _figures(one: Stratum) -> dict[str, Any]:
    return {"size": one.size, "reviewed": one.seen, "accepted": one.good, "share": one.good / one.seen if one.seen else None}


def agreement(reviews: Sequence[Review]) -> list[dict[str, Any]]:
    """Of each two reviewers with items in common: Cohen's kappa, the share on which they agree, and how often each accepts."""
    by_reviewer: dict[str, dict[int, bool]] = {}
    for review in reviews:
        if review.is_good is not None:
            by_reviewer.setdefault(review.reviewer, {})[review.item] = review.is_good
    found = []
    for a, b in combinations(sorted(by_reviewer), 2):
        common = sorted(by_reviewer[a].keys() & by_reviewer[b].keys())
        if not common:
            continue
        table = [[0, 0], [0, 0]]
        for item in common:
            table[not by_reviewer[a][item]][not by_reviewer[b][item]] += 1
        agreed = cohen(table)
        found.append(
            {
                "reviewers": [a, b], "n": agreed.n, "agree": agreed.share, "kappa": agreed.kappa,
                "interval": list(agreed.interval) if agreed.interval is not None else None,
                "accepts": [sum(by_reviewer[one][item] for item in common) / len(common) for one in (a, b)],
            }
        )  # fmt: skip
    return found


def review_of(path: Path, level: float | None = None) -> dict[str, Any] | None:
    """What was reviewed of a run; None where nobody has. Raises LedgerError, DiskError."""
    store = ReviewStore(path, writable=False)
    try:
        reviews = store.all()
        return outcome(reviews, store.sizes(), level) if reviews else None
    finally:
        store.close()
