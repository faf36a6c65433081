"""A run that was stopped five times has the figures of the same run that nobody stopped: virtual time, a real ledger file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.knobs import Pace
from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.protocols import Batch
from headrace.reports.figures import PageFigures, read_figures
from headrace.runs.status import status
from headrace.testing import FakeEndpoint, Laws, life
from headrace.testing.life import Life, VirtualClock
from headrace.testing.memory_ledger import MemoryLedger

TEXTS = [f"text {n} " + "x" * (n * 37 % 400) for n in range(1500)]
LAWS = Laws(latency_ms=800, jitter=0.5, decode_ms_per_token=5, error_rate=0.04, answer="echo:200", seed=3)
STOPS_S = (11.3, 20.1, 7.7, 31.0, 15.2)  # of each process, from its own start
AWAY_S = 5000.0  # between one process and the next


class Mirrored(MemoryLedger):
    """Writes what it is told into a ledger file as well."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = SqliteLedger(path)
        self.file.add_config(1.0, {"model": {"name": "m"}}, {"limits": {}})
        self.file.add_endpoint("fake", "fake")

    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        self.file.prepare(batch)

    def finish(self) -> None:
        super().finish()
        self.file.finish()

    def recover(self, *args: Any, **options: Any) -> None:
        super().recover(*args, **options)
        self.file.recover(*args, **options)


def lived(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stops_s: tuple[float, ...], laws: Laws = LAWS
) -> tuple[dict[str, Any], PageFigures]:
    """The status and the page's figures of a run whose processes are stopped at these times, until it has finished."""
    folder.mkdir()
    away_s = 0.0

    class Clock(VirtualClock):
        def now(self) -> float:
            return super().now() + away_s

    monkeypatch.setattr(life, "VirtualClock", Clock)
    one = Life(TEXTS, FakeEndpoint(laws), pace=Pace(16), ledger=Mirrored(folder / "ledger.db"), max_steps=10_000_000)
    for number, stop_s in enumerate(stops_s):
        one.ledger.file.begin_process()
        ending = one.step(number, interrupt_at_s=(stop_s,))
        assert ending is not None
        assert ending.reason == "interrupted"
        away_s += AWAY_S
    one.ledger.file.begin_process()
    ending = one.step(len(stops_s))
    assert ending is not None
    assert ending.reason is None
    one.ledger.file.close()
    reader = LedgerReader(folder / "ledger.db")
    try:
        return status(folder), read_figures(reader)
    finally:
        reader.close()


def test_five_resumes_leave_the_figures_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, page = lived(tmp_path / "whole", monkeypatch, ())
    parts, pages = lived(tmp_path / "parts", monkeypatch, STOPS_S)
    assert whole["requests"]["retries"] > 30
    for name in ("items", "units", "requests", "tokens", "latency_s", "context_tokens"):
        assert parts[name] == whole[name], name
    assert (parts["rate"]["retry_rate"], parts["rate"]["failure_rate"]) == (whole["rate"]["retry_rate"], 0.0)
    # Whatever is drained leaves slots empty, and that is time too: a second or two of each process.
    assert parts["rate"]["items_per_minute"] == pytest.approx(whole["rate"]["items_per_minute"], rel=0.12)
    assert parts["concurrency"]["max"] == whole["concurrency"]["max"] == 16
    assert parts["concurrency"]["mean"] == pytest.approx(whole["concurrency"]["mean"], rel=0.12)
    assert pages.latency == page.latency
    assert pages.contexts == page.contexts
    assert pages.lengths == page.lengths
    assert [slow.seconds for slow in pages.slowest] == [slow.seconds for slow in page.slowest]
    assert bad(pages) == bad(page)
    assert pages.timeline[-1].minute == pytest.approx(page.timeline[-1].minute, rel=0.12)
    assert max(moment.window for moment in pages.timeline) == max(moment.window for moment in page.timeline) == 16


def test_processes_that_live_for_less_than_a_sample_are_counted_for_as_long_as_they_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Laws(latency_ms=100, answer="echo:20", seed=3)
    whole, _ = lived(tmp_path / "whole", monkeypatch, (), quick)
    parts, _ = lived(tmp_path / "parts", monkeypatch, (0.6,) * 12, quick)
    assert parts["items"] == whole["items"]
    assert parts["rate"]["items_per_minute"] == pytest.approx(whole["rate"]["items_per_minute"], rel=0.12)


def bad(page: PageFigures) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, kind, count in page.bad:
        counts[kind] += count
    return counts
