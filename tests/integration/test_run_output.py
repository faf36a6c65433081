"""What a whole run writes: formats, details, names that clash, and whose file may be replaced."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.errors import SpecError
from headrace.runs.failures import failures
from headrace.runs.outputs import export_run
from headrace.runs.registry import RunFolder
from headrace.runs.status import show, status
from headrace.testing.sim import Rule
from headrace.values import Status

URL = "http://127.0.0.1:9/v1"
BASIC = ["answer", "answer_status", "answer_error", "answer_notes"]
DETAILS = [
    "answer_model", "answer_attempts", "answer_prompt_tokens", "answer_completion_tokens", "answer_cached_tokens",
    "answer_seconds", "answer_unit", "answer_raw",
]  # fmt: skip


def table(mill: Any, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((mill.folder / path).read_text(encoding="utf-8"), newline="")))


def test_input_fields_pass_through_byte_for_byte(mill):
    line = b'{"text": "a",  "n":1.50, "u":"\\u00e9", "text2": null, "deep": {"k": [1,  2]}}'
    mill.write("in.jsonl", line + b"\n")
    mill.put_job(URL)
    assert mill.rehearse().items == {"done": 1}
    assert mill.output.read_bytes().startswith(line[:-1] + b',"answer":"a"')


def test_csv_says_the_same_as_jsonl(mill):
    mill.put_rows([{"id": 1, "text": 'a "b"\n,c'}, {"id": 2, "text": None}, {"id": 3, "text": "é🙂"}])
    mill.put_job(URL, output={"path": "out.csv"})
    assert mill.rehearse().items == {"done": 2, "rejected": 1}
    rows = table(mill, "out.csv")
    assert list(rows[0]) == ["id", "text", *BASIC]
    assert [(row["id"], row["answer"], row["answer_status"]) for row in rows] == [
        ("1", 'a "b"\n,c', "done"), ("2", "", "rejected"), ("3", "é🙂", "done"),
    ]  # fmt: skip


def test_out_05_the_tables_columns_do_not_depend_on_the_outcome(mill):
    mill.put_texts(300)
    mill.put_job(URL, output={"path": "out.parquet"}, answer={"schema": {}, "retry_invalid": 0}, endpoint={"concurrency": 20})
    shapes = ['{"a": 1}', "[1, 2]", '"text"', "3.5", "true", '{"b": {"c": null}}']
    too_long = {"error": {"code": "context_length_exceeded", "message": "too long"}}
    rules = [Rule(match=f"row {n}.", status=400, body=too_long) for n in range(100)]
    rules += [Rule(match=f"row {n}.", content=shapes[n % len(shapes)]) for n in range(100, 300)]
    done = mill.rehearse(*rules)
    assert done.items == {"done": 200, "failed": 100}
    file = pq.ParquetFile(mill.folder / "out.parquet")
    read = file.read().to_pylist()
    assert [row["id"] for row in read] == [f"r{n}" for n in range(300)]
    assert read[0]["answer"] is None
    # A column of one type: strings as they are, everything else as JSON text.
    assert [read[n]["answer"].replace(" ", "") for n in range(102, 108)] == [
        '{"a":1}', "[1,2]", "text", "3.5", "true", '{"b":{"c":null}}',
    ]  # fmt: skip


def test_details_add_their_columns_and_their_values_are_the_servers(mill):
    mill.put_texts(2)
    mill.put_job(URL, output={"details": True})
    done = mill.rehearse(Rule(match="row 1.", times=1, status=500))
    rows = mill.rows()
    assert list(rows[0]) == ["id", "text", *BASIC, *DETAILS]
    assert [row["answer_attempts"] for row in rows] == [1, 2]
    assert sum(row["answer_prompt_tokens"] for row in rows) == done.seen["tokens"]["prompt"]
    assert sum(row["answer_completion_tokens"] for row in rows) == done.seen["tokens"]["completion"]
    assert [row["answer_model"] for row in rows] == ["m", "m"]
    assert [row["answer_raw"] for row in rows] == ["row 0.", "row 1."]


def test_a_name_that_clashes_gets_an_underscore_in_every_row(mill):
    mill.put_rows([{"text": "a"}, {"text": "b", "answer": "mine", "answer_status": 7}])
    mill.put_job(URL)
    mill.rehearse()
    rows = mill.rows()
    assert rows[0] == {"text": "a", "answer_": "a", "answer_status_": "done", "answer_error": None, "answer_notes": []}
    assert rows[1]["answer"] == "mine"
    assert (rows[1]["answer_status"], rows[1]["answer_"], rows[1]["answer_status_"]) == (7, "b", "done")


def test_columns_for_unreadable_records_are_there_only_if_there_are_any(mill):
    mill.put_texts(1)
    mill.put_job(URL)
    mill.rehearse()
    assert "answer_record" not in mill.rows()[0]
    mill.write("broken.jsonl", '{"text": "a"}\n' + "x" * 3000 + "\n")
    mill.put_job(URL, name="broken.toml", input={"path": "broken.jsonl"}, output={"path": "broken.csv"})
    mill.rehearse(job="broken.toml")
    rows = table(mill, "broken.csv")
    assert (rows[1]["answer_record"], rows[1]["answer_input"]) == ("2", "x" * 1000)
    assert (rows[0]["answer_record"], rows[0]["answer_input"]) == ("", "")


def test_a_foreign_file_is_not_replaced_unless_the_job_says_so(mill):
    mill.put_texts(2)
    mill.put_job(URL)
    mill.output.write_text("precious\n")
    with pytest.raises(SpecError, match=r"output\.path") as refused:
        mill.rehearse()
    assert refused.value.exit_code == 2
    assert mill.output.read_text() == "precious\n"
    assert mill.runs == []
    assert mill.rehearse(overrides=["output.overwrite=true"]).items == {"done": 2}
    assert len(mill.rows()) == 2


def test_an_output_that_somebody_changed_is_not_replaced(mill):
    mill.put_texts(2)
    mill.put_job(URL)
    mill.rehearse()
    with mill.output.open("a") as file:
        file.write('{"mine": 1}\n')
    with pytest.raises(SpecError, match=r"output\.path"):
        mill.rehearse(overrides=["model.seed=1"])
    assert mill.output.read_text().endswith('{"mine": 1}\n')


def test_export_writes_any_format_any_status_again(mill):
    mill.put_texts(6)
    mill.put_job(URL)
    done = mill.rehearse(Rule(match="row 3.", status=400, body={"error": {"message": "no"}}))
    folder = RunFolder(done.result.folder)
    same = mill.folder / "same.jsonl"
    assert export_run(folder, same, None, details=False) == (6, None)
    assert same.read_bytes() == mill.output.read_bytes()
    failed = mill.folder / "failed.csv"
    assert export_run(folder, failed, frozenset({Status.FAILED}), details=True)[0] == 1
    (row,) = table(mill, "failed.csv")
    assert (row["id"], row["answer_attempts"]) == ("r3", "1")
    export_run(folder, mill.folder / "all.parquet", None, details=True)
    assert pq.read_table(mill.folder / "all.parquet").num_rows == 6


def test_an_input_that_changed_since_is_never_paired_by_place(mill):
    mill.put_texts(3)
    mill.put_job(URL, input={"id": "id"})
    done = mill.rehearse()
    mill.put_rows([{"id": "other", "text": "moved"}] + [{"id": f"r{n}", "text": f"row {n}."} for n in range(3)])
    rows, warning = export_run(RunFolder(done.result.folder), mill.folder / "again.jsonl", None, details=False)
    assert rows == 3
    assert warning is not None
    again = mill.rows(mill.folder / "again.jsonl")
    assert [(row["id"], row["answer"]) for row in again] == [(f"r{n}", f"row {n}.") for n in range(3)]
    assert set(again[0]) == {"id", *BASIC}


def test_failures_are_grouped_with_counts_and_examples(mill):
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(30)] + [{"id": "bad"}])
    mill.put_job(URL, input={"id": "id"})
    body = {"error": {"message": "The image is broken."}}
    done = mill.rehearse(*[Rule(match=f"row {n}.", status=400, body=body) for n in (3, 4, 5)])
    groups = failures(done.result.folder)["groups"]
    assert [(group["status"], group["kind"], group["count"]) for group in groups] == [
        ("failed", "bad_request", 3), ("rejected", "bad_input", 1),
    ]  # fmt: skip
    assert set(groups[0]["examples"]) <= {"r3", "r4", "r5"}
    assert groups[1]["examples"] == ["bad"]
    assert "The image is broken." in groups[0]["message"]


def test_failures_that_differ_by_their_numbers_alone_are_one_group(mill):
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}. " + "word " * 40 * n} for n in range(1, 7)])
    mill.put_job(URL, input={"id": "id"}, slice={"max_input": "600 chars"})
    done = mill.rehearse(
        Rule(match="row 1.", status=400, body={"error": {"message": "Your prompt has 301 tokens."}}),
        Rule(match="row 2.", status=400, body={"error": {"message": "Your prompt has 302 tokens."}}),
    )
    groups = failures(done.result.folder)["groups"]
    assert [(group["status"], group["kind"], group["count"]) for group in groups] == [
        ("rejected", "bad_input", 4), ("failed", "bad_request", 2),
    ]  # fmt: skip
    assert groups[1]["examples"] == ["r1", "r2"]
    assert len(groups[0]["examples"]) == 3


def test_failures_come_with_how_a_record_and_its_answer_begin(mill):
    long = "a long text " * 100
    mill.put_rows([{"id": "cut", "text": "row 1." + long}, {"id": "no text"}, {"id": "bad", "text": "row 2."}])
    with (mill.folder / "in.jsonl").open("ab") as file:
        file.write(b'{"broken \xff\x1b[2J\n')
    mill.put_job(URL, input={"id": "id"}, answer={"labels": ["a"], "retry_invalid": 0})
    rules = [Rule(match="row 1.", content="Sure! " * 100), Rule(match="row 2.", status=400)]
    done = mill.rehearse(*rules)
    excerpts = {group["examples"][0]: group["excerpt"] for group in failures(done.result.folder)["groups"]}
    assert excerpts["cut"]["record"].startswith('{"id": "cut", "text": "row 1.a long text')
    assert excerpts["cut"]["answer"].startswith("Sure! Sure! ")
    assert [len(text) for text in excerpts["cut"].values()] == [300, 300]
    assert excerpts["no text"] == {"record": '{"id": "no text"}', "answer": None}
    assert excerpts["bad"] == {"record": '{"id": "bad", "text": "row 2."}', "answer": None}
    assert excerpts[4] == {"record": '{"broken \ufffd\x1b[2J', "answer": None}


@pytest.mark.parametrize("gone", [True, False])
def test_failures_show_no_record_of_an_input_that_is_not_what_it_was(mill, gone):
    mill.put_rows([{"id": "a"}, {"id": "b", "text": "row 1."}])
    mill.put_job(URL, input={"id": "id"})
    done = mill.rehearse()
    if gone:
        (mill.folder / "in.jsonl").unlink()
    else:
        mill.put_rows([{"id": "other"}])
    assert [group["excerpt"] for group in failures(done.result.folder)["groups"]] == [{"record": None, "answer": None}]


def test_a_command_that_sends_nothing_leaves_the_archive_as_it_was(mill):
    mill.put_texts(2)
    mill.put_job(URL)
    archive = RunFolder(mill.rehearse().result.folder).archive
    before = archive.read_bytes()
    again = mill.rehearse(overrides=["limits.max_attempts=2"])  # and another address: a server has another port each time
    assert again.seen["requests"] == 0
    assert archive.read_bytes() == before


@pytest.mark.parametrize("left", [b"{}", b'{"figures": {"state": "stopped"}}', None])
def test_an_archive_that_does_not_tell_the_end_is_written_by_the_next_command(mill, left):
    mill.put_texts(2)
    mill.put_job(URL)
    archive = RunFolder(mill.rehearse().result.folder).archive
    archive.unlink() if left is None else archive.write_bytes(left)
    assert mill.rehearse().seen["requests"] == 0
    assert json.loads(archive.read_bytes())["figures"]["state"] == "finished"


def test_the_archive_holds_configuration_and_figures(mill):
    mill.put_texts(2)
    mill.put_job(URL, prompt={"version": "v3"})
    done = mill.rehearse()
    shown = show(done.result.folder)
    assert shown["configuration"]["prompt"] == shown["configuration"]["prompt"] | {"user": "{{ text }}", "version": "v3"}
    assert shown["figures"]["items"]["done"] == 2
    assert shown["figures"] == status(done.result.folder)
