"""Run folders: their names sort, and they are found by id, prefix, path and `last`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.errors import DiskError, RunNotFoundError
from headrace.runs.registry import RUNS_FOLDER, RunFolder, create_run, job_runs, list_runs, resolve, runs_folder, state_folder

NOON = 1_796_000_000.0


def made(root: Path, now: float, state: Path | None = None) -> RunFolder:
    folder = create_run(root, now, state=state, name="sort")
    folder.archive.write_text("{}", encoding="utf-8")
    return folder


def test_an_id_tells_its_time_and_its_files_lie_in_its_folder(tmp_path: Path) -> None:
    folder = create_run(tmp_path, 0.0)
    assert folder.id.startswith("19700101-000000-")
    assert folder.started == "1970-01-01T00:00:00Z"
    assert folder.ledger == folder.path / "ledger.db"
    assert {folder.lock.name, folder.records.name, folder.archive.name} == {"run.lock", "records.jsonl", "run.json"}


def test_a_renamed_folder_has_no_start() -> None:
    assert RunFolder(Path("mine")).started is None
    assert RunFolder(Path("99999999-999999-abcd")).started is None


def test_ids_sort_by_the_time_they_were_made_also_within_a_second_and_when_the_clock_stands(tmp_path: Path) -> None:
    steps = random.Random(4)
    now, ids = NOON, []
    for _ in range(60):
        now += steps.choice([0.0, 0.0, 0.0001, 0.3])
        ids.append(create_run(tmp_path, now).id)
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_runs_lie_beside_the_job_unless_told_otherwise(tmp_path: Path) -> None:
    assert runs_folder(tmp_path) == tmp_path / ".headrace" / "runs"
    assert runs_folder(tmp_path, tmp_path / "x") == tmp_path / "x"


def test_a_root_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="--run-dir"):
        create_run(tmp_path / "file" / "runs", NOON)


def test_only_folders_that_hold_a_run_count(tmp_path: Path) -> None:
    create_run(tmp_path, NOON)
    (tmp_path / "notes").mkdir()
    run = made(tmp_path, NOON)
    assert job_runs(tmp_path) == [run]
    assert job_runs(tmp_path / "nowhere") == []


def test_last_is_the_newest_run_of_the_nearest_folder_above(tmp_path: Path) -> None:
    made(tmp_path / RUNS_FOLDER, NOON)
    newest = made(tmp_path / RUNS_FOLDER, NOON + 5)
    below = tmp_path / "a" / "b"
    (below / RUNS_FOLDER).mkdir(parents=True)
    assert resolve(None, below, None) == resolve("last", below, None) == newest


def test_a_run_is_found_by_id_by_unique_prefix_and_by_path(tmp_path: Path) -> None:
    one = made(tmp_path / RUNS_FOLDER, NOON)
    made(tmp_path / RUNS_FOLDER, NOON + 86_400 * 40)
    assert resolve(one.id, tmp_path, None) == one
    assert resolve(one.id[:8], tmp_path, None) == one
    assert resolve(f".headrace/runs/{one.id}", tmp_path, None) == one
    assert resolve(str(one.path), Path("/"), None) == one


def test_what_fits_no_run_or_several_is_refused_with_what_there_is(tmp_path: Path) -> None:
    one, two = made(tmp_path / RUNS_FOLDER, NOON), made(tmp_path / RUNS_FOLDER, NOON + 1)
    with pytest.raises(RunNotFoundError, match="names 2 runs") as caught:
        resolve(one.id[:6], tmp_path, None)
    assert one.id in str(caught.value)
    assert two.id in str(caught.value)
    with pytest.raises(RunNotFoundError, match=one.id):
        resolve("zzz", tmp_path, None)
    with pytest.raises(RunNotFoundError, match="no run answers to ''"):
        resolve("", tmp_path / "x", None)


def test_without_a_folder_above_the_registry_knows_the_runs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    run = made(tmp_path / "elsewhere", NOON, state)
    here = tmp_path / "here"
    here.mkdir()
    assert resolve("last", here, state) == run
    assert list_runs(here, state) == [run]
    with pytest.raises(RunNotFoundError, match="there is no run"):
        resolve("last", here, None)


def test_all_runs_are_listed_once_and_newest_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    near = made(tmp_path / RUNS_FOLDER, NOON, state)
    far = made(tmp_path / "far", NOON + 9, state)
    assert list_runs(tmp_path, state) == [near]
    assert list_runs(tmp_path, state, everywhere=True) == [far, near]


def test_dangling_and_broken_entries_are_passed_over(tmp_path: Path) -> None:
    state = tmp_path / "state"
    create_run(tmp_path / "far", NOON, state=state)
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"path": 3}'), ("d", '{"path": "\\u0000"}'), ("e", '{"path": "/gone"}')):
        (state / "runs" / f"{name}.json").write_text(text, encoding="utf-8")
    assert list_runs(tmp_path, state, everywhere=True) == []


def test_a_registry_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = made(tmp_path / "runs", NOON, tmp_path / "file" / "state")
    assert run.exists


def test_the_registry_lies_where_the_environment_says() -> None:
    assert state_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/headrace")
    assert state_folder({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/state/headrace")
    assert state_folder({}) is None
