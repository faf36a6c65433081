"""Whether a run's answers are right, as far as it was measured: rows for the page, lines for a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CLASSES = ["class", "records", "precision", "recall", "F1"]


def eval_rows(evaluation: Mapping[str, Any]) -> list[list[str]]:
    """A row for each class, and one for all together."""
    rows = [
        [str(name), f"{of['n']:,}", *(_share(of[key]) for key in ("precision", "recall", "f1"))]
        for name, of in evaluation["per_class"].items()
    ]
    return [*rows, ["all", f"{evaluation['n_scored']:,}", f"score {_share(evaluation['score'])}", "", ""]]


def eval_words(evaluation: Mapping[str, Any]) -> str:
    """What the score is and what is not in it."""
    return " ".join(_sentences(evaluation))


STRATA = ["kind", "items", "reviewed", "accepted", "share"]


def review_rows(review: Mapping[str, Any]) -> list[list[str]]:
    """A row for each stratum, and one for all together."""
    rows = [
        [name or "all", f"{of['size']:,}", f"{of['reviewed']:,}", f"{of['accepted']:,}", _share(of["share"])]
        for name, of in review["strata"].items()
    ]
    whole = ["all", f"{review['population']:,}", f"{review['reviewed']:,}", f"{review['accepted']:,}", _share(review["share"])]
    return rows if len(rows) == 1 else [*rows, whole]


def review_words(review: Mapping[str, Any]) -> str:
    """The share of right answers, and how far reviewers agree."""
    if review["share"] is None:
        return "Everything that was looked at was skipped."
    low, high = review["interval"]
    words = [f"{review['share']:.1%} of the answers are right (95 %: {low:.1%} to {high:.1%})."]
    for of in review["agreement"]:
        kappa = "" if of["kappa"] is None else f", kappa {of['kappa']:.2f}"
        words.append(f"{of['reviewers'][0]} and {of['reviewers'][1]} agree on {of['agree']:.1%} of {of['n']:,}{kappa}.")
    return " ".join(words)


TESTS = ["what", "p", "p, all tests together", "as much as matters"]


def drift_rows(drift: Mapping[str, Any]) -> list[list[str]]:
    """A row for each test against the last run."""
    return [
        [name, f"{test['p']:.3g}", f"{test['adjusted']:.3g}", "yes" if test["matters"] else "no"]
        for name, test in drift["tests"].items()
    ]


def drift_words(drift: Mapping[str, Any], repeated: Mapping[str, Any] | None) -> str:
    """The verdict, the shift of labels and the flips."""
    words = [f"Against run {drift['runs'][0]}: {drift['verdict']}."]
    shift = drift["labels"]
    if shift is not None:
        words.append(
            f"Labels: Cramér's V {shift['cramers_v']:.3f}, PSI {shift['psi']:.4f} (chance: below {shift['psi_noise']:.4f})."
        )
    if drift["flips"] is not None:
        words.append(f"{drift['flips']:.2%} of {drift['common']:,} common answers are others.")
    return " ".join([*words, *([repeated_words(repeated)] if repeated is not None else [])])


def repeated_words(repeated: Mapping[str, Any]) -> str:
    """How often the configuration flips an answer by itself."""
    if repeated["share"] is None:
        return "Nothing was answered twice."
    low, high = repeated["interval"]
    return (
        f"Asked twice under the same configuration, {repeated['flipped']:,} of {repeated['answered']:,} answers were others "
        f"({repeated['share']:.2%}; 95 %: {low:.2%} to {high:.2%})."
    )


def _sentences(evaluation: Mapping[str, Any]) -> Iterator[str]:
    low, high = evaluation["interval"]
    if evaluation["score"] is None:
        yield "Nothing of the eval set could be scored."
    else:
        yield f"The eval set's score is {evaluation['score']:.3f} (95 %: {low:.3f} to {high:.3f})."
    errors = ", ".join(f"{kind} {count:,}" for kind, count in evaluation["n_error"].items())
    yield f"Of {evaluation['n_total']:,} records {evaluation['n_scored']:,} were scored" + (
        f"; errors: {errors}." if errors else "."
    )
    against = evaluation["baseline"]
    if against is not None:
        difference = "" if against["difference"] is None else f" by {against['difference']:+.3f}"
        yield f"Against run {against['run']}: {against['verdict']}{difference}, on {against['n_common']:,} common records."
    if evaluation["gate"] != "none":
        yield f"The gate: {evaluation['gate']}."


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
