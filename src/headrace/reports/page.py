"""`headrace report`: one page about a run that needs no network, no script and no other file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from headrace import __version__, canon
from headrace.errors import OutputError, SpecError
from headrace.ledger.reader import LedgerReader
from headrace.observe.text import printable
from headrace.policy.amounts import counted, money
from headrace.quality.spotcheck import review_of
from headrace.reports import charts
from headrace.reports.changes import settings_of
from headrace.reports.figures import Bin, PageFigures, Slow, read_figures
from headrace.reports.rightness import (
    CLASSES,
    STRATA,
    TESTS,
    drift_rows,
    drift_words,
    eval_rows,
    eval_words,
    repeated_words,
    review_rows,
    review_words,
)
from headrace.runs.drifting import DRIFT
from headrace.runs.evaluating import EVALUATION
from headrace.runs.failures import failures
from headrace.runs.registry import RunFolder
from headrace.runs.repeating import REPEATED
from headrace.runs.status import status

_PAGE = b"<!doctype html"
_CELL = 200
_GROUPS = 20
_PROMPT = 20_000
_PROMPTS = ("prompt.system", "prompt.user", "prompt.prompt", "prompt.messages")
_FEW_MINUTES = 3.0  # a shorter run is drawn over seconds
_NUMBER = re.compile(r"(score )?[-+]?[0-9][0-9,.]*(e[-+]?[0-9]+)?( ?[%sx])?|unknown|-|")


class Part(Struct, frozen=True):
    """One figure of the page: a drawing where there is one, and its numbers."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    text: str = ""
    svg: Markup = Markup("")

    @property
    def numeric(self) -> list[bool]:
        """Of each column, whether it holds numbers: they stand right, and are never broken."""
        return [all(_NUMBER.fullmatch(cell) for cell in column) for column in zip(*self.rows, strict=True)]


class Clock(NamedTuple):
    """How the page counts time."""

    unit: str
    per_minute: float

    @property
    def title(self) -> str:
        return f"{self.unit}s in which it was sending"

    def shown(self, minute: float) -> float:
        return round(minute * self.per_minute, 3)


def write_report(run: RunFolder, to: Path) -> int:
    """Write the page; returns its bytes. Reads only, also while the run goes on. Replaces pages alone.

    Raises LedgerError, OutputError, SpecError.
    """
    if to.is_file() and to.stat().st_size and not _is_page(to):
        raise SpecError(f"--to: {to} is there and is no page; choose another path.", key="--to", allowed="a new file, or a page")
    content = report(run).encode("utf-8", "backslashreplace")
    try:
        to.write_bytes(content)
    except OSError as error:
        raise OutputError(f"--to: {to}: cannot be written ({error.strerror}).") from error
    return len(content)


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PAGE)).lower() == _PAGE
    except OSError:
        return False


def report(run: RunFolder) -> str:
    """The page. Every value of others is escaped; nothing in it can act or be fetched."""
    reader = LedgerReader(run.ledger)
    try:
        reader.snapshot()
        settings = settings_of(run, reader)
        figures = read_figures(reader)
        right = [_right(reader.meta(EVALUATION)), _drift(reader.meta(DRIFT), reader.meta(REPEATED))]
        right.insert(1, _review(review_of(run.path)))
    finally:
        reader.close()
    document = status(run.path)
    prompts = [(key, _text(settings.pop(key), _PROMPT)) for key in _PROMPTS if settings.get(key) is not None]
    settings.pop("input.records", None)
    page: str = _template().render(
        status=document,
        version=__version__,
        tiles=_tiles(document),
        parts=[part for part in [*right, *_parts(document, figures, failures(run.path)["groups"])] if part.rows],
        prompts=prompts,
        settings=[(key, _text(value)) for key, value in settings.items() if value not in (None, {}, [])],
    )
    return page


@cache
def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(files("headrace.reports").joinpath("page.html").read_text("utf-8"))


def _tiles(status: dict[str, Any]) -> list[tuple[str, str]]:
    items, tokens, cost = status["items"], status["tokens"], status["cost"]
    left = [f"{items[name]:,} {name}" for name in ("failed", "quarantined", "rejected", "pending") if items[name]]
    spent = f"{money(cost['spent'])} {cost['currency']}"
    known = spent if cost["known"] else f"at least {spent}" if cost["spent"] else "unknown"
    return [
        (f"of {items['total']:,} records done", f"{items['done']:,}"),
        *((("not done", ", ".join(left)),) if left else ()),
        ("records a minute", f"{status['rate']['items_per_minute']:,.0f}"),
        (f"requests, {counted(status['requests']['retries'], 'retry', 'retries')} among them", f"{status['requests']['sent']:,}"),
        ("tokens, prompts and answers", f"{tokens['prompt'] + tokens['completion']:,}"),
        ("cost", known),
        ("seconds, half of the answers took less", f"{status['latency_s']['p50']:.3g}"),
        ("in flight on average", f"{status['concurrency']['mean']:.1f}"),
    ]


def _parts(status: dict[str, Any], figures: PageFigures, groups: list[dict[str, Any]]) -> list[Part]:
    return [
        _throughput(figures),
        _in_flight(status, figures),
        _latency(status, figures),
        _slowest(figures.slowest),
        _bad(figures),
        _groups(groups[:_GROUPS]),
        _contexts(status, figures),
        _tokens(status),
        _answers(figures),
    ]


def _right(evaluation: dict[str, Any] | None) -> Part:
    if evaluation is None:
        return Part("", [], [])
    rows = [[_text(cell) for cell in row] for row in eval_rows(evaluation)]
    return Part("Is it right? The eval set", CLASSES, rows, text=printable(eval_words(evaluation), _PROMPT))


def _review(review: dict[str, Any] | None) -> Part:
    if review is None:
        return Part("", [], [])
    rows = [[_text(cell) for cell in row] for row in review_rows(review)]
    return Part("Is it right? The spot check", STRATA, rows, text=printable(review_words(review), _PROMPT))


def _drift(drift: dict[str, Any] | None, repeated: dict[str, Any] | None) -> Part:
    if drift is None:
        rows = [] if repeated is None else [[str(repeated["answered"]), str(repeated["flipped"])]]
        return Part("Asked twice", ["answers", "others"], rows, text=repeated_words(repeated) if repeated is not None else "")
    text = printable(drift_words(drift, repeated), _PROMPT)
    return Part("Do the answers differ from the last run's?", TESTS, drift_rows(drift), text=text)


def _slowest(slowest: list[Slow]) -> Part:
    return Part(
        "Slowest answers",
        ["record", "seconds", "prompt tokens", "answer tokens"],
        [[_text(one.item), f"{one.seconds:.2f}", _count(one.prompt_tokens), _count(one.completion_tokens)] for one in slowest],
    )


def _groups(groups: list[dict[str, Any]]) -> Part:
    rows = []
    for one in groups:
        examples = ", ".join(map(str, one["examples"]))
        rows.append([one["kind"], one["status"], _count(one["count"]), _text(one["message"]), _text(examples)])
    return Part("What failed, was quarantined or rejected", ["kind", "status", "records", "cause", "such as"], rows)


def _clock(figures: PageFigures) -> Clock:
    is_short = not figures.timeline or figures.timeline[-1].minute < _FEW_MINUTES
    return Clock("second", 60.0) if is_short else Clock("minute", 1.0)


def _throughput(figures: PageFigures) -> Part:
    clock = _clock(figures)
    rows = [{clock.title: clock.shown(one.minute), "settled a minute": one.settled_per_minute} for one in figures.timeline]
    return Part(
        "Throughput",
        [clock.unit, "settled a minute", "retries", "share of the time paused"],
        [
            [f"{clock.shown(one.minute):g}", f"{one.settled_per_minute:,.1f}", _count(one.retries), f"{one.paused_share:.0%}"]
            for one in figures.timeline
        ],
        svg=_drawn(charts.area(rows, clock.title, "settled a minute")) if len(rows) > 1 else Markup(""),
    )


def _in_flight(status: dict[str, Any], figures: PageFigures) -> Part:
    clock = _clock(figures)
    rows = [
        {clock.title: clock.shown(one.minute), "requests": value, "which": which}
        for which in ("in flight", "window")
        for one in figures.timeline
        for value in [one.in_flight if which == "in flight" else one.window]
    ]
    bound = status["concurrency"]["bound_by"]
    return Part(
        "In flight, and how many might have been",
        [clock.unit, "in flight", "window", "bound by"],
        [
            [f"{clock.shown(one.minute):g}", f"{one.in_flight:g}", f"{one.window:g}", one.bound_by or ""]
            for one in figures.timeline
        ],
        text=f"Mostly bound by: {bound}." if bound else "",
        svg=_drawn(charts.lines(rows, clock.title, "requests", "which")) if len(figures.timeline) > 1 else Markup(""),
    )


def _latency(status: dict[str, Any], figures: PageFigures) -> Part:
    said = status["latency_s"]
    return Part(
        "How long answers took",
        ["from (s)", "up to (s)", "answers"],
        _table(figures.latency),
        text=f"Seconds from sending to the whole reply: half {said['p50']:.3g}, 95 % {said['p95']:.3g}, "
        f"99 % {said['p99']:.3g}, the slowest {said['max']:.3g}.",
        svg=_histogram(figures.latency, "seconds (logarithmic)", is_log=True, what="answers"),
    )  # fmt: skip


def _bad(figures: PageFigures) -> Part:
    clock = _clock(figures)
    rows = [{clock.title: clock.shown(minute), "sends": count, "kind": kind} for minute, kind, count in figures.bad]
    return Part(
        "Sends that brought no accepted answer",
        [clock.unit, "kind", "sends"],
        [[f"{clock.shown(minute):g}", kind, _count(count)] for minute, kind, count in figures.bad],
        svg=_drawn(charts.stacked(rows, clock.title, "sends", "kind")) if rows else Markup(""),
    )


def _contexts(status: dict[str, Any], figures: PageFigures) -> Part:
    said = status["context_tokens"]
    return Part(
        "Context lengths",
        ["from (tokens)", "up to (tokens)", "answers"],
        _table(figures.contexts),
        text=f"Prompt and answer together: {said['mean']:,} tokens on average, 95 % up to {said['p95']:,}, "
        f"at most {said['max']:,}.",
        svg=_histogram(figures.contexts, "tokens", is_log=False, what="answers"),
    )


def _tokens(status: dict[str, Any]) -> Part:
    tokens, cost = status["tokens"], status["cost"]
    both = tokens["prompt"] + tokens["completion"]
    numbers = [
        ("prompts, not cached", tokens["prompt"] - tokens["cached"]), ("prompts, served from a prefix cache", tokens["cached"]),
        ("answers", tokens["completion"]), ("of all: wasted", tokens["wasted"]),
    ]  # fmt: skip
    rows = [[name, f"{count:,}", f"{100 * count / both:.1f}%" if both else ""] for name, count in numbers]
    if tokens["unknown_requests"]:
        rows.append(["requests whose use is unknown", f"{tokens['unknown_requests']:,}", ""])
    if cost["spent"]:
        rows += [[f"{name} ({cost['currency']})", f"{cost[name]:.6g}", ""] for name in ("useful", "wasted")]
    drawn = [{"what": name, "tokens": count} for name, count in numbers]
    return Part(
        "Tokens and cost",
        ["", "", "share"],
        rows if both else [],
        text="Wasted: of sends that made no accepted answer.",
        svg=_drawn(charts.bars(drawn, "what", "tokens")) if both else Markup(""),
    )


def _answers(figures: PageFigures) -> Part:
    if figures.answers:
        total = sum(count for _, count in figures.answers)
        return Part(
            "Answers",
            ["answer", "records", "share"],
            [[_text(name), _count(count), f"{100 * count / total:.1f}%"] for name, count in figures.answers],
            svg=_drawn(charts.bars([{"answer": name, "records": count} for name, count in figures.answers], "answer", "records")),
        )
    return Part(
        "Lengths of answers",
        ["from (bytes of JSON)", "up to", "records"],
        _table(figures.lengths),
        svg=_histogram(figures.lengths, "bytes of JSON", is_log=False, what="records"),
    )


def _histogram(bins: list[Bin], title: str, *, is_log: bool, what: str) -> Markup:
    if not bins:
        return Markup("")
    rows = [{"low": one.low, "high": one.high, "count": one.count} for one in bins]
    return _drawn(charts.histogram(rows, title, is_log=is_log, what=what))


def _table(bins: list[Bin]) -> list[list[str]]:
    return [[_number(one.low), _number(one.high), _count(one.count)] for one in bins if one.count]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _drawn(svg: str) -> Markup:
    """Already held to be harmless, see `charts.harmless`."""
    return Markup(svg)  # noqa: S704


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _text(value: Any, limit: int = _CELL) -> str:
    if isinstance(value, str) and "\n" in value:
        return "\n".join(printable(line, limit) for line in value[:limit].split("\n"))
    return printable(value if isinstance(value, str) else canon.encode(value).decode(), limit)
