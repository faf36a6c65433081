"""`headrace demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.display import observers
from headrace.cli.ending import end
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, Quiet
from headrace.cli.printing import columns, print_lines, print_tables
from headrace.observe.text import printable

if TYPE_CHECKING:
    from headrace.runs.demo import Demo, DemoFigures

_SHOWN = 8

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder for the demo's job, its data and its answers.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N of the 200 records.")]
New = Annotated[bool, typer.Option("--new", help="Begin a new run; else no answer that is there already is asked for again.")]


def demo(to: To = Path("headrace-demo"), limit: Limit = None, new: New = False, json: Json = False, quiet: Quiet = False) -> None:
    """Sort 200 package descriptions with the embedded model, and hold the answers against the true categories.

    The job and its data are copied to a folder and run there as any job is: stopped or killed, the same command goes on.
    """
    from headrace.runs.demo import demo as run_demo  # noqa: PLC0415 (help and refusals do not pay for the engine)

    with observers(quiet=quiet) as watching:
        ended = run_until_complete(run_demo(to, limit=limit, new=new, observers=watching))
    if ended.figures is not None and not json and not quiet:
        _print_figures(ended.figures, ended.result.status)
    end(ended.result, json=json, quiet=quiet, document=_document(ended) if json else None)


def _document(ended: Demo) -> dict[str, Any]:
    """How the run ended and what its answers are worth; `figures` is null where it stopped before its end."""
    figures, output = ended.figures, ended.result.output
    return {
        "folder": str(ended.folder),
        "output": str(output) if output is not None else None,
        "status": ended.result.status,
        "figures": None if figures is None else _figures(figures),
    }


def _figures(figures: DemoFigures) -> dict[str, Any]:
    return {
        "n_total": figures.n_total,
        "n_scored": figures.n_scored,
        "n_error": figures.n_error,
        "score": figures.score,
        "interval": list(figures.interval),
        "largest_class": {"label": figures.largest[0], "n": figures.largest[1]},
        "surest_half": {"n": figures.surest[0], "right": figures.surest[1]},
        "models": figures.models,
        "per_class": {name: one._asdict() for name, one in figures.classes.items()},
    }


def _print_figures(figures: DemoFigures, status: dict[str, Any]) -> None:
    classes = [
        [name, str(one.n), str(one.right), _share(one.precision), _share(one.recall), _share(one.f1)]
        for name, one in figures.classes.items()
    ]
    rows = [
        [
            printable(str(row["name"]), 20), printable(str(row["text"]).partition("\n")[0], 21), row["expected"],
            printable(str(row["answer"] or row["answer_status"]), 12), _share(row["answer_confidence"]),
        ]
        for row in figures.rows[:_SHOWN]
    ]  # fmt: skip
    print_tables(
        (["category", "n", "right", "precision", "recall", "F1"], classes),
        (["package", "its first line", "true", "answer", "sure"], rows),
    )
    print_lines(columns(_lines(figures, status)))


def _lines(figures: DemoFigures, status: dict[str, Any]) -> list[tuple[str, str]]:
    total, rate, tokens = status["items"]["total"], status["rate"]["items_per_minute"], status["tokens"]
    cached = tokens["cached"] / tokens["prompt"] if tokens["prompt"] else 0.0
    low, high = figures.interval
    scored, (label, most), (half, half_right) = figures.n_scored, figures.largest, figures.surest
    missing = f"; {sum(figures.n_error.values())} without an answer are not counted" if figures.n_error else ""
    return [
        ("model", printable(", ".join(figures.models))),
        ("throughput", f"{rate:,.0f} records/min: {total:,} in {60 * total / rate if rate else 0.0:,.0f} s"),
        ("tokens", f"{tokens['prompt']:,} prompt, {tokens['cached']:,} of them ({cached:.0%}) from the prefix cache"),
        ("accuracy", f"{figures.score:.3f} ({figures.right} of {scored}), 95 % Wilson interval {low:.3f} to {high:.3f}{missing}"),
        ("to beat", f"{most / max(scored, 1):.3f}: the sample's largest class ({label}) as the answer to all"),
        ("sure", f"of the {half} answers with the highest confidence {half_right} are right"),
        ("note", "what this model reaches on this sample; it says nothing of other models, labels or texts"),
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
