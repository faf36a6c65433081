"""Which display a run gets: live on a terminal, plain lines elsewhere, none when quiet."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from headrace.observe.progress import Display, Painter, PlainPainter
from headrace.protocols import Observer


@contextlib.contextmanager
def observers(*, quiet: bool) -> Iterator[Sequence[Observer]]:
    """The observers of one run. Words for people go to stderr, whatever stdout is for."""
    if quiet:
        yield ()
        return
    with Display(_painter()) as display:
        yield (display,)


def _painter() -> Painter:
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return PlainPainter(sys.stderr)
    from headrace.observe.live import LivePainter  # noqa: PLC0415 (rich is only loaded for a terminal)

    return LivePainter(sys.stderr)
