"""Paired comparisons against known values, and what the verdicts promise over many seeds."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy")

from headrace.policy import regression
from headrace.policy.regression import mcnemar, mid_p_worse, needed, paired_binary, paired_graded, verdict

# (lost, gained): exact p, mid-p; computed with scipy and statsmodels.
MCNEMAR = [
    (15, 5, 0.04138947, 0.02660370),
    (10, 2, 0.03857422, 0.02246094),
    (6, 0, 0.03125, 0.015625),
    (25, 10, 0.01667385, 0.01133098),
    (40, 22, 0.03001586, 0.02257497),
    (1, 0, 1.0, 0.5),
]


def scores(lost: int, gained: int, n: int) -> tuple[list[float], list[float]]:
    equal = n - lost - gained
    return [1.0] * lost + [0.0] * gained + [1.0] * equal, [0.0] * lost + [1.0] * gained + [1.0] * equal


@pytest.mark.parametrize(("lost", "gained", "exact", "mid"), MCNEMAR)
def test_mcnemar(lost: int, gained: int, exact: float, mid: float) -> None:
    assert mcnemar(lost, gained) == pytest.approx(exact, abs=1e-8)
    assert mcnemar(gained, lost) == pytest.approx(exact, abs=1e-8)
    assert 2 * mid_p_worse(lost, gained) == pytest.approx(mid, abs=1e-8)


def test_nothing_discordant_says_nothing() -> None:
    assert (mcnemar(0, 0), mid_p_worse(0, 0)) == (1.0, 1.0)
    assert mcnemar(3, 3) == 1.0
    assert mcnemar(18, 12) == pytest.approx(0.36159461, abs=1e-8)
    found = paired_binary([1.0] * 50, [1.0] * 50)
    assert (found.difference, found.spread, needed(found, 0.02)) == (0.0, 0.0, None)


def test_the_difference_of_paired_shares() -> None:
    found = paired_binary(*scores(15, 5, 200))
    assert found.difference == -0.05
    assert found.interval == pytest.approx((-0.093442, -0.005568), abs=1e-6)
    assert found.p == pytest.approx(0.04138947, abs=1e-8)
    assert verdict(found, 0.02) == "worse"


def test_a_margin_is_what_the_lower_bound_is_held_against() -> None:
    found = paired_binary(*scores(18, 12, 500))
    assert found.difference == pytest.approx(-0.012)
    assert found.lower == pytest.approx(-0.0299, abs=4e-4)
    assert verdict(found, 0.04) == "ok"
    assert verdict(found, 0.02) == "not enough to tell"
    wanted = needed(found, 0.02)
    assert wanted is not None
    assert wanted > 500


def test_fewer_than_six_changed_answers_are_never_worse() -> None:
    for lost in range(6):
        assert verdict(paired_binary(*scores(lost, 0, 40)), 0.001) != "worse"
    assert verdict(paired_binary(*scores(6, 0, 40)), 0.001) == "worse"


def test_the_bootstrap_agrees_with_known_values() -> None:
    old, new = scores(15, 5, 200)
    found = paired_graded(old, new)
    assert found.difference == pytest.approx(-0.05)
    assert found.interval == pytest.approx((-0.095, -0.01), abs=0.005)
    assert found.p == pytest.approx(0.026, abs=0.012)
    assert verdict(found, 0.02) == "worse"


def test_groups_are_drawn_whole() -> None:
    # Four documents of five: 11111 00000 11110 10000; the clustered error is 0.206155, the naive one 0.111803.
    new = [1.0] * 5 + [0.0] * 5 + [1.0] * 4 + [0.0] + [1.0] + [0.0] * 4
    old = [0.0] * 20
    groups = [n // 5 for n in range(20)]
    grouped, alone = paired_graded(old, new, groups), paired_graded(old, new)
    width = grouped.interval[1] - grouped.interval[0]
    assert width > 1.5 * (alone.interval[1] - alone.interval[0])
    sums, counts = regression._by_group(np.asarray(new), groups)
    assert regression._clustered_error(sums, counts) == pytest.approx(0.206155, abs=1e-6)
    assert regression._clustered_error(*regression._by_group(np.asarray(new), None)) == pytest.approx(0.111803, abs=1e-6)


def test_many_items_are_drawn_from_the_normal() -> None:
    rng = np.random.default_rng(1)
    old = rng.random(3000)
    found = paired_graded(old.tolist(), np.clip(old - 0.02 + rng.normal(0, 0.1, 3000), 0, 1).tolist())
    assert found.interval[0] < found.difference < found.interval[1] < 0
    assert verdict(found, 0.05) == "worse"
    assert paired_graded([0.5], [0.5]).spread == 0.0


def test_what_is_needed_to_tell() -> None:
    found = paired_binary(*scores(30, 30, 600))
    wanted = needed(found, 0.01)
    assert wanted == pytest.approx((1.6448536 + 0.8416212) ** 2 * 0.1 / 0.01**2, rel=1e-3)
    better = paired_binary(*scores(5, 35, 600))
    assert needed(better, 0.0) is not None
    assert needed(paired_binary(*scores(1, 1, 9)), 0.0) is None


def test_scores_of_different_items_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same items"):
        paired_binary([1.0], [])
    with pytest.raises(ValueError, match="same items"):
        paired_graded([], [])


def refused(gain: float, discordance: float, seeds: int, n: int = 500) -> float:
    """How often a model whose accuracy differs so is called worse."""
    lost_share, gained_share = (discordance - gain) / 2, (discordance + gain) / 2
    rng = np.random.default_rng(7)
    draws = rng.multinomial(n, [lost_share, gained_share, 1 - lost_share - gained_share], size=seeds)
    return sum(verdict(paired_binary(*scores(int(lost), int(gained), n)), 0.02) == "worse" for lost, gained, _ in draws) / seeds


@pytest.mark.parametrize("discordance", [0.06, 0.10, 0.15])
def test_a_model_that_is_five_points_worse_is_refused_and_an_equal_one_is_not(discordance: float) -> None:
    assert refused(-0.05, discordance, 1000) >= 0.80
    assert refused(0.0, discordance, 1000) <= 0.04
