"""What a whole run makes of its input: every record comes out once, in order, as it went in."""

from __future__ import annotations

import codecs
import decimal
import gzip
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from headrace.errors import InputError, SpecError
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
OURS = {"answer", "answer_status", "answer_error", "answer_notes"}


def errors(rows: list[dict[str, Any]]) -> list[str | None]:
    return [row["answer_error"] for row in rows]


def test_inp_01_a_bom_is_no_part_of_the_first_field(mill):
    mill.write("in.csv", codecs.BOM_UTF8 + b"prompt,id\r\nhello,1\r\n")
    mill.put_job(URL, input={"path": "in.csv", "id": "id"}, prompt={"user": "{{ prompt }}"})
    done = mill.rehearse()
    assert done.items == {"done": 1}
    assert mill.rows() == [
        {"prompt": "hello", "id": "1", "answer": "hello", "answer_status": "done", "answer_error": None, "answer_notes": []}
    ]
    assert codecs.BOM_UTF8 not in mill.output.read_bytes()


def test_inp_01_a_field_that_is_not_there_is_refused_with_those_that_are(mill):
    mill.write("in.csv", codecs.BOM_UTF8 + "prömpt,id\r\nhello,1\r\n".encode())
    mill.put_job(URL, input={"path": "in.csv"}, prompt={"user": "{{ prompt }}"})
    with pytest.raises(InputError, match=r"fields found: 'pr\\xf6mpt', 'id'") as refused:
        mill.rehearse()
    assert refused.value.exit_code == 2
    assert mill.runs == []
    assert not mill.output.exists()


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-32"])
def test_inp_01_every_bom_is_understood(mill, coding: str):
    mill.write("in.jsonl", '{"text": "é🙂"}\n{"text": "b"}\n'.encode(coding))
    mill.put_job(URL)
    assert mill.rehearse().items == {"done": 2}
    assert mill.answers() == ["é🙂", "b"]


def test_inp_03_records_are_framed_by_the_newline_alone(mill):
    text = "one\u2028two\u0085three\x0bfour\u2029five"
    mill.put_rows([{"text": text}, {"text": "six"}])
    mill.put_job(URL)
    done = mill.rehearse()
    assert done.items == {"done": 2}
    assert [(row["text"], row["answer"]) for row in mill.rows()] == [(text, text), ("six", "six")]
    assert len(mill.output.read_text(encoding="utf-8").splitlines()) >= 2
    answer = mill.output.read_bytes().split(b'"answer":')[1]
    assert "\u2028".encode() not in answer  # ours is escaped, so that any reader finds one record


def test_inp_06_a_cell_of_any_length_is_read_up_to_the_limit(mill):
    mill.write("in.csv", "text,id\na,1\n" + "x" * 200_000 + ",2\nb,3\n")
    mill.put_job(URL, input={"path": "in.csv"})
    assert mill.rehearse(answer="echo:5").items == {"done": 3}
    assert mill.answers() == ["a", "xxxxx", "b"]
    mill.output.unlink()
    done = mill.rehearse(overrides=['input.max_record="100 kB"'])
    assert done.items == {"done": 2, "rejected": 1}
    assert mill.statuses() == ["done", "rejected", "done"]
    assert mill.rows()[1]["answer_error"].startswith("bad_input: ")


def test_inp_08_ids_come_out_as_they_went_in(mill):
    mill.write("in.csv", "id,text\n007,a\n12,b\n,c\n9007199254740993,d\n")
    mill.put_job(URL, input={"path": "in.csv", "id": "id"})
    assert mill.rehearse().items == {"done": 4}
    assert [row["id"] for row in mill.rows()] == ["007", "12", "", "9007199254740993"]


def test_inp_08_whole_numbers_stay_whole(mill):
    mill.write("in.jsonl", '{"id": 9007199254740993, "text": "a"}\n{"id": 123456789012345678901234567890, "text": "b"}\n')
    mill.put_job(URL, input={"id": "id"})
    assert mill.rehearse().items == {"done": 2}
    assert b'"id": 9007199254740993,' in mill.output.read_bytes()
    assert b"123456789012345678901234567890" in mill.output.read_bytes()
    table = pa.table({"id": pa.array([2**53 + 1, None], pa.int64()), "text": ["c", "d"]})
    pq.write_table(table, mill.folder / "in.parquet")
    mill.put_job(URL, name="other.toml", input={"path": "in.parquet", "id": "id"}, output={"path": "other.jsonl"})
    assert mill.rehearse(job="other.toml").items == {"done": 2}
    assert [row["id"] for row in mill.rows(mill.folder / "other.jsonl")] == [2**53 + 1, None]


def test_inp_10_values_of_tables_have_a_text(mill):
    columns = {
        "tags": pa.array([["a", "b"], ["c"]], pa.list_(pa.string())),
        "at": pa.array([1_714_979_289_000_000, 0], pa.int64()).cast(pa.timestamp("us")),
        "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("20.00")], pa.decimal128(10, 2)),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "long": pa.array(["l", "m"], pa.large_string()),
        "blob": pa.array([None, b"\x00\xff"], pa.binary()),
    }
    pq.write_table(pa.table(columns), mill.folder / "in.parquet")
    user = "{{ tags }} {{ tags[0] }} {{ at }} {{ price }} {{ kind }} {{ long }}"
    mill.put_job(URL, input={"path": "in.parquet"}, prompt={"user": user})
    assert mill.rehearse().items == {"done": 1, "rejected": 1}
    done, rejected = mill.rows()
    assert done["answer"].replace(", ", ",") == '["a","b"] a 2024-05-06T07:08:09 1.50 x l'
    assert rejected["answer_error"].startswith("bad_input: column 'blob'")


def test_inp_11_a_record_that_cannot_be_asked_is_a_row_and_the_run_goes_on(mill):
    mill.write("in.jsonl", '{"text":"a"}\n{}\n{"text":null}\n{"text":123}\n[1]\n"str"\n{"text":"b"}\nnot json\n')
    mill.put_job(URL)
    done = mill.rehearse()
    assert done.result.exit_code == 3
    assert done.items == {"done": 3, "rejected": 5}
    rows = mill.rows()
    assert [row["answer_status"] for row in rows] == [
        "done", "rejected", "rejected", "done", "rejected", "rejected", "done", "rejected",
    ]  # fmt: skip
    assert [row["answer"] for row in rows] == ["a", None, None, "123", None, None, "b", None]
    assert all(error.startswith("bad_input: ") for error in errors(rows) if error is not None)
    assert [row["answer_record"] for row in rows if row.get("answer_input") is not None] == [5, 6, 8]
    assert [row["answer_input"] for row in rows if row.get("answer_input") is not None] == ["[1]", '"str"', "not json"]
    assert done.seen["requests"] == 3


def test_inp_11_bytes_that_are_no_text_reject_their_record_alone(mill):
    mill.write("in.jsonl", b'{"text":"a"}\n{"text":"\xff\xfe"}\n{"text":"b"}\n')
    mill.put_job(URL)
    assert mill.rehearse().items == {"done": 2, "rejected": 1}
    assert mill.answers() == ["a", None, "b"]


def test_inp_13_ids_that_repeat_or_are_empty_lose_no_row(mill):
    rows = [{"id": name, "text": f"t{n}"} for n, name in enumerate(["a", "a", "", None, "A"])]
    mill.put_rows(rows)
    mill.put_job(URL, input={"id": "id"})
    assert mill.rehearse().items == {"done": 5}
    assert [(row["id"], row["answer"]) for row in mill.rows()] == [(row["id"], row["text"]) for row in rows]


def test_an_id_field_that_no_record_has_is_refused(mill):
    mill.put_texts(5)
    mill.put_job(URL, input={"id": "nmae"})
    with pytest.raises(InputError, match=r"input\.id.*'nmae'.*'id', 'text'"):
        mill.rehearse()


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_input_is_read(mill, suffix: str):
    raw = b'{"text": "a"}\n{"text": "b"}\n'
    mill.write(f"in.jsonl.{suffix}", gzip.compress(raw) if suffix == "gz" else zstandard.ZstdCompressor().compress(raw))
    mill.put_job(URL, input={"path": f"in.jsonl.{suffix}"})
    assert mill.rehearse().items == {"done": 2}
    assert mill.answers() == ["a", "b"]


def test_every_form_of_input_gives_the_same_answers(mill):
    rows = [{"text": "a"}, {"text": 'é, "q"\n2'}, {"text": "c"}]
    mill.put_rows(rows, "in.ndjson")
    mill.write("in.csv", 'text\na\n"é, ""q""\n2"\nc\n')
    mill.write("in.tsv", 'text\na\n"é, ""q""\n2"\nc\n')
    pq.write_table(pa.Table.from_pylist(rows), mill.folder / "in.parquet")
    for suffix in ("ndjson", "csv", "tsv", "parquet"):
        mill.put_job(URL, name=f"{suffix}.toml", input={"path": f"in.{suffix}"}, output={"path": f"{suffix}.out.jsonl"})
        assert mill.rehearse(job=f"{suffix}.toml").items == {"done": 3}
        assert mill.answers(mill.folder / f"{suffix}.out.jsonl") == [row["text"] for row in rows]


def test_a_glob_is_read_in_order_of_its_names_and_one_without_a_file_is_refused(mill):
    for n in (2, 1, 3):
        mill.put_rows([{"text": f"{n}{letter}"} for letter in "ab"], f"part-{n}.jsonl")
    mill.put_job(URL, input={"path": "part-*.jsonl"})
    assert mill.rehearse().items == {"done": 6}
    assert mill.answers() == ["1a", "1b", "2a", "2b", "3a", "3b"]
    with pytest.raises((InputError, SpecError)) as refused:
        mill.rehearse(overrides=["input.path=none-*.jsonl"])
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("path", ["empty", "in.txt", "in.xyz"])
def test_a_form_of_input_that_is_not_served_is_refused_with_one_line_that_names_it(mill, path: str):
    (mill.folder / "empty").mkdir()
    mill.write("in.txt", "")
    mill.write("in.xyz", "")
    mill.put_job(URL, input={"path": path})
    with pytest.raises((InputError, SpecError)) as refused:
        mill.rehearse()
    assert refused.value.exit_code == 2
    assert path in str(refused.value)
    assert "\n" not in str(refused.value)
    assert mill.runs == []


def test_limit_counts_what_where_lets_through_and_the_rest_is_no_item(mill):
    mill.put_rows([{"lang": "en" if n % 2 else "de", "text": f"t{n}"} for n in range(20)] + [{"text": "no lang"}])
    mill.put_job(URL, input={"where": "lang == 'en'", "limit": 3})
    done = mill.rehearse()
    assert done.items == {"done": 3}
    assert mill.answers() == ["t1", "t3", "t5"]
    mill.output.unlink()
    whole = mill.rehearse(overrides=["input.limit=100"])
    assert whole.items == {"done": 10, "rejected": 1}  # the record on which `where` fails
    assert whole.result.status["excluded"] == 10


def test_no_record_is_success_with_a_warning(mill):
    mill.write("in.jsonl", b"")
    mill.put_job(URL)
    done = mill.rehearse()
    assert (done.result.exit_code, done.seen["requests"]) == (0, 0)
    assert mill.rows() == []
    assert any("no record" in getattr(event, "message", "") for event in done.events)


def test_a_thousand_records_rejected_for_one_reason_are_the_users_mistake(mill):
    mill.put_rows([{"txt": f"{n}"} for n in range(1500)])
    mill.put_job(URL)
    with pytest.raises(InputError, match="fields found: 'txt'"):
        mill.rehearse()
    assert mill.runs == []


@pytest.mark.parametrize(("dedupe", "asked"), [(True, 2), (False, 4)])
def test_per_03_equal_records_are_asked_once_or_each_and_all_come_out(mill, dedupe: bool, asked: int):
    mill.put_rows([{"text": text} for text in "AAAB"])
    mill.put_job(URL, input={"dedupe": dedupe})
    done = mill.rehearse()
    assert (done.items, done.seen["requests"]) == ({"done": 4}, asked)
    assert done.result.status["units"] == {"total": asked, "done": asked, "duplicates_saved": 4 - asked}
    assert mill.answers() == ["A", "A", "A", "B"]


def test_what_was_cut_is_marked(mill):
    mill.put_rows([{"text": "x" * 30}, {"text": "short"}])
    mill.put_job(URL, slice={"truncate": "10 chars"})
    assert mill.rehearse().items == {"done": 2}
    rows = mill.rows()
    assert [row["answer_notes"] for row in rows] == [["input_cut"], []]
    assert rows[0]["answer"] == "x" * 10
    assert rows[0]["text"] == "x" * 30


def test_values_print_as_json_and_null_rejects(mill):
    mill.put_rows([{"text": value} for value in (True, 1.5, ["a", 1], {"k": "é"}, None)])
    mill.put_job(URL)
    done = mill.rehearse()
    assert done.items == {"done": 4, "rejected": 1}
    assert [json.loads(answer) for answer in mill.answers()[:4]] == [True, 1.5, ["a", 1], {"k": "é"}]
    assert mill.answers()[0] == "true"


def test_a_whole_chat_is_sent_as_written(mill):
    mill.put_texts(1)
    messages = [
        {"role": "system", "content": "You sort."},
        {"role": "user", "content": "an example"},
        {"role": "assistant", "content": "its answer"},
        {"role": "user", "content": "{{ text }}"},
    ]
    mill.put_job(URL, prompt={"user": None, "messages": messages})
    done = mill.rehearse(Rule(match="You sort.\nan example\nits answer\nrow 0.", content="seen"))
    assert done.items == {"done": 1}
    assert mill.answers() == ["seen"]


def test_the_completions_route_is_served(mill):
    mill.put_texts(3)
    mill.put_job(URL, prompt={"user": None, "prompt": "{{ text }}"}, model={"route": "completions"})
    assert mill.rehearse().items == {"done": 3}
    assert mill.answers() == ["row 0.", "row 1.", "row 2."]
