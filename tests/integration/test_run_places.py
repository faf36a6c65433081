"""Which files a run may replace or remove: its own, never the user's."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import InputError, SpecError
from headrace.testing.sim import SimOptions, SimServer


def job(url: str, folder: Path, **input_: object) -> dict[str, object]:
    return {
        "name": "places",
        "input": {"path": "in.jsonl", **input_},
        "prompt": {"user": "{{ text }}"},
        "model": {"name": "m"},
        "endpoint": {"url": url},
        "output": {"path": "out.jsonl"},
    }


def put(path: Path, count: int) -> None:
    path.write_text("".join(json.dumps({"text": f"text {n}"}) + "\n" for n in range(count)), encoding="utf-8")


async def run(folder: Path, spec: dict[str, object]) -> headrace.Result:
    return await headrace.arun(headrace.Job(base=folder, **spec))


async def with_sim(folder: Path, **input_: object) -> headrace.Result:
    async with SimServer(SimOptions()) as sim:
        return await run(folder, job(sim.url, folder, **input_))


def drive(folder: Path, **input_: object) -> headrace.Result:
    import asyncio

    return asyncio.run(with_sim(folder, **input_))


def test_a_foreign_file_in_the_partial_outputs_place_is_refused_and_kept(tmp_path: Path) -> None:
    put(tmp_path / "in.jsonl", 3)
    (tmp_path / "out.partial.jsonl").write_text("mine", encoding="utf-8")
    with pytest.raises(SpecError, match=r"out\.partial\.jsonl is already there"):
        drive(tmp_path)
    assert (tmp_path / "out.partial.jsonl").read_text(encoding="utf-8") == "mine"


def test_an_input_in_the_partial_outputs_place_is_refused_and_kept(tmp_path: Path) -> None:
    put(tmp_path / "out.partial.jsonl", 3)
    before = (tmp_path / "out.partial.jsonl").read_bytes()
    with pytest.raises(SpecError, match="would replace the input"):
        drive(tmp_path, path="out.partial.jsonl")
    assert (tmp_path / "out.partial.jsonl").read_bytes() == before


def test_an_output_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    put(tmp_path / "in.jsonl", 1)
    spec = job("http://127.0.0.1:9/v1", tmp_path)
    spec["output"] = {"path": "a" * 300 + ".jsonl"}
    with pytest.raises(SpecError, match=r"output\.path"):
        headrace.run(headrace.Job(base=tmp_path, **spec))


def test_an_input_that_broke_off_goes_on_where_it_stopped_once_it_is_whole(tmp_path: Path) -> None:
    put(tmp_path / "whole.jsonl", 6000)
    packed = gzip.compress((tmp_path / "whole.jsonl").read_bytes(), 1)
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError):
        drive(tmp_path, path="in.jsonl.gz")
    source.write_bytes(packed)
    result = drive(tmp_path, path="in.jsonl.gz")
    assert result.exit_code == 0
    assert result.status["items"]["done"] == 6000
    assert result.status["requests"]["sent"] == 6000
    assert [record["answer"] for record in result] == [f"text {n}" for n in range(6000)]


def test_a_finished_run_whose_output_another_process_died_writing_writes_it_again(tmp_path: Path) -> None:
    from headrace.ledger.writer import SqliteLedger

    put(tmp_path / "in.jsonl", 3)
    first = drive(tmp_path)
    ledger = SqliteLedger(first.folder / "ledger.db")
    ledger.put_meta(output=None, output_is_current=False, writing=[str(tmp_path / "out.jsonl")])
    ledger.close()
    (tmp_path / "out.jsonl").write_text("half", encoding="utf-8")
    second = drive(tmp_path)
    assert second.run == first.run
    assert len((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_process_that_died_before_anything_was_stored_blocks_no_later_one(tmp_path: Path, left: str) -> None:
    put(tmp_path / "in.jsonl", 3)
    first = drive(tmp_path)
    (tmp_path / "out.jsonl").unlink()
    for file in first.folder.glob("ledger.db*"):
        file.unlink()
    if left == "an empty file":
        (first.folder / "ledger.db").touch()
    second = drive(tmp_path)
    assert second.exit_code == 0
    assert second.run != first.run


def test_a_run_whose_cover_sheet_was_lost_is_still_known_by_its_ledger(tmp_path: Path) -> None:
    put(tmp_path / "in.jsonl", 3)
    first = drive(tmp_path)
    (first.folder / "run.json").unlink()
    (tmp_path / "out.jsonl").unlink()
    second = drive(tmp_path)
    assert second.run == first.run
    assert second.status["requests"]["sent"] == 3


def test_a_file_that_has_only_grown_keeps_its_fields_in_the_output(tmp_path: Path) -> None:
    put(tmp_path / "in.jsonl", 3)
    first = drive(tmp_path)
    with (tmp_path / "in.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"text": "later"}\n')
    assert [record["text"] for record in first] == ["text 0", "text 1", "text 2"]


def test_a_file_that_is_changed_while_it_is_read_is_warned_about(tmp_path: Path) -> None:
    import asyncio
    import csv

    rows = 5000
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([f"text {n}"] for n in range(rows))])
    said: list[object] = []

    async def main() -> headrace.Result:
        async with SimServer(SimOptions()) as sim:

            def touch(event: object) -> None:
                said.append(event)
                (tmp_path / "in.csv").touch()

            return await headrace.arun(headrace.Job(base=tmp_path, **job(sim.url, tmp_path, path="in.csv")), observers=[touch])

    assert asyncio.run(main()).exit_code == 0
    assert any("was changed while it was read" in getattr(event, "message", "") for event in said)


def test_a_reused_run_that_nobody_knows_is_told_even_where_nothing_is_to_be_done(tmp_path: Path) -> None:
    import asyncio

    put(tmp_path / "in.jsonl", 3)
    drive(tmp_path)

    async def main() -> None:
        async with SimServer(SimOptions()) as sim:
            await headrace.arun(headrace.Job(base=tmp_path, **job(sim.url, tmp_path)), reuse="nobody")

    with pytest.raises(headrace.HeadraceError, match="no run answers to 'nobody'"):
        asyncio.run(main())


@pytest.mark.parametrize("overrides", [[], ["limits.run_deadline=10ms"]])
def test_what_a_process_that_died_left_of_a_part_so_far_is_removed_by_the_next_run(mill: Any, overrides: list[str]) -> None:
    mill.put_texts(3)
    mill.put_job("http://127.0.0.1:9/v1")
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    left = [f"out{part}.jsonl.tmp-{dead.stdout.strip()}" for part in ("", ".partial")]
    others = [f"out.jsonl.tmp-{os.getppid()}", f"other.partial.jsonl.tmp-{dead.stdout.strip()}"]
    for name in [*left, *others]:
        mill.write(name, "left")
    mill.rehearse(overrides=overrides)
    mill.rehearse()
    assert {path.name for path in mill.folder.glob("*.tmp-*")} == set(others)
