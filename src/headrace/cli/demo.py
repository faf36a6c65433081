"""`headrace demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.display import observers
from headrace.cli.ending import end
from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json, Quiet
from headrace.cli.printing import columns, print_json, print_lines, print_tables
from headrace.observe.text import printable

_SHOWN = 8
_CUT = 34

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder for the demo's job, its data and its answers.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N of the 200 records.")]
New = Annotated[bool, typer.Option("--new", help="Begin a new run; else answers that are there already are not asked again.")]


def demo(to: To = Path("headrace-demo"), limit: Limit = None, new: New = False, json: Json = False, quiet: Quiet = False) -> None:
    """Classify 200 package descriptions with the embedded model and hold the answers against the true labels.

    The job is copied to a folder and run there as any job is: stopped or killed, the same command goes on.
    """
    from headrace.runs.demo import demo as run_demo  # noqa: PLC0415 (help and refusals do not pay for the engine)

    with observers(quiet=quiet) as watching:
        ended = run_until_complete(run_demo(to, limit=limit, new=new, observers=watching))
    if json:
        print_json(document(ended))
        raise typer.Exit(ended.result.exit_code)
    if ended.figures is not None and not quiet:
        _print_figures(ended.figures, ended.result.status)
    end(ended.result, json=False, quiet=quiet)


def document(ended: Any) -> dict[str, Any]:
    """The document of `demo --json`: how the run ended, and the figures, null where it stopped before its end."""
    figures = ended.figures
    said: dict[str, Any] = {"folder": str(ended.folder), "output": str(ended.result.output), "run": ended.result.status}
    if figures is None:
        return {**said, "figures": None}
    label, count = figures.largest
    return {
        **said,
        "figures": {
            "n_total": figures.n_total,
            "n_scored": figures.n_scored,
            "n_error": figures.n_error,
            "score": figures.score,
            "interval": list(figures.interval),
            "largest_class": {"label": label, "n": count},
            "surest_half": {"n": figures.surest[0], "right": figures.surest[1]},
            "per_class": {name: one._asdict() for name, one in figures.classes.items()},
        },
    }


def _print_figures(figures: Any, status: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415 (only where there is something to show)

    classes = Table("category", *(_number(name) for name in ("n", "right", "precision", "recall", "F1")))
    for name, one in figures.classes.items():
        classes.add_row(printable(name), str(one.n), str(one.right), *map(_share, (one.precision, one.recall, one.f1)))
    rows = Table("package", "synopsis", "true", "answer", _number("sure"))
    for row in figures.rows[:_SHOWN]:
        rows.add_row(
            printable(str(row["name"]), 20), printable(row["text"].partition("\n")[0], _CUT), row["expected"],
            printable(str(row["answer"] or row["answer_status"]), 12), _share(row["answer_confidence"]),
        )  # fmt: skip
    print_tables(classes, rows)
    print_lines(columns(_lines(figures, status)))


def _lines(figures: Any, status: dict[str, Any]) -> list[tuple[str, str]]:
    tokens, rate, (label, count), (half, half_right) = status["tokens"], status["rate"], figures.largest, figures.surest
    low, high = figures.interval
    scored = figures.n_scored
    share = tokens["cached"] / tokens["prompt"] if tokens["prompt"] else 0.0
    seconds = 60 * status["items"]["total"] / rate["items_per_minute"] if rate["items_per_minute"] else 0.0
    return [
        ("throughput", f"{rate['items_per_minute']:,.0f} records/min: {status['items']['total']:,} in {seconds:,.1f} s"),
        ("tokens", f"{tokens['prompt']:,} prompt, {tokens['cached']:,} of them ({share:.0%}) from the model's prefix cache"),
        ("accuracy", f"{figures.score:.3f} ({figures.right} of {scored} right), 95 % Wilson interval {low:.3f} to {high:.3f}"),
        ("to beat", f"{count / max(scored, 1):.3f}: answering {label!a}, the sample's largest class, every time"),
        ("sure", f"of the {half} answers with the highest confidence {half_right} are right"),
        ("note", "what this small model reaches on this sample; it says nothing of other models, labels or texts"),
    ]


def _number(title: str) -> Any:
    from rich.table import Column  # noqa: PLC0415 (as above)

    return Column(title, justify="right")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
