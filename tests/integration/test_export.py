"""What is written from a ledger that holds every kind of row: the short way for JSON Lines against the general one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.errors import InputBrokenError, LedgerError
from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import SqliteLedger
from headrace.runs import export
from headrace.runs.export import Selection, output_rows, write_output
from headrace.sinks.jsonl import line
from headrace.sources import RecordPlaces, RecordsFile
from headrace.testing.contracts.batches import attempt, batch, done, failed, goes_on, quarantined, units_of
from headrace.values import Answer, Item, Note, Outcome, Reply, State, Status

RAWS = [
    b'{"n":0,"t":"plain"}', b"{}", b'{ "n" : 2.50 }', b'{"n":3,"t":"\xe2\x80\xa8"}', b'{"n":\r4}', b'{"n":5} ', b'{"n":6}',
    b'{"n":7}', b'{"n":8}', b'{"n":9}', b'{"n":10}', b'{"n":11}', b'{"n":12}',
]  # fmt: skip
MANY_LINES = b'{\n "n": 100\n}'
BROKEN = b"broken \xff"


def answered(seq: int, content: str, value: str | None = None, *notes: Note) -> Outcome:
    return Outcome(seq, State.DONE, attempt(seq, reply=Reply(content, "stop")), Answer(value, notes))


class Folder:
    """An input of `RAWS`, three records kept apart, and a ledger over both."""

    def __init__(self, path: Path) -> None:
        self.output = path / "out.jsonl"
        self.input = path / "in.jsonl"
        self.input.write_bytes(b"\n".join(RAWS) + b"\n")
        records = RecordsFile(path / "records.jsonl")
        kept = records.append([MANY_LINES, BROKEN, b'{"n":102}'])
        records.close()
        self.places = RecordPlaces(path / "records.jsonl", [self.input])
        self.ledger = SqliteLedger(path / "ledger.db")
        at = [sum(len(raw) + 1 for raw in RAWS[:n]) for n in range(len(RAWS))]
        items = [Item(n, 1, at[n], len(raw), n + 1, None) for n, raw in enumerate(RAWS)]
        items += [Item(len(RAWS) + n, 0, *place, len(RAWS) + n + 1, None) for n, place in enumerate(kept)]
        items[7] = replace(items[7], error="bad_input: \ud800 \u2028")
        items[14] = replace(items[14], error="bad_input: not JSON", readable=False)
        items[8] = replace(items[8], notes=2)
        with_unit = [item.seq for item in items if item.error is None]
        self.ledger.put_meta(reading={"names": ["n", "t", "answer_status"]})
        self.ledger.commit(
            batch(
                items=items,
                pieces=[(seq, 0, unit) for unit, seq in enumerate(with_unit)] + [(0, 1, 1)],
                units=units_of(len(with_unit)),
                leases=list(range(13)),
                outcomes=[
                    done(0), answered(1, 'a "b"\n\u2028 é', None, Note.REPAIRED), answered(2, "{}", '{\n"a":\r1}'),
                    answered(3, "lone \ud800"), answered(4, "x", '"\ud800 \u2029"'), answered(5, ""), failed(6),
                    answered(7, "x", '{"a": 1.50}', Note.INPUT_CUT), quarantined(8), goes_on(9),
                    Outcome(10, State.FAILED, None, error="timeout: \u2028\ud800"), done(12),
                ],
                released=[11],
            )
        )  # fmt: skip
        self.items = len(items)
        self.reader = LedgerReader(path / "ledger.db")

    def close(self) -> None:
        self.places.close()
        self.reader.close()
        self.ledger.close()

    def write(self, selection: Selection) -> list[bytes]:
        rows = write_output(self.reader, self.places, self.output, selection)
        lines = self.output.read_bytes().splitlines(keepends=True)
        assert len(lines) == rows
        return lines


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    opened = Folder(tmp_path)
    yield opened
    opened.close()


SELECTIONS = [
    Selection(), Selection(only=frozenset({Status.DONE})), Selection(only=frozenset({Status.REJECTED, Status.PENDING})),
    Selection(only=frozenset()), Selection(details=True), Selection(with_fields=False),
]  # fmt: skip


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_every_line_is_that_of_its_row(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, selection: Selection, at_once: int
) -> None:
    expected = [line(row) for row in output_rows(folder.reader, folder.places, selection)]
    monkeypatch.setattr(export, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(export, "BYTES_AT_ONCE", 30)
    assert folder.write(selection) == expected
    assert len(expected) == folder.items or selection.only is not None


def test_lines_say_what_the_ledger_holds(folder: Folder) -> None:
    found = [json.loads(text) for text in folder.write(Selection())]
    assert [row["answer"] for row in found] == [
        "answer 0", 'a "b"\n\u2028 é', {"a": 1}, "lone \ud800", "\ud800 \u2029", "", None, None, {"a": 1.5}, None, None, None, None,
        "answer 12", None, None,
    ]  # fmt: skip
    assert [row["answer_status_"] for row in found] == (
        ["done"] * 6
        + ["failed", "rejected", "done", "quarantined", "pending", "failed", "pending", "done", "rejected", "pending"]
    )
    assert found[7]["answer_error"] == "bad_input: \ud800 \u2028"
    assert (found[1]["answer_notes"], found[8]["answer_notes"]) == (["repaired"], ["input_cut", "output_cut"])
    assert [number for number, row in enumerate(found) if row["answer_record"] is not None] == [14]
    assert (found[14]["answer_record"], found[14]["answer_input"], "n" in found[14]) == (15, "broken \ufffd", False)
    assert found[13]["n"] == 100


def test_an_item_that_is_missing_stops_the_writing(folder: Folder) -> None:
    folder.output.write_bytes(b"before")
    folder.ledger._db.execute("DELETE FROM item WHERE seq = 4")
    for selection in (Selection(), Selection(details=True)):
        with pytest.raises(LedgerError, match="item 4 is missing"):
            folder.write(selection)
    assert folder.output.read_bytes() == b"before"


def test_an_input_that_became_shorter_stops_the_writing(folder: Folder) -> None:
    with folder.input.open("r+b") as file:
        file.truncate(folder.input.stat().st_size - 12)
    with pytest.raises(InputBrokenError, match=r"in\.jsonl: a record at byte"):
        folder.write(Selection())
    assert not folder.output.exists()
