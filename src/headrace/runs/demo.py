"""The demo: its job and data in a folder of the user's, run as any job is, and its answers held against the true labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace import canon
from headrace.errors import DiskError, SpecError
from headrace.policy.stats import ClassFigures, class_figures, wilson
from headrace.protocols import Observer
from headrace.runs.jobfile import load_job
from headrace.runs.outputs import rows_of
from headrace.runs.pipeline import RunOptions, RunResult, execute
from headrace.runs.registry import RunFolder
from headrace.values import Status

JOB, LABELS = "job.toml", "labels.jsonl"
FILES = (JOB, "records.jsonl", LABELS, "ATTRIBUTION.md")
_ENDED = frozenset({0, 3})
_SCORED = frozenset({Status.DONE, Status.QUARANTINED})


class DemoFigures(Struct, frozen=True):
    """Answers against true labels. A record counts as scored where an answer came, an unacceptable one as wrong."""

    n_total: int
    n_scored: int
    n_error: dict[str, int]  # records without an answer, by kind
    right: int
    interval: tuple[float, float]
    largest: tuple[str, int]  # the true label that most of the scored records have
    surest: tuple[int, int]  # of the more confident half: how many, how many of them right
    classes: dict[str, ClassFigures]
    models: list[str]  # who answered, by the endpoint's own word
    rows: list[dict[str, Any]]  # the output's records, each with its true label as `expected`, in input order

    @property
    def score(self) -> float:
        return self.right / self.n_scored if self.n_scored else 0.0


class Demo(Struct, frozen=True):
    """How the demo ended. `figures` is None where the run stopped before its end."""

    folder: Path
    result: RunResult
    figures: DemoFigures | None


async def demo(to: Path, *, limit: int | None = None, new: bool = False, observers: Sequence[Observer] = ()) -> Demo:
    """Run the demo's job, or go on with it, in the folder `to`, with the first `limit` records. Raises as a run does.

    Answers that an earlier run there holds are taken over, whatever its limit was, unless `new`.
    """
    job = load_job(place(to), [f"input.limit={limit}"] if limit is not None else [])
    options = RunOptions(new=new, reuse=None if new else "last")
    result = await execute(job, options, observers)
    if result.exit_code not in _ENDED:
        return Demo(to, result, None)
    expected = {record["name"]: record["category"] for record in _records(to / LABELS)}
    rows = [{**row, "expected": expected[row["name"]]} for row in rows_of(RunFolder(result.folder), details=True)]
    return Demo(to, result, figures_of(rows, job.spec.answer.labels or ()))


def place(to: Path) -> Path:
    """Put the demo's files into a folder, where they are not there yet; the job file's path.

    Raises SpecError where a file stands in the place of one of them and is another: it is the user's, and no demo.
    """
    source = files("headrace.demo")
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            content, target = (source / name).read_bytes(), to / name
            if not target.exists():
                _put(target, content)
            elif target.read_bytes() != content:
                raise SpecError(
                    f"--to: {target} is not the demo's; name another folder, or run a job of your own with `headrace run`.",
                    key="--to",
                    found=str(target),
                    allowed="a new folder, or one that the demo made",
                )
    except OSError as error:
        raise DiskError(f"--to: {to}: the demo's files cannot be put here ({error.strerror}); name another folder.") from error
    return to / JOB


def figures_of(rows: Sequence[dict[str, Any]], labels: Sequence[str]) -> DemoFigures:
    """The figures of output records that hold their true label as `expected`."""
    scored = [row for row in rows if row["answer_status"] in _SCORED]
    errors = Counter(str(row["answer_error"]).partition(":")[0] for row in rows if row["answer_status"] not in _SCORED)
    pairs = [(row["expected"], row["answer"]) for row in scored]
    right = sum(true == answered for true, answered in pairs)
    by_confidence = sorted(scored, key=lambda row: row["answer_confidence"] or 0.0, reverse=True)
    surest = by_confidence[: (len(scored) + 1) // 2]
    return DemoFigures(
        n_total=len(rows),
        n_scored=len(scored),
        n_error=dict(errors),
        right=right,
        interval=wilson(right, len(scored)),
        largest=max(Counter(true for true, _ in pairs).items(), key=lambda item: item[1], default=("", 0)),
        surest=(len(surest), sum(row["answer"] == row["expected"] for row in surest)),
        classes=class_figures(pairs, labels),
        models=sorted({str(row["answer_model"]) for row in scored}),
        rows=list(rows),
    )


def _put(target: Path, content: bytes) -> None:
    """Whole or not at all: a demo that was killed here begins anew."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(target)


def _records(path: Path) -> list[dict[str, Any]]:
    return [canon.decode(line) for line in path.read_bytes().splitlines()]
