"""Which of a job's limits its rest would meet, in lines for people."""

from __future__ import annotations

import math

from headrace.ledger.reader import LedgerReader
from headrace.policy.budget import Most, Spent, shown
from headrace.runs.expense import Cost, Sent
from headrace.runs.lifecycle import Choice, Way
from headrace.runs.spending import spent_of
from headrace.spec import LimitsSpec


def limits_met(limits: LimitsSpec, choice: Choice, sent: Sent, cost: Cost) -> list[str]:
    """A line for each limit that stops the run before its end, or may. What is not known meets none. Raises LedgerError."""
    if not sent.load.requests or (limits.max_cost, limits.max_total_tokens, limits.max_requests) == (None, None, None):
        return []
    before = _spent(choice)
    answers = sent.answers
    high = math.inf if answers.high is None else sent.prompt.high + answers.high
    dearest = 0.0 if cost.low is None else math.inf if cost.high is None else cost.high
    found = (
        _line("max_cost", limits.max_cost, before.at_most, (cost.low or 0.0, dearest)),
        _line("max_total_tokens", limits.max_total_tokens, before.tokens, (sent.prompt.low + (answers.low or 0.0), high)),
        _line("max_requests", limits.max_requests, float(before.requests), (float(sent.fewest), float(sent.most))),
    )
    return [line for line in found if line is not None]


def _line(name: str, limit: float | None, spent: float, needed: tuple[float, float]) -> str | None:
    if limit is None or spent + needed[1] <= limit:
        return None
    used = f", of which {shown(spent, name)} are spent" if spent else ""
    low, high = needed
    whole = f"what is left takes {shown(low, name)}" + ("" if low == high else " or more")
    if spent + low > limit:
        return f"limits.{name} = {shown(limit, name)}{used}: the run stops there before its end, and {whole}."
    up_to = "with no bound" if math.isinf(high) else f"up to {shown(high, name)}"
    return f"limits.{name} = {shown(limit, name)}{used}: the run may stop there before its end, as {whole}, {up_to}."


def _spent(choice: Choice) -> Spent:
    if choice.way is Way.NEW or choice.folder is None:
        return Spent()
    reader = LedgerReader(choice.folder.ledger)
    try:
        return spent_of(reader, Most())
    finally:
        reader.close()
