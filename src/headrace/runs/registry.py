"""Run folders: where they lie, how they are named, and how a run is found again."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson
from msgspec import Struct

from headrace.errors import DiskError, RunNotFoundError

RUNS_FOLDER = Path(".headrace") / "runs"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID = re.compile(r"(\d{8}-\d{6})-([0-9a-z]{4,})")
_SHOWN = 5


class RunFolder(Struct, frozen=True):
    """A run's folder by its path. Nothing is read or made by naming it."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    @property
    def archive(self) -> Path:
        return self.path / "run.json"

    @property
    def lock(self) -> Path:
        return self.path / "run.lock"

    @property
    def records(self) -> Path:
        """The copy of an input that is no plain .jsonl."""
        return self.path / "records.jsonl"

    @property
    def started(self) -> str | None:
        """When the run was made, from its id: ISO 8601, UTC. None where the folder was renamed."""
        match = _ID.fullmatch(self.id)
        if match is None:
            return None
        try:
            at = dt.datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=dt.UTC)
        except ValueError:
            return None
        return at.isoformat().replace("+00:00", "Z")

    @property
    def exists(self) -> bool:
        try:
            return self.ledger.is_file() or self.archive.is_file()
        except OSError:
            return False


def runs_folder(base: Path, run_dir: Path | None = None) -> Path:
    """The folder that holds a job's runs: `run_dir`, or `.headrace/runs` beside the job file."""
    return (run_dir if run_dir is not None else base / RUNS_FOLDER).absolute()


def create_run(root: Path, now: float, *, state: Path | None = None, name: str = "", job: Path | None = None) -> RunFolder:
    """Make a new, empty run folder under `root` and enter it in the user's registry (`state`; None: not entered).

    `now` is Unix seconds. Ids sort by the time they were made, also within one second and when the clock stands still. A
    registry that cannot be written is no error; a root that cannot is DiskError.
    """
    stamp = dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y%m%d-%H%M%S")
    suffix = _base36(int(now % 1 * 36**2), 2) + "".join(secrets.choice(_DIGITS) for _ in range(2))
    try:
        root.mkdir(parents=True, exist_ok=True)
        taken = [match[2] for match in map(_ID.fullmatch, _names(root)) if match and match[1] == stamp]
        while True:
            if taken and suffix <= max(taken):
                suffix = _after(max(taken))
            folder = RunFolder(root / f"{stamp}-{suffix}")
            try:
                folder.path.mkdir()
                break
            except FileExistsError:
                taken.append(suffix)
    except OSError as error:
        raise DiskError(f"{root}: no run folder can be made here ({error.strerror}); name another with --run-dir") from None
    if state is not None:
        _enter(state, folder, name, job)
    return folder


def job_runs(root: Path) -> list[RunFolder]:
    """The runs under one root, newest first. A root that is not there has none."""
    try:
        names = sorted(filter(_ID.fullmatch, _names(root)), reverse=True)
    except OSError:
        return []
    return [folder for folder in (RunFolder(root / name) for name in names) if folder.exists]


def list_runs(cwd: Path, state: Path | None, *, everywhere: bool = False) -> list[RunFolder]:
    """The runs of the nearest `.headrace` here or above; `everywhere`: and all that the registry knows. Newest first.

    Where there is no `.headrace`, the registry's are listed.
    """
    near = _near(cwd)
    if near and not everywhere:
        return near
    return _distinct([*near, *_entered(state)])


def resolve(run: str | None, cwd: Path, state: Path | None) -> RunFolder:
    """The run that an id, a unique prefix, a path or `last` (also None) names. Raises RunNotFoundError."""
    if run is None or run == "last":
        runs = list_runs(cwd, state)
        if not runs:
            raise RunNotFoundError("there is no run here or in a parent folder; `headrace run JOB` makes one")
        return runs[0]
    as_path = RunFolder(cwd / Path(run).expanduser())
    if as_path.exists:
        return RunFolder(as_path.path.resolve())
    runs = list_runs(cwd, state, everywhere=True)
    matches = [folder for folder in runs if folder.id == run] or [folder for folder in runs if run and folder.id.startswith(run)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RunNotFoundError(f"{run!a} names {len(matches)} runs: {_named(matches, full=len({m.id for m in matches}) == 1)}")
    there = f"there are {_named(runs)}" if runs else "there are none here or in a parent folder"
    raise RunNotFoundError(f"no run answers to {run!a}; {there}")


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of the user's registry; None where there is no home."""
    stated = environ.get("XDG_STATE_HOME", "")
    if stated and Path(stated).is_absolute():
        return Path(stated) / "headrace"
    home = environ.get("HOME", "")
    return Path(home) / ".local" / "state" / "headrace" if home else None


def _near(cwd: Path) -> list[RunFolder]:
    for folder in (cwd.absolute(), *cwd.absolute().parents):
        runs = job_runs(folder / RUNS_FOLDER)
        if runs:
            return runs
    return []


def _entered(state: Path | None) -> list[RunFolder]:
    """The registry's runs that are still there; entries that dangle or cannot be read are passed over."""
    if state is None:
        return []
    runs = []
    try:
        entries = sorted((state / "runs").glob("*.json"))
    except OSError:
        return []
    for entry in entries:
        try:
            value = orjson.loads(entry.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            continue
        path = value.get("path") if isinstance(value, dict) else None
        if isinstance(path, str) and "\0" not in path and RunFolder(Path(path)).exists:
            runs.append(RunFolder(Path(path)))
    return runs


def _enter(state: Path, folder: RunFolder, name: str, job: Path | None) -> None:
    path = folder.path.resolve()
    entry = {"run": folder.id, "path": str(path), "name": name, "job": str(job) if job is not None else None}
    mark = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    try:
        (state / "runs").mkdir(parents=True, exist_ok=True)
        (state / "runs" / f"{folder.id}-{mark}.json").write_bytes(orjson.dumps(entry))
    except (OSError, TypeError):
        return  # a path that is no UTF-8, a read-only home: the run is still found from its own folder


def _distinct(runs: Iterable[RunFolder]) -> list[RunFolder]:
    by_path = {folder.path.resolve(): folder for folder in runs}
    return sorted(by_path.values(), key=lambda folder: folder.id, reverse=True)


def _named(runs: list[RunFolder], *, full: bool = False) -> str:
    names = [str(folder.path) if full else folder.id for folder in runs[:_SHOWN]]
    more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    return ", ".join(names) + more


def _names(root: Path) -> list[str]:
    with os.scandir(root) as entries:
        return [entry.name for entry in entries]


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


def _after(suffix: str) -> str:
    """The next suffix in sorting order: one more digit where the last one is used up."""
    return suffix[:-1] + _DIGITS[_DIGITS.index(suffix[-1]) + 1] if suffix[-1] != "z" else suffix + "0"
