"""What people see of a run: few lines, whatever happens."""

from __future__ import annotations

import io

import pytest

from headrace.events import EndpointBack, EndpointDown, EndpointPaused, Progress, Stopping, Warned
from headrace.observe.live import LivePainter
from headrace.observe.progress import Display, PlainPainter
from headrace.observe.repeats import DISTINCT
from headrace.observe.wording import amounts, details, duration, said


def figures(done: int = 0, total: int = 1000, **other: object) -> Progress:
    values: dict[str, object] = {
        "total": total,
        "done": done,
        "failed": 0,
        "quarantined": 0,
        "rejected": 0,
        "reading": False,
        "in_flight": 4,
        "window": 8,
        "retries": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "units_per_second": 10.0,
        "oldest_in_flight_s": 0.0,
        "waiting": 0,
        "bound_by": None,
        "paused_for_s": None,
        "paused_why": None,
    }
    return Progress(**{**values, **other})  # type: ignore[arg-type] # a table of defaults


class Watch:
    """A display on a stream in memory, with a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        self.display = Display(PlainPainter(self.stream), lambda: self.now)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_figures_say_how_far_how_fast_and_how_long() -> None:
    assert amounts(figures(250, failed=50)) == "300/1,000 requests (30 %), 600/min, 1 min 10 s left"
    assert amounts(figures(250, reading=True)) == "250/1,000+ requests, 600/min"
    assert amounts(figures(0, total=0, units_per_second=0.0)) == "0/0 requests, 0/min"


def test_details_leave_out_what_is_nothing() -> None:
    assert details(figures()) == "4/8 in flight"
    busy = figures(retries=3, failed=1, prompt_tokens=1000, completion_tokens=200, oldest_in_flight_s=2.4, bound_by="endpoint")
    assert details(busy) == "4/8 in flight, oldest 2 s, 3 retries, 1 failed, 1,200 tokens, bound by endpoint"
    paused = figures(paused_for_s=12.0, paused_why="rate limited (429)", bound_by="rate")
    assert details(paused) == "paused for 12 s: rate limited (429), 4/8 in flight"


@pytest.mark.parametrize(("seconds", "words"), [(-1, "0 s"), (59.4, "59 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")])
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_events_are_one_harmless_line_each() -> None:
    assert said(Warned("two\nlines\x1b[0m")) == "warning: two\\nlines\\x1b[0m"
    assert said(EndpointPaused("http://h", 12, "429")) == "http://h paused for 12 s: 429"
    assert said(EndpointDown("http://h", 5, "refused")) == "http://h is held to be down, next try in 5 s: refused"
    assert said(EndpointBack("http://h", 61)) == "http://h is back after 1 min 01 s"
    assert said(Stopping("interrupted", "Ctrl-C", 3)) == "stopping: Ctrl-C; waiting for 3 in flight (Ctrl-C again stops at once)"
    assert said(Stopping("quota", "no money", 2)) == "stopping: no money; waiting for 2 in flight"
    assert said(Stopping("quota", "no money", 0)) is None
    assert said(figures()) is None


def test_plain_lines_come_at_most_every_five_seconds() -> None:
    watch = Watch()
    for tick in range(200):
        watch.now = tick * 0.25
        watch.display(figures(tick))
        watch.display.paint()
    assert len(watch.lines()) == 10


def test_a_run_of_twelve_hours_is_less_than_a_hundred_lines() -> None:
    watch = Watch()
    for tick in range(12 * 3600):
        watch.now = float(tick)
        watch.display(figures(tick, total=50_000))
        watch.display.paint()
    assert 30 < len(watch.lines()) < 100


def test_the_last_figures_are_always_said_and_equal_ones_once() -> None:
    watch = Watch()
    for done in (1, 2):
        watch.display(figures(done))
        watch.display.paint()
    watch.display.paint(last=True)
    watch.display.paint(last=True)
    assert [line.partition("/")[0] for line in watch.lines()] == ["1", "2"]


def test_obs_04_ten_thousand_failures_are_few_lines() -> None:
    watch = Watch()
    page = "<html>" + "x" * 50_000
    for row in range(10_000):
        watch.display(Warned(f"row {row}: 500 {page}"))
        watch.display(EndpointDown("http://h/v1", row % 30, f"500 {page}"))
        watch.display(EndpointBack("http://h/v1", 3))
        watch.display.paint()
    watch.display.paint(last=True)
    assert len(watch.lines()) < 30
    assert max(map(len, watch.lines())) < 500
    assert any("(10,000 times)" in line for line in watch.lines())


def test_obs_04_messages_of_ever_new_kinds_are_counted_too() -> None:
    watch = Watch()
    for row in range(10_000):
        watch.display(Warned("x" * (row % 390 + 1)))
    watch.display.paint(last=True)
    assert len(watch.lines()) < 4 * DISTINCT


def test_repeated_lines_end_with_their_count() -> None:
    watch = Watch()
    for _ in range(7):
        watch.display(Warned("the same"))
    watch.display.paint(last=True)
    assert watch.lines() == ["warning: the same", "warning: the same (7 times in all)"]


def test_a_stream_that_breaks_is_given_up_silently() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    display = Display(PlainPainter(Broken()))
    display(Warned("x"))
    display.paint()
    display(Warned("y"))
    display.paint(last=True)


def test_as_a_context_its_own_thread_writes_everything() -> None:
    stream = io.StringIO()
    with Display(PlainPainter(stream)) as display:
        display(Warned("one"))
        display(figures(1))
    assert stream.getvalue().startswith("warning: one\n1/1,000 requests")


def test_the_live_line_shows_figures_and_keeps_messages_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    stream = io.StringIO()
    display = Display(LivePainter(stream))
    display(Warned("[bold]markup[/bold]"))
    display(figures(500))
    display.paint()
    display.paint(last=True)
    text = stream.getvalue()
    assert "[bold]markup[/bold]" in text
    assert "500/1,000 requests" in text
