"""Do too many distinct questions get the same answer? Counts in, one line out."""

from __future__ import annotations

FEWEST = 100  # distinct requests, of fewer nothing is said
SHARE = 0.9  # of the answers that are equal
FEWEST_LABELS = 1000  # of answers out of a given few: there all equal may be right


def alarm(answers: int, equal: int, shown: str, *, are_labels: bool) -> str | None:
    """A warning where `equal` of so many answers to distinct requests are the same one; `shown` is how it begins.

    Where answers are labels, only all of many alike are strange.
    """
    if are_labels:
        is_strange = answers >= FEWEST_LABELS and equal == answers
    else:
        is_strange = answers >= FEWEST and equal >= SHARE * answers
    if not is_strange:
        return None
    return f"identical outputs {equal / answers:.0%}: {equal:,} of {answers:,} distinct requests were answered {shown}"
