"""The Python door: `run`, `arun`, and what they return."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from headrace.errors import DiskError, HeadraceError, InputBrokenError, SpecError
from headrace.protocols import Observer
from headrace.runs.frames import polars_frame
from headrace.runs.job import Job as CheckedJob
from headrace.runs.jobfile import job_from_dict, load_job
from headrace.runs.outputs import answer_names_of, rows_of
from headrace.runs.pipeline import RunOptions, RunResult, execute
from headrace.runs.registry import RunFolder
from headrace.spec import JobSpec


class Sections(TypedDict, total=False):
    """The keys of a job file. `input`, `prompt`, `model`, `endpoint` and `output` are needed."""

    name: str
    input: Mapping[str, Any]
    slice: Mapping[str, Any]
    prompt: Mapping[str, Any]
    model: Mapping[str, Any]
    endpoint: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    answer: Mapping[str, Any]
    output: Mapping[str, Any]
    limits: Mapping[str, Any]
    prices: Mapping[str, Any]
    quality: Mapping[str, Any]


class Job:
    """A job made in Python: the job file's sections as keyword arguments.

        headrace.Job(input={"path": "in.jsonl"}, prompt={"user": "{{ text }}"}, model={"name": "m"}, …)

    Paths are relative to `base`, by default the current folder. Raises SpecError.
    """

    def __init__(self, *, base: Path | str | None = None, **sections: Unpack[Sections]) -> None:
        self.checked = job_from_dict(cast("dict[str, Any]", sections), Path(base) if base is not None else Path.cwd())

    def __repr__(self) -> str:
        return f"headrace.Job(name={self.checked.spec.name!r}, base={str(self.checked.base)!r})"


class Result:
    """How a run ended. Iterating gives the output's records as dicts, in input order, read from the ledger.

    `status` is the document of `status --json`; `path` the output file, or the part so far after a stop; `exit_code` as
    the command's; `reason` and `message` say why a run stopped.
    """

    def __init__(self, ended: RunResult, spec: JobSpec) -> None:
        self.run = ended.run
        self.exit_code = ended.exit_code
        self.reason = ended.reason
        self.message = ended.message
        self.path = ended.output
        self.status = ended.status
        self.folder = ended.folder
        self._spec = spec

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return rows_of(RunFolder(self.folder), details=self._spec.output.details)

    def __repr__(self) -> str:
        items = self.status["items"]
        return f"<headrace.Result {self.run}: {items['done']} of {items['total']} done, exit code {self.exit_code}>"

    def to_polars(self) -> Any:
        """The records as a polars.DataFrame. Needs polars.

        Our own columns have the same types whatever the outcomes are; `answer` has the type that its schema says, and is text
        without one. The input's columns are typed by their values.
        """
        split = self._spec.slice.split
        names = answer_names_of(RunFolder(self.folder), details=self._spec.output.details)
        return polars_frame(list(self), names, self._spec.answer, listed=split is not None and split.join == "list")

    def to_pandas(self) -> Any:
        """The records as a pandas.DataFrame. Needs pandas."""
        try:
            import pandas as pd  # noqa: PLC0415  an optional dependency
        except ImportError as error:
            raise SpecError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame.from_records(list(self))


Given = Job | CheckedJob | Mapping[str, Any] | Path | str


async def arun(
    job: Given,
    *,
    new: bool = False,
    reuse: str | None = None,
    run_dir: Path | str | None = None,
    overrides: Sequence[str] = (),
    observers: Sequence[Observer] = (),
) -> Result:
    """As `run`, inside a running event loop."""
    checked = _checked(job, overrides)
    options = RunOptions(run_dir=Path(run_dir) if run_dir is not None else None, new=new, reuse=reuse)
    ended = await execute(checked, options, observers)
    if ended.exit_code == 7:
        raise (InputBrokenError if ended.reason == "input" else DiskError)(ended.message or "the run broke off")
    return Result(ended, checked.spec)


def run(
    job: Given,
    *,
    new: bool = False,
    reuse: str | None = None,
    run_dir: Path | str | None = None,
    overrides: Sequence[str] = (),
    observers: Sequence[Observer] = (),
) -> Result:
    """Run a job, or go on with it: a job file's path, a dict of its sections, or a Job.

    `new` begins a new run whatever runs there are; `reuse` names a run whose equal answers are taken over (`last`: the
    newest); `run_dir` is the folder of the runs, by default `.headrace/runs` beside the job file; `overrides` are
    `section.key=value` as of `--set`; `observers` are called with each event (headrace.events).

    The second call with an equal job and input goes on where the first stopped, and sends nothing where it was finished.
    Raises SpecError and InputError where the job or its input cannot be used, LedgerError and its kin where the disk, the
    ledger or a lock fails; every other ending is a Result with its `exit_code`. Inside a running event loop it refuses: await
    `arun` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise HeadraceError("headrace.run was called inside a running event loop; use `await headrace.arun(...)` there.")
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        work = arun(job, new=new, reuse=reuse, run_dir=run_dir, overrides=overrides, observers=observers)
        return runner.run(work)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  where it exists
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _checked(job: Given, overrides: Sequence[str]) -> CheckedJob:
    if isinstance(job, Job):
        return job.checked
    if isinstance(job, CheckedJob):
        return job
    if isinstance(job, Mapping):
        return job_from_dict(job, Path.cwd(), overrides)
    return load_job(Path(job), overrides)
