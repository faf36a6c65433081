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
