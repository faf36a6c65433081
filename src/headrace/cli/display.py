"""Which observers a run gets: a live display on a terminal, plain lines or a log elsewhere, figures for a scraper."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from headrace import __version__
from headrace.cli.printing import print_log, print_words
from headrace.clock import WallClock
from headrace.observe.progress import Display, Painter, PlainPainter
from headrace.protocols import Observer


@contextlib.contextmanager
def observers(
    *, quiet: bool, log_json: bool = False, metrics: str | None = None, traced: tuple[str, str] | None = None
) -> Iterator[Sequence[Observer]]:
    """The observers of one run. Words go to stderr, whatever stdout is for.

    `metrics`: PORT or HOST:PORT that a scraper asks. Raises SpecError where it cannot be listened on. `traced`: model and route
    of what is asked, where a collector is to know of it.
    """
    with contextlib.ExitStack() as stack:
        watching: list[Observer] = []
        if metrics is not None:
            watching.append(_scraped(stack, metrics, quiet=quiet, log_json=log_json))
        if traced is not None:
            watching.append(_traced(stack, traced, quiet=quiet, log_json=log_json))
        if not quiet:
            watching.append(stack.enter_context(_display(log_json=log_json)))
        yield watching


def _scraped(stack: contextlib.ExitStack, metrics: str, *, quiet: bool, log_json: bool) -> Observer:
    from headrace.observe.counts import Counts  # noqa: PLC0415 (as above)
    from headrace.observe.prometheus import address, served  # noqa: PLC0415 (prometheus_client is only loaded where it is used)

    counts = Counts()
    url = stack.enter_context(served(counts, __version__, *address(metrics)))
    said = f"figures for Prometheus: {url}"
    if log_json and not quiet:
        print_log("info", "metrics", said, url=url)
    elif not quiet:
        print_words(said)
    return counts


def _traced(stack: contextlib.ExitStack, traced: tuple[str, str], *, quiet: bool, log_json: bool) -> Observer:
    from headrace.observe.otel import Asked, exported  # noqa: PLC0415 (OpenTelemetry is only loaded where it is used)

    def on_lost(said: str) -> None:
        if log_json and not quiet:
            print_log("warning", "telemetry_lost", said)
        elif not quiet:
            print_words(f"warning: {said}")

    return stack.enter_context(exported(Asked(*traced), __version__, WallClock().now, on_lost))


def _display(*, log_json: bool) -> Display:
    if log_json:
        from headrace.observe.jsonlog import JsonPainter, JsonWords  # noqa: PLC0415 (only loaded where it is used)

        words = JsonWords(WallClock().now)
        return Display(JsonPainter(sys.stderr, words), words=words)
    return Display(_painter())


def _painter() -> Painter:
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return PlainPainter(sys.stderr)
    from headrace.observe.live import LivePainter  # noqa: PLC0415 (rich is only loaded for a terminal)

    return LivePainter(sys.stderr)
