"""Progress for people on a stream: a live line on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from headrace.events import Event, Progress, Tried
from headrace.observe.repeats import BEYOND, Repeats
from headrace.observe.wording import amounts, details, said

_PAINT_S = 0.25
_FIRST_S = 5.0  # between two plain lines; it grows with the run, so that a long one stays readable
_SHARE = 0.1
_LONGEST_S = 1800.0
_GOODBYE_S = 2.0


class Painter(Protocol):
    """Where the words go. `now` is monotonic, in seconds."""

    def line(self, text: str) -> None:
        """One line that stays."""
        ...

    def progress(self, progress: Progress, now: float, *, last: bool) -> None:
        """The newest figures. `last`: no more will come."""
        ...

    def close(self) -> None: ...


class Words(Protocol):
    """How what is said looks. `times`: how often an equal line has come by now; lines that differ in numbers alone are equal."""

    def event(self, event: Event, times: int) -> str: ...

    def summary(self, line: str, times: int) -> str:
        """What was only counted: at the end, or (BEYOND, 0) when counting begins."""
        ...


class PlainWords:
    """Words for people."""

    def event(self, event: Event, times: int) -> str:
        line = said(event) or ""
        return line if times == 1 else f"{line} ({times:,} times)"

    def summary(self, line: str, times: int) -> str:
        return f"{line} ({times:,} times in all)" if times else line


class PlainPainter:
    """Plain lines, the first at once, then one in 5 s at most, and ever fewer as the run gets long."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began: float | None = None
        self._due = 0.0
        self._shown: str | None = None

    def line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def progress(self, progress: Progress, now: float, *, last: bool) -> None:
        if self._began is None:
            self._began = self._due = now
        text = f"{amounts(progress)}; {details(progress)}"
        if text == self._shown or (now < self._due and not last):
            return
        self._shown = text
        self._due = now + min(max(_FIRST_S, (now - self._began) * _SHARE), _LONGEST_S)
        self.line(text)

    def close(self) -> None:
        self._stream.flush()


class Display:
    """An Observer that shows what happens. A context manager: a thread of its own writes, so that a stopped terminal
    or a full pipe never stops the event loop. A stream that breaks is given up silently.
    """

    def __init__(self, painter: Painter, seconds: Callable[[], float] = time.monotonic, words: Words | None = None) -> None:
        self._painter: Painter | None = painter
        self._seconds = seconds
        self._words = PlainWords() if words is None else words
        self._repeats = Repeats()
        self._lines: deque[str] = deque()
        self._progress: Progress | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headrace-display", daemon=True)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Tried):
            return  # one a request: first, so that it costs next to nothing
        if isinstance(event, Progress):
            self._progress = event
            return
        text = said(event)
        times = self._repeats.count(text) if text is not None else None
        if times is not None:
            self._lines.append(self._words.event(event, times) if times else self._words.summary(BEYOND, 0))

    def paint(self, *, last: bool = False) -> None:
        """Write what has come since the last time."""
        painter = self._painter
        if painter is None:
            return
        try:
            while self._lines:
                painter.line(self._lines.popleft())
            if self._progress is not None:
                painter.progress(self._progress, self._seconds(), last=last)
            if last:
                painter.close()
                for line, times in self._repeats.unsaid():
                    painter.line(self._words.summary(line, times))
                if self._repeats.beyond > 1:
                    painter.line(self._words.summary(f"{self._repeats.beyond:,} messages of other kinds were not shown", 0))
        except (OSError, ValueError):
            self._painter = None  # nobody reads any more; the run goes on

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(_GOODBYE_S)

    def _work(self) -> None:
        while not self._ended.wait(_PAINT_S):
            self.paint()
        self.paint(last=True)
