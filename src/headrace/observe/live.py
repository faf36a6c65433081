"""The live lines on a terminal. Imports rich, so it is loaded only where there is a terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headrace.events import Progress
from headrace.observe.wording import amounts, details, settled

_BAR = 20


class LivePainter:
    """Two lines that are redrawn, other lines scroll by above them. NO_COLOR is honoured (by rich)."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._ascii = not self._console.encoding.lower().startswith("utf")
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._started = False

    def line(self, text: str) -> None:
        self._console.print(Text(text))

    def progress(self, progress: Progress, now: float, *, last: bool) -> None:  # noqa: ARG002 (drawn whenever asked)
        if not self._started:
            self._live.start()
            self._started = True
        self._live.update(
            Group(self._bar(progress), Text(details(progress), "dim", no_wrap=True, overflow="ellipsis")), refresh=True
        )

    def close(self) -> None:
        if self._started:
            self._live.stop()

    def _bar(self, progress: Progress) -> Text:
        filled = _BAR * settled(progress) // progress.total if progress.total else 0
        full, empty = ("#", ".") if self._ascii else ("━", "─")
        return Text.assemble(
            (full * filled, "green"), (empty * (_BAR - filled), "dim"), f" {amounts(progress)}", no_wrap=True, overflow="ellipsis"
        )
