"""`headrace review`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.parameters import Json, Run, found
from headrace.cli.printing import columns, facts, print_json, print_lines, print_words
from headrace.errors import SpecError
from headrace.observe.text import printable
from headrace.policy.amounts import counted
from headrace.runs.registry import RunFolder

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port on loopback; 0 takes a free one.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")]
Level = Annotated[
    float | None,
    typer.Option("--level", metavar="SHARE", help="Say whether at most this share of answers is wrong, at 95 %."),
]
Margin = Annotated[
    float | None, typer.Option("--margin", metavar="SHARE", help="Say how many to look at for a share that is known so closely.")
]
Export = Annotated[
    Path | None,
    typer.Option("--export", metavar="PATH", help="Write what was accepted and corrected as an eval set, and end."),
]


def review(
    run: Run = None,
    port: Port = 0,
    browser: Browser = True,
    level: Level = None,
    margin: Margin = None,
    export: Export = None,
    json: Json = False,
) -> None:
    """Look at a sample of a run's answers in the browser, one at a time, until Ctrl-C; then say how many are right.

    The sample is that of the job's [quality]: sample, stratify, seed. With --json, --level, --margin or --export nothing is
    served.
    """
    folder = found(run)
    for name, value in (("--level", level), ("--margin", margin)):
        if value is not None and not 0 < value < 1:
            raise SpecError(f"{name}: found {value:g}; allowed: a share between 0 and 1", key=name, allowed="0.05")
    from headrace.quality.spotcheck import review_of  # noqa: PLC0415 (help does not pay for it)
    from headrace.runs.reviewing import export_reviewed  # noqa: PLC0415 (as above)

    if margin is not None:
        _tell_size(folder, margin, json=json)
        return
    if export is not None:
        print_lines([f"{counted(export_reviewed(folder, export), 'record')} written to {export}"])
        return
    if not json and level is None:
        asyncio.run(_serve(folder, port, opens=browser))
    outcome = review_of(folder.path, level)
    if json:
        print_json(outcome if outcome is not None else {"reviewed": 0, "accepted": 0, "interval": None})
    elif outcome is None:
        print_lines(["nothing has been reviewed yet"])
    else:
        print_lines(_lines(outcome))


def _tell_size(folder: RunFolder, margin: float, *, json: bool) -> None:
    from headrace.policy.sampling import size_for  # noqa: PLC0415 (as above)
    from headrace.runs.status import status  # noqa: PLC0415

    done = status(folder.path)["items"]["done"]
    wanted = min(size_for(margin, done), done) if done else 0
    if json:
        print_json({"population": done, "margin": margin, "sample": wanted})
    else:
        print_lines(
            [f"{counted(wanted, 'item')} of {done:,} for ± {margin:.1%} at 95 %, whatever the share: quality.sample = {wanted}"]
        )


async def _serve(folder: RunFolder, port: int, *, opens: bool) -> None:
    from headrace.quality.reviews import ReviewStore  # noqa: PLC0415 (as above)
    from headrace.runs.reviewing import Reviewing  # noqa: PLC0415
    from headrace.web.review import ReviewPage, serve  # noqa: PLC0415

    reviewing = Reviewing(folder)
    store = ReviewStore(folder.path, writable=True)
    try:
        store.put_sizes(reviewing.sample.sizes)
        try:
            runner, address = await serve(ReviewPage(reviewing, store), port)
        except OSError as error:
            why = f"--port: {port} cannot be listened on ({error.strerror}); 0 takes a free one"
            raise SpecError(why, key="--port", allowed="a free port") from error
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        drawn = f"{counted(len(reviewing.sample.items), 'item')} of {reviewing.sample.population:,}"
        print_words(f"{address}  ({drawn}; Ctrl-C ends it)")
        if opens:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)
        await stopped.wait()
        await runner.cleanup()
    finally:
        store.close()
        reviewing.close()


def _lines(outcome: Mapping[str, Any]) -> list[str]:
    interval = outcome["interval"]
    share = "none" if outcome["share"] is None else f"{outcome['share']:.1%} (95 %: {interval[0]:.1%} to {interval[1]:.1%})"
    rows = [
        ("reviewed", f"{counted(outcome['reviewed'], 'item')} of {outcome['population']:,}, {outcome['skipped']:,} skipped"),
        ("accepted", f"{outcome['accepted']:,}; {outcome['corrected']:,} of the others corrected"),
        ("right", share),
    ]
    if outcome["level"] is not None:
        rows.append(("level", f"at most {outcome['level']['bad']:.2%} wrong: {outcome['level']['verdict']}"))
    for of in outcome["agreement"]:
        kappa = "not defined" if of["kappa"] is None else f"{of['kappa']:.3f}"
        names = " and ".join(printable(name, 30) for name in of["reviewers"])
        rows.append(("agreement", f"{names}: {of['agree']:.1%} of {of['n']:,}, kappa {kappa}"))
    lines = facts(rows)
    if len(outcome["strata"]) > 1:
        table = [("stratum", "items", "reviewed", "right")]
        table += [
            (printable(name, 40), f"{of['size']:,}", f"{of['reviewed']:,}", "-" if of["share"] is None else f"{of['share']:.1%}")
            for name, of in outcome["strata"].items()
        ]
        lines += ["", *columns(table)]
    return lines
