"""`headrace estimate`, and `headrace run --dry-run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.parameters import Json, Overrides
from headrace.cli.printing import columns, facts, notes, print_json, print_lines
from headrace.observe.text import printable
from headrace.observe.wording import duration
from headrace.policy.amounts import counted, money

if TYPE_CHECKING:
    from headrace.runs.estimate import Estimate
    from headrace.runs.expectation import Between
    from headrace.runs.expense import Cost
    from headrace.runs.job import Job
    from headrace.runs.pipeline import RunOptions
    from headrace.runs.rehearsal import Group

TokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", metavar="PATH|NAME",
        help="Count exactly: a tokenizer.json or its folder, a .gguf, or cl100k_base, o200k_base, o200k_harmony or qwen3.5.",
    ),
]  # fmt: skip
_MESSAGE = 80
_EXAMPLE = 40


def estimate(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file: TOML, or YAML by its suffix.")],
    overrides: Overrides = None,
    tokenizer: TokenizerOption = None,
    json: Json = False,
) -> None:
    """Say what a job would send, take and cost: reads the input, asks nobody and writes nothing."""
    from headrace.runs.jobfile import load_job  # noqa: PLC0415 (help and completion do not pay for it)

    rehearse(load_job(job, overrides or ()), None, tokenizer=tokenizer, json=json)


def rehearse(job: Job, options: RunOptions | None, *, tokenizer: str | None = None, json: bool) -> None:
    """Estimate, and print."""
    from headrace.runs.estimate import document, estimate  # noqa: PLC0415 (as above)
    from headrace.runs.exact import counter_of  # noqa: PLC0415 (as above)

    with counter_of(tokenizer) as counter:
        found = estimate(job, options, counter)
    if json:
        print_json(document(found))
    else:
        _print(found)


def _print(found: Estimate) -> None:
    print_lines(facts(_rows(found)))
    if found.rejects:
        print_lines(["", *columns([("rejected", "kind", "such as", "reason"), *map(_reject, found.rejects)])])
    print_lines(notes(found.notes))


def _reject(group: Group) -> tuple[str, str, str, str]:
    """The reason stands last: it may be longer than the terminal is wide."""
    return (
        f"{group.count:,}".rjust(len("rejected")),
        group.kind,
        printable(str(group.example), _EXAMPLE),
        printable(group.message, _MESSAGE),
    )


def _rows(found: Estimate) -> list[tuple[str, str]]:
    excluded = f", {found.excluded:,} more left out by input.where" if found.excluded else ""
    rejected = f", {found.rejected:,} of them rejected" if found.rejected else ""
    ones = "one is" if found.duplicates == 1 else "ones are"
    rows = [
        ("items", f"{found.items:,}{rejected}{excluded}"),
        ("units", f"{found.units:,}" + (f": {found.duplicates:,} equal {ones} asked once" if found.duplicates else "")),
    ]
    if found.pieces > found.items - found.rejected:
        rows.append(("pieces", f"{found.pieces:,}, as long texts are divided"))
    if found.continues is not None and found.settled >= found.units:
        rows.append(("run", f"{found.continues} has settled all of them"))
    elif found.continues is not None:
        rows.append(("run", f"{found.continues} goes on: {found.settled:,} units are settled, {found.requests:,} are left"))
    if found.reused:
        rows.append(("reused", f"{counted(found.reused, 'answer')} taken over from another run"))
    rows.append(("requests", f"{found.requests:,}" + ("" if found.requests else ": nothing is to be sent")))
    if not found.requests:
        return rows
    prompt = found.prompt
    rows += [
        ("prompts", f"{_between(prompt.low, prompt.expected, prompt.high)} tokens, by {found.prompt_known_by}"),
        ("longest", f"{found.longest:,.0f} tokens"),
        ("answers", _answers(found)),
        ("cost", _cost(found.cost)),
        ("time", _time(found.seconds, found.seconds_known_by)),
    ]
    return rows + _cache(found)


def _between(low: float | None, expected: float | None, high: float | None) -> str:
    ends = [f"{low:,.0f}" if low is not None else "?", f"{high:,.0f}" if high is not None else "no limit"]
    if expected is None:
        return " to ".join(ends)
    return f"{expected:,.0f} ({' to '.join(ends)})" if ends[0] != ends[1] else f"{expected:,.0f}"


def _answers(found: Estimate) -> str:
    answers = found.answers
    if answers.high is None and answers.expected is None:
        return "unknown: model.max_tokens is not set, and no run of this job has answers"
    return f"{_between(answers.low, answers.expected, answers.high)} tokens, by {found.answers_known_by}"


def _cost(cost: Cost) -> str:
    if cost.low is None:
        return f"unknown: {printable(cost.why or '')}"
    if cost.high is None:
        return f"{money(cost.low)} USD or more: {printable(cost.why or '')}"
    return f"{money(cost.low)} to {money(cost.high)} USD"


def _time(seconds: Between, known_by: str) -> str:
    if seconds.low is None:
        return "unknown: no run of this job has answers, and no endpoint names a limit"
    high = "" if seconds.high is None else f" to {duration(seconds.high)}"
    low = duration(seconds.low)
    span = low if high == f" to {low}" else f"{low}{high}" if high else f"{low} or more"
    return f"{span}, by {known_by}"


def _cache(found: Estimate) -> list[tuple[str, str]]:
    """What a prefix cache could serve, where that is worth a line."""
    savings, worth = found.savings, found.prompt.expected / 100
    rows = []
    if savings.common > worth:
        rows.append(("cache", f"all prompts begin alike: a prefix cache serves {savings.common:,} of their tokens in any order"))
    more = savings.prefix_order - savings.input_order
    if more > worth:
        rows.append(("order", f"{more:,} more are served where prompts that begin alike stand together (order prefix or auto)"))
    if savings.moved > worth:
        rows.append(("template", f"{savings.moved:,} more would be, if its text that follows the record's stood before it"))
    return rows
