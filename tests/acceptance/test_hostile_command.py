"""Whatever a model answers or a record holds is data: it is kept, it is checked, and it does nothing to a terminal or a file."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnirts \x00 \r\n\x08"
DEEP = "[" * 100_000 + "]" * 100_000
ANSWERS: dict[str, Any] = {
    "escapes": ESCAPES,
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "deep": DEEP,
    "huge number": '{"label": 1e999}',
    "many digits": '{"label": ' + "9" * 50_000 + "}",
    "twice": '{"label": "a", "label": "b"}',
    "not a number": '{"label": NaN}',
    "half a pair": '{"label": "\\ud800"}',
    "long": "x" * 10_000_000,
    "long and almost JSON": '{"label": "' + "\\" * 5_000_000,
    "fences": "```" * 200_000,
    "thinking": "<think>" * 200_000,
    "formula": '=HYPERLINK("http://127.0.0.1:9/","a")',
    "newlines": "a\u2028b\u2029c\x85d\x1ee",
}
CONTROL = [chr(code) for code in (*range(9), *range(11, 32), 127, *range(128, 160))] + ["\u202e"]


def harmless(text: str) -> bool:
    return not any(character in text for character in CONTROL)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [None, ["a", "b"]], ids=["text", "labels"])
def test_hostile_answers_are_kept_as_data_and_reach_no_terminal(mill, labels: list[str] | None):
    mill.put_rows([{"id": name, "text": f"case {name}."} for name in ANSWERS])
    script = [{"match": f"case {name}.", "content": content} for name, content in ANSWERS.items()]
    with mill.sim(script=script) as sim:
        mill.put_job(sim.url, input={"id": "id"}, answer={"labels": labels, "retry_invalid": 0})
        told = [mill.command("run", "job.toml")]
    assert told[0].code == 3
    told += [mill.command(name) for name in ("status", "failures", "show", "runs")]
    assert all(harmless(one.out) and harmless(one.err) for one in told)
    rows = {row["id"]: row for row in mill.rows()}
    assert list(rows) == list(ANSWERS)
    if labels is None:
        assert {name for name, content in ANSWERS.items() if rows[name]["answer"] != content} == {"thinking"}
        assert rows["thinking"]["answer_status"] == "quarantined"
    else:
        assert {row["answer_status"] for row in rows.values()} == {"quarantined"}
        assert all(harmless(row["answer_error"]) and len(row["answer_error"]) < 400 for row in rows.values())
    assert mill.command("export", "--to", "again.csv", "--details").code == 0
    csv.field_size_limit(100_000_000)
    with (mill.folder / "again.csv").open(newline="", encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == list(ANSWERS)


@pytest.mark.slow
def test_hostile_bodies_fail_their_unit_alone(mill):
    bodies = {
        "deep": DEEP,
        "deep reply": '{"choices": [{"message": {"content": ' + DEEP + "}}]}",
        "page": "<html>" + "<div>" * 100_000,
        "escapes": f'{{"error": {{"message": {json.dumps(ESCAPES)}}}}}',
        "long": '{"error": {"message": "' + "y" * 10_000_000 + '"}}',
        "no JSON": '{"choices": [' + "1," * 100_000,
    }
    # One that is answered before each: failures that follow each other would be the server's, not theirs.
    names = [name for pair in ((f"well {at}", name) for at, name in enumerate(bodies)) for name in pair]
    mill.put_rows([{"id": name, "text": f"case {name}."} for name in names])
    script = [{"match": f"case {name}.", "status": 400 if "err" in body else 200, "body": body} for name, body in bodies.items()]
    with mill.sim(script=script) as sim:
        mill.put_job(sim.url, input={"id": "id"}, endpoint={"concurrency": 1}, limits={"max_attempts": 1})
        told = [mill.command("run", "job.toml")]
    told += [mill.command(name) for name in ("status", "failures", "show")]
    assert all(harmless(one.out) and harmless(one.err) for one in told)
    rows = mill.rows()
    assert [row["id"] for row in rows] == names
    assert all(row["answer"] == f"case {row['id']}." for row in rows[::2])
    assert all(harmless(row["answer_error"] or "") and len(row["answer_error"] or "") < 1_000 for row in rows)
    assert all(row["answer_status"] == "failed" for row in rows[1::2] if row["id"] != "deep reply")


@pytest.mark.slow
def test_hostile_records_pass_through_as_they_are(mill):
    records = [{"id": name, "text": content} for name, content in ANSWERS.items() if len(content) < 1_000_000]
    mill.put_rows([*records, {"id": ESCAPES, "text": "its name is hostile"}])
    with mill.sim("--answer", "text:fine") as sim:
        mill.put_job(sim.url, input={"id": "id"})
        told = [mill.command("run", "job.toml")]
    told += [mill.command(name) for name in ("status", "failures", "show")]
    assert told[0].code == 0
    assert all(harmless(one.out) and harmless(one.err) for one in told)
    assert [(row["id"], row["text"]) for row in mill.rows()][:-1] == [(row["id"], row["text"]) for row in records]
    assert mill.rows()[-1]["id"] == ESCAPES
