"""Whole runs over .json files, folders of texts and SQLite: bad records, changes of the input, and going on after an end amid reading."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import InputBrokenError, InputError, SpecError
from headrace.runs.pipeline import RunOptions
from headrace.sources.open import OpenedSource
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
QUERY = "SELECT id, text FROM articles"


def put_array(mill: Any, texts: list[str]) -> dict[str, Any]:
    mill.write("in.json", json.dumps([{"id": n, "text": text} for n, text in enumerate(texts)], indent=1))
    return {"path": "in.json"}


def put_packed_array(mill: Any, texts: list[str]) -> dict[str, Any]:
    mill.write(
        "in.json.gz", gzip.compress(json.dumps({"data": [{"id": n, "text": text} for n, text in enumerate(texts)]}).encode())
    )
    return {"path": "in.json.gz"}


def put_folder(mill: Any, texts: list[str]) -> dict[str, Any]:
    (mill.folder / "texts").mkdir(exist_ok=True)
    for n, text in enumerate(texts):
        mill.write(f"texts/{n:06d}.txt", text)
    return {"path": "texts/"}


def put_rows(mill: Any, texts: list[str]) -> dict[str, Any]:
    connection = sqlite3.connect(mill.folder / "in.db")
    connection.execute("DROP TABLE IF EXISTS articles")
    connection.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, text TEXT)")
    connection.executemany("INSERT INTO articles VALUES (?, ?)", enumerate(texts))
    connection.commit()
    connection.close()
    return {"path": "sqlite:///in.db", "query": QUERY}


FORMS: list[Callable[[Any, list[str]], dict[str, Any]]] = [put_array, put_packed_array, put_folder, put_rows]


@pytest.mark.parametrize("put", FORMS)
def test_every_record_is_answered_in_order_beside_its_own_fields(mill, put):
    texts = [f'text {n} with "quotes", \\ and é\u2028\nlines' for n in range(20)]
    mill.put_job(URL, input=put(mill, texts))
    done = mill.rehearse()
    assert done.items == {"done": 20}
    assert mill.answers() == texts
    assert [row["text"] for row in mill.rows()] == texts
    again = mill.rehearse()
    assert (again.result.run, again.seen["requests"]) == (done.result.run, 0)


@pytest.mark.parametrize("put", FORMS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_records_go_into_any_form_of_output(mill, put, suffix: str):
    mill.put_job(URL, input=put(mill, ["one", "two"]), output={"path": f"out{suffix}"})
    assert mill.rehearse().result.exit_code == 0
    assert (mill.folder / f"out{suffix}").stat().st_size


@pytest.mark.parametrize("put", FORMS)
def test_where_limit_and_max_record_hold_for_every_form(mill, put):
    texts = [f"{'a' if n % 2 else 'b'}{n}" for n in range(30)]
    texts[7] = "a" * 5000
    mill.put_job(URL, input={**put(mill, texts), "where": "text[0] == 'a'", "limit": 6, "max_record": "1 kB"})
    done = mill.rehearse()
    assert done.items == {"done": 5, "rejected": 1}
    assert mill.answers() == ["a1", "a3", "a5", None, "a9", "a11"]
    assert mill.rows()[3]["answer_error"].startswith("bad_input: too large: ")


def rehearse_until_broken(mill: Any, chunks: int) -> None:
    """A run whose input cannot be read on after so many chunks of 30 records."""
    read = OpenedSource.read
    given = 0

    def read_until_it_breaks(self: OpenedSource, limit: int) -> Any:
        nonlocal given
        if given == chunks:
            raise InputBrokenError("input: the disk is gone")
        given += 1
        return read(self, min(limit, 30))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenedSource, "read", read_until_it_breaks)
        done = mill.rehearse()
    assert (done.result.exit_code, done.result.reason) == (7, "input")
    assert done.items == {"done": 30 * chunks}


@pytest.mark.parametrize("put", FORMS)
@pytest.mark.parametrize("chunks", [1, 3])
def test_reading_goes_on_where_it_broke_off_and_nothing_is_paid_for_twice(mill, put, chunks: int):
    texts = [f"text {n}" for n in range(200)]
    mill.put_job(URL, input=put(mill, texts))
    rehearse_until_broken(mill, chunks)
    done = mill.rehearse()
    assert [run.name for run in mill.runs] == [done.result.run]
    assert done.items == {"done": 200}
    assert done.seen["requests"] == 200 - 30 * chunks
    assert mill.answers() == texts
    assert [row["text"] for row in mill.rows()] == texts


@pytest.mark.parametrize("put", FORMS)
def test_a_run_goes_on_over_an_input_whose_unread_part_has_changed(mill, put):
    texts = [f"text {n}" for n in range(200)]
    mill.put_job(URL, input=put(mill, texts))
    rehearse_until_broken(mill, 2)
    texts[150:] = [f"later {n}" for n in range(60)]
    put(mill, texts)
    done = mill.rehearse()
    assert len(mill.runs) == 1
    assert done.items == {"done": 210}
    assert mill.answers() == texts


@pytest.mark.parametrize("put", FORMS)
def test_what_changed_in_the_input_of_an_unfinished_run_is_counted(mill, put):
    texts = [f"text {n}" for n in range(10)]
    input_ = put(mill, texts)
    mill.put_job(
        URL, input={**input_, "id": "path" if put is put_folder else "id"}, endpoint={"concurrency": 1, "identity": "mill"}
    )
    stopped = mill.rehearse(Rule(after=3, status=401))
    assert stopped.result.exit_code == 4
    put(mill, [*texts[:4], "other", *texts[5:], "new"])
    os.utime(mill.folder / Path(input_["path"].removeprefix("sqlite:///")), ns=(1, 10**18))
    with pytest.raises(SpecError, match="the input \\(1 record added, 0 removed, 1 changed\\)"):
        mill.rehearse()
    taken = mill.rehearse(options=RunOptions(reuse="last"))
    assert taken.items == {"done": 11}
    assert taken.seen["requests"] < 11


def test_inp_11_bad_elements_of_an_array_are_rejected_and_the_rest_is_answered(mill):
    mill.write("in.json", b'[{"text":"a"}, {}, {"text":null}, {"text":123}, [1], "str", {"text": NaN}, {"text":"b"},]')
    mill.put_job(URL, input={"path": "in.json"})
    done = mill.rehearse()
    assert (done.result.exit_code, done.items) == (3, {"done": 3, "rejected": 5})
    rows = mill.rows()
    assert [row["answer"] for row in rows] == ["a", None, None, "123", None, None, None, "b"]
    assert [row["answer_record"] for row in rows] == [None, None, None, None, 5, 6, 7, None]
    assert [row["answer_input"] for row in rows[4:7]] == ["[1]", '"str"', '{"text": NaN}']


def test_inp_08_ids_of_a_database_come_out_as_they_are(mill):
    connection = sqlite3.connect(mill.folder / "in.db")
    connection.execute("CREATE TABLE t (id, text TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(2**53 + 1, "a"), ("007", "b"), (None, "c"), (1.5, "d")])
    connection.commit()
    connection.close()
    mill.put_job(URL, input={"path": "sqlite:///in.db", "query": "SELECT * FROM t", "id": "id"})
    assert mill.rehearse().items == {"done": 4}
    assert [row["id"] for row in mill.rows()] == [2**53 + 1, "007", None, 1.5]


def test_an_array_that_was_cut_off_ends_the_run_with_7_and_goes_on_when_it_is_whole(mill):
    texts = [f"text {n}" for n in range(3000)]
    put_array(mill, texts)
    whole = (mill.folder / "in.json").read_bytes()
    mill.write("in.json", whole[: len(whole) // 2])
    mill.put_job(URL, input={"path": "in.json"})
    with mill.sim() as sim:
        told = mill.run("--set", f"endpoint.url={sim.url}")
        assert told.code == 7
        assert "in.json: ends inside record 1" in told.err
        status = mill.status()
        assert (status["reason"], status["input_complete"]) == ("input", False)
        assert 1400 < status["items"]["done"] < 1600
        mill.write("in.json", whole)
        told = mill.run("--set", f"endpoint.url={sim.url}")
        assert (told.code, sim.stats()["requests"]) == (0, 3000)
    assert mill.answers() == texts
    assert len(mill.runs) == 1


@pytest.mark.parametrize(
    ("input_", "said"),
    [
        ({"path": "in.json", "query": "SELECT 1"}, "input.query: found with an input.path that is no database"),
        ({"path": "sqlite:///in.db"}, "input.query: is missing: a sqlite:/// input needs one SELECT; tables there: articles"),
        ({"path": "sqlite:///in.db", "query": "SELECT * FROM none"}, "no such table: none; tables there: articles"),
        ({"path": "sqlite:///none.db", "query": QUERY}, "none.db: no such file"),
        ({"path": "empty"}, "no file in this folder"),
        ({"path": "values.json"}, "holds several JSON values"),
    ],
)
def test_an_input_that_cannot_be_used_is_refused_with_one_line_and_leaves_nothing(mill, input_: dict[str, Any], said: str):
    put_array(mill, ["x"])
    put_rows(mill, ["x"])
    (mill.folder / "empty").mkdir()
    mill.write("values.json", '{"a": 1} {"a": 2}')
    mill.put_job(URL, input=input_)
    told = mill.run()
    assert (told.code, mill.runs) == (2, [])
    assert said in told.err
    assert not (mill.folder / "none.db").exists()


def test_fields_that_are_not_there_are_told_for_every_form(mill):
    mill.put_job(URL, input=put_rows(mill, ["x"]), prompt={"user": "{{ body }}"})
    with pytest.raises(InputError, match="fields found: 'id', 'text'"):
        mill.rehearse()
    mill.put_job(URL, input=put_folder(mill, ["x"]), prompt={"user": "{{ body }}"})
    with pytest.raises(InputError, match="fields found: 'path', 'text'"):
        mill.rehearse()


def test_an_output_inside_the_folder_that_is_read_is_refused(mill):
    put_folder(mill, ["x"])
    mill.put_job(URL, input={"path": "texts"}, output={"path": "texts/out.jsonl"})
    with pytest.raises(SpecError, match=r"inside the folder that input\.path names"):
        mill.rehearse()


@pytest.mark.slow
@pytest.mark.parametrize("put", FORMS)
def test_per_01_killed_twice_a_run_over_each_form_goes_on_where_it_was(mill, put, until):
    texts = [f"unit {n} of many" for n in range(4000)]
    with mill.sim() as sim:
        mill.put_job(sim.url, input=put(mill, texts), endpoint={"concurrency": 8})
        for mark in (1, 1200):  # the first while the input is read
            process = mill.start("run", "job.toml", "--quiet")
            until(lambda mark=mark: sim.stats()["prompts"] >= mark)
            process.send_signal(signal.SIGKILL)
            mill.told(process)
        told = mill.run()
        seen = sim.stats()
    assert (told.code, seen["prompts"], len(mill.runs)) == (0, 4000, 1)
    assert mill.answers() == texts


@pytest.mark.slow
def test_a_query_that_computes_without_end_gives_way_to_ctrl_c(mill):
    put_rows(mill, ["x"])
    endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select n as text from c where n < 3 or n < 0"
    with mill.sim() as sim:
        mill.put_job(sim.url, input={"path": "sqlite:///in.db", "query": endless}, limits={"drain": 1})
        process = mill.start("run", "job.toml", "--json")
        assert process.stderr is not None
        process.stderr.readline()  # it is at work
        process.send_signal(signal.SIGINT)
        told = mill.told(process)
    assert told.code == 130
    assert (told.document["reason"], told.document["input_complete"]) == ("interrupted", False)
