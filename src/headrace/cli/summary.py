"""A status document in words: where a run stands, and how one ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.cli.printing import facts
from headrace.observe.wording import duration
from headrace.policy.amounts import counted, money

_LATER = {4, 5, 7, 130, 143}


def status_lines(status: Mapping[str, Any]) -> list[str]:
    """The whole of a status document, compact."""
    items, requests, tokens, cost = status["items"], status["requests"], status["tokens"], status["cost"]
    rate, latency, concurrency = status["rate"], status["latency_s"], status["concurrency"]
    slices = status.get("slices") or {}
    code = f", exit code {status['exit_code']}" if status["exit_code"] is not None else ""
    reason = f" ({status['reason']})" if status["reason"] else ""
    message = [("", str(status["message"]))] if status.get("message") else []
    rows = [
        ("run", f"{status['run']}  {status['name'] or ''}".rstrip()),
        ("state", f"{status['state']}{reason}{code}"),
        *message,
        ("items", item_counts(items) + ("" if status["input_complete"] else " (the input is not read to its end)")),
        ("cut", f"{slices.get('cut', 0):,} of the records, to slice.truncate"),
        ("pieces", _pieces(slices)),
        (
            "requests",
            f"{requests['sent']:,} sent, {counted(requests['retries'], 'retry', 'retries')}{_by_kind(requests['by_kind'])}",
        ),
        ("reused", f"{counted(requests.get('reused', 0), 'answer')} taken over from another run"),
        ("saved", f"{counted(status['units']['duplicates_saved'], 'equal request')} asked once"),
        ("tokens", _tokens(tokens)),
        ("cost", cost_words(cost)),
        (
            "rate",
            f"{rate['items_per_minute']:,.0f} items/min, {rate['retry_rate']:.1%} retried, {rate['failure_rate']:.1%} failed",
        ),
        ("latency", ", ".join(f"{name} {_number(latency[name])} s" for name in ("p50", "p95", "p99", "max"))),
        *_split(status.get("latency_split_s") or {}),
        *_right(status.get("quality") or {}),
        ("in flight", _in_flight(concurrency)),
        ("oldest", _oldest(status.get("in_flight") or {})),
    ]
    unsaid = {
        "latency": not any(latency.values()),
        "saved": not status["units"]["duplicates_saved"],
        "cut": not slices.get("cut"),
        "pieces": not slices.get("divided"),
        "reused": not requests.get("reused"),
        "oldest": not (status.get("in_flight") or {}).get("oldest_s"),
    }
    rows = [row for row in rows if not unsaid.get(row[0])]
    return facts(rows) + [f"advice: {line}" for line in status["advice"]]


def item_counts(items: Mapping[str, int]) -> str:
    """`980 of 1,000 done, 15 failed, 5 pending`: what is nothing is not mentioned."""
    rest = [f"{items[name]:,} {name}" for name in ("failed", "quarantined", "rejected", "pending") if items[name]]
    return ", ".join([f"{items['done']:,} of {items['total']:,} done", *rest])


def _pieces(slices: Mapping[str, int]) -> str:
    """`10, of 1 divided item and all others; 1 request joins their answers`."""
    divided, joins = slices.get("divided", 0), slices.get("joins", 0)
    words = f"{slices.get('pieces', 0):,}, of {counted(divided, 'divided item')} and all others"
    return words + (f"; {joins:,} {'request joins' if joins == 1 else 'requests join'} their answers" if joins else "")


def cost_words(cost: Mapping[str, Any]) -> str:
    """`0.0412 USD, 0.0010 of it wasted`; `at least` where a part is not known, `unknown` where nothing is."""
    spent, currency, most = cost["spent"], cost["currency"], cost.get("at_most")
    if not cost["known"] and not spent and not most:
        return "unknown"
    words = f"{'' if cost['known'] else 'at least '}{money(spent)} {currency}"
    if cost.get("wasted"):
        words += f", {money(cost['wasted'])} of it wasted"
    if not cost["known"] and most is not None:
        words += f"; at most {money(most)} {currency} with what is not known"
    return words


def ending_lines(status: Mapping[str, Any], output: str | None, exit_code: int) -> list[str]:
    """How a command's run ended, in a few lines."""
    items = status["items"]
    lines = [f"{status['name'] or 'the run'}: {status['state']}, {item_counts(items)} (run {status['run']})"]
    if output is not None:
        is_empty = exit_code in _LATER and items["total"] == items["pending"]
        lines.append("output: none, as nothing is finished" if is_empty else f"output: {output}")
    tokens = status.get("tokens")  # a document may hold no more than the caller knew
    if tokens and (tokens["wasted"] or tokens["unknown_requests"]):
        lines.append(f"tokens: {_tokens(tokens)}")
    if status["cost"]["spent"] or status["cost"].get("at_most"):
        lines.append(f"cost: {cost_words(status['cost'])}")
    if items["failed"] or items["quarantined"]:
        lines.append("`headrace failures` shows why; `headrace retry` sends those again")
    elif items["rejected"]:
        lines.append("`headrace failures` shows why")
    if exit_code in _LATER:
        lines.append("the same command goes on where this stopped")
    if exit_code == 7 and items["done"]:
        lines.append("`headrace export --to FILE` writes the answers so far")
    return lines


def _split(parts: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    words = [f"{name} {_number(of['p50'])} s (p95 {_number(of['p95'])} s)" for name, of in parts.items()]
    return [("of it", ", ".join(words))] if words else []


def _right(quality: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whether the answers are right, as far as it was measured; nothing where nobody has."""
    rows = []
    evaluation, repeated, drift = quality.get("eval"), quality.get("repeat"), quality.get("drift")
    if evaluation is not None:
        score = "nothing scored" if evaluation["score"] is None else f"score {evaluation['score']:.4g}"
        gate = "" if evaluation["gate"] == "none" else f"; gate {evaluation['gate']}"
        rows.append(("eval set", f"{score}, {evaluation['n_scored']:,} of {evaluation['n_total']:,} scored{gate}"))
    if quality.get("reviewed"):
        low, high = quality["interval"]
        rows.append(("reviewed", f"{quality['reviewed']:,}, {quality['accepted']:,} accepted (95 %: {low:.1%} to {high:.1%})"))
    if repeated is not None and repeated["share"] is not None:
        rows.append(("asked twice", f"{repeated['flipped']:,} of {counted(repeated['answered'], 'answer')} differ"))
    if drift is not None:
        rows.append(("drift", f"{drift['verdict']}, against run {drift['runs'][0]}"))
    return rows


def _requests(requests: Mapping[str, Any]) -> str:
    return f"{requests['sent']:,} sent, {counted(requests['retries'], 'retry', 'retries')}{_by_kind(requests['by_kind'])}"


def _by_kind(by_kind: Mapping[str, int]) -> str:
    badly = ", ".join(f"{kind} {count:,}" for kind, count in by_kind.items() if count)
    return f"; ended badly: {badly}" if badly else ""


def _tokens(tokens: Mapping[str, int]) -> str:
    parts = [f"{tokens['prompt']:,} prompt", f"{tokens['completion']:,} completion"]
    parts += [f"{tokens[name]:,} {name}" for name in ("cached", "wasted") if tokens[name]]
    if tokens["unknown_requests"]:
        parts.append(f"and {counted(tokens['unknown_requests'], 'request')} whose use is unknown")
    return ", ".join(parts)


def _in_flight(concurrency: Mapping[str, Any]) -> str:
    bound = f", bound by {concurrency['bound_by']}" if concurrency["bound_by"] else ""
    return f"{concurrency['now']:,} now, {_number(concurrency['mean'])} mean, {concurrency['max']:,} at most{bound}"


def _oldest(in_flight: Mapping[str, Any]) -> str:
    item = in_flight.get("oldest_item")
    return (
        f"{'a request of the run itself' if item is None else f'item {item}'}, for {duration(in_flight.get('oldest_s') or 0.0)}"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
