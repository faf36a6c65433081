"""What a reader says: rows for the output, hashes, configurations, figures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.errors import LedgerError
from headrace.ledger.reader import LedgerReader
from headrace.ledger.writer import Revived, SqliteLedger
from headrace.protocols import Batch
from headrace.testing.contracts.batches import (
    attempt,
    batch,
    done,
    failed,
    goes_on,
    hash_of,
    items,
    pieces,
    quarantined,
    units_of,
)
from headrace.values import Answer, Attempt, Item, Kind, Note, Outcome, Reply, State, Unit, Usage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(path)
    yield opened
    opened.close()


@pytest.fixture
def reader(ledger: SqliteLedger, path: Path) -> Iterator[LedgerReader]:
    opened = LedgerReader(path)
    yield opened
    opened.close()


# -- rows


def mixed() -> Batch:
    """Items 0 and 4 share a unit; 1 failed, 2 was quarantined, 3 rejected, 5 is pending, 6 leased, 7 unreadable."""
    answered = attempt(
        0, reply=Reply('{"a":1}', "stop", "thought", None, None, "m-1"), usage=Usage(11, 7, 3), seconds=1.25
    )  # fmt: skip
    return batch(
        items=[
            *items(3), Item(3, 1, 30, 9, 4, "id 3", error="bad_input: no text"), *items(3, 4),
            Item(7, 0, 70, 5, 8, None, error="bad_input: not JSON", readable=False),
        ],
        pieces=[(0, 0, 0), (1, 0, 1), (2, 0, 2), (4, 0, 0), (5, 0, 3), (6, 0, 4)],
        units=units_of(5), leases=[0, 1, 2, 4],
        outcomes=[
            Outcome(0, State.DONE, answered, Answer('{"a": 1}', (Note.REPAIRED,))), failed(1), quarantined(2), goes_on(4),
        ],
    )  # fmt: skip


def test_every_item_is_one_row_in_order_whatever_became_of_it(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    rows = list(reader.rows())
    assert [row.seq for row in rows] == list(range(8))
    assert [row.state for row in rows] == [2, 3, 4, None, 2, 0, 1, None]
    assert [row.unit for row in rows] == [0, 1, 2, None, 0, 3, 4, None]
    assert [row.item_error for row in rows] == [None] * 3 + ["bad_input: no text"] + [None] * 3 + ["bad_input: not JSON"]
    assert [row.unit_error for row in rows] == [None, "bad_request: no", "empty: empty", *[None] * 5]
    assert [row.readable for row in rows] == [1] * 7 + [0]
    assert [(row.file, row.offset, row.length, row.number) for row in rows[6:]] == [(1, 60, 9, 7), (0, 70, 5, 8)]


def test_an_answered_row_has_its_answer_and_the_items_of_a_unit_share_it(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    first, second = (row for row in reader.rows() if row.unit == 0)
    assert (first.answer, first.content, first.reasoning, first.model, first.notes) == (
        '{"a": 1}',
        '{"a":1}',
        "thought",
        "m-1",
        4,
    )
    assert (first.prompt_tokens, first.completion_tokens, first.cached_tokens, first.seconds) == (11, 7, 3, 1.25)
    assert first.hash == hash_of(0)
    assert second[9:] == first[9:]


def test_a_quarantined_row_keeps_what_the_server_said(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    (row,) = (row for row in reader.rows() if row.unit == 2)
    assert (row.answer, row.content) == (None, "answer 2")


def test_short_rows_say_the_same_in_a_code(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    batches = list(reader.short_rows(5))
    assert [len(rows) for rows in batches] == [5, 3]
    short = [row for rows in batches for row in rows]
    long = list(reader.rows())
    assert [row[:4] for row in short] == [row[:4] for row in long]
    assert [row[4] for row in short] == [4 * 16 + 2, 3, 4, 8, 4 * 16 + 2, 0, 1, ~8]
    assert [row[5] for row in short] == [row.item_error or row.unit_error for row in long]
    assert [row[6] for row in short] == [b'{"a": 1}', None, None, None, b'{"a": 1}', None, None, None]
    assert [row[7] for row in short] == [None] * 8


def test_a_short_row_has_the_content_where_that_is_the_answer(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(items=items(2), pieces=pieces(2), units=units_of(2), leases=[0, 1], outcomes=[done(0), quarantined(1)]))
    ((first, second),) = reader.short_rows(500)
    assert (first[6:], second[6:]) == ((None, "answer 0"), (None, None))


def test_rows_end_where_they_are_asked_to(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    assert [row.seq for row in reader.rows(3, 3)] == [3]


def test_rows_go_on_from_where_they_are_asked_for(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(items=items(1203), pieces=pieces(1203), units=units_of(1203)))
    assert [row.seq for row in reader.rows(700)] == list(range(700, 1203))
    assert list(reader.rows(1203)) == []


def test_a_unit_of_several_attempts_is_one_row_of_its_last(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(items=items(1), pieces=pieces(1), units=units_of(1), leases=[0]))
    for outcome in (goes_on(0), goes_on(0), done(0)):
        ledger.commit(batch(outcomes=[outcome]))
    (row,) = reader.rows()
    assert row.content == "answer 0"


# -- one state


def test_a_snapshot_sees_one_state_while_the_writer_goes_on(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    reader.snapshot()
    before = (reader.one("count_items"), list(reader.rows()), reader.all("count_units"))
    ledger.commit(batch(items=items(2, 8), outcomes=[done(4)]))
    assert (reader.one("count_items"), list(reader.rows()), reader.all("count_units")) == before
    other = LedgerReader(ledger.path)
    assert other.one("count_items") == (10, 2)
    other.close()


def test_a_writer_goes_on_while_rows_are_being_read(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(items=items(1500), pieces=pieces(1500), units=units_of(1500)))
    rows = reader.rows()
    next(rows)
    ledger.commit(batch(leases=list(range(1500)), outcomes=[done(seq) for seq in range(1500)]))
    assert {row.state for row in rows} == {0}
    assert {row.state for row in reader.rows()} == {2}


# -- hashes


def test_hashes_come_in_the_order_asked_for_and_as_often(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(units=units_of(1500)))
    rng = random.Random(3)
    for count in (0, 1, 2, 8, 9, 64, 65, 500, 501, 1200):
        seqs = [rng.randrange(1500) for _ in range(count)]
        assert reader.hash_of([*seqs, *seqs[:3]]) == [hash_of(seq) for seq in (*seqs, *seqs[:3])]


def test_asking_for_many_hashes_takes_few_statements(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(units=units_of(1200)))
    statements: list[str] = []
    reader._db.set_trace_callback(statements.append)
    reader.hash_of(list(range(1200)))
    assert len(statements) == 3


def test_a_hash_that_is_not_there_is_a_damaged_ledger(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(units=units_of(3)))
    with pytest.raises(LedgerError, match="lacks unit 3") as caught:
        reader.hash_of([1, 3])
    assert "\n" not in str(caught.value)


def test_all_hashes_come_in_order_in_blobs_of_a_thousand(ledger: SqliteLedger, reader: LedgerReader) -> None:
    assert list(reader.hashes()) == []
    ledger.commit(batch(units=units_of(2500)))
    blobs = list(reader.hashes())
    assert [len(blob) for blob in blobs] == [16_000, 16_000, 8_000]
    assert b"".join(blobs) == b"".join(map(hash_of, range(2500)))


# -- facts


def test_the_reply_that_a_re_ask_answers_is_found(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(batch(items=items(1), pieces=pieces(1), units=units_of(1), leases=[0], outcomes=[quarantined(0)], reopened=[0]))
    (stored,) = reader.pending(-1, 10)
    assert stored.attempt is not None
    reply = reader.last_reply(stored.attempt)
    assert reply == ("answer 0", "stop", None, None, "empty", "empty")
    assert reader.last_reply(99) is None


def test_the_reply_that_a_re_ask_answers_stays_found_while_its_sends_bring_none(
    ledger: SqliteLedger, reader: LedgerReader
) -> None:
    reasked = replace(quarantined(0), state=State.LEASED, ask=1, error=None)
    ledger.commit(batch(items=items(1), pieces=pieces(1), units=units_of(1), leases=[0], outcomes=[reasked]))
    lost = Attempt(
        unit=0, ask=1, started_at=2.0, seconds=0.1, config=1, endpoint=1, kind=Kind.SERVER_ERROR, message="boom", status=500
    )
    ledger.commit(batch(outcomes=[Outcome(0, State.LEASED, lost, ask=1, spent=1)]))
    assert ledger.recover(1, 3.0, retry_ambiguous=True) == 1
    (stored,) = reader.pending(-1, 10)
    assert stored.unit.ask == 1
    assert stored.attempt is not None
    assert reader.last_reply(stored.attempt) == ("answer 0", "stop", None, None, "empty", "empty")
    ledger.commit(batch(leases=[0], outcomes=[Outcome(0, State.FAILED, lost, error="server_error: boom", ask=1, spent=2)]))
    (row,) = reader.rows()
    assert row.content is None  # a unit that is settled shows its own last send


def test_configurations_keep_every_value_and_an_equal_one_is_not_added_again(ledger: SqliteLedger, reader: LedgerReader) -> None:
    content = {"model": {"seed": 10**20, "temperature": 0.1, "stop": ["\ud800", "é"]}}
    assert ledger.add_config(1.0, content, {"limits": {"drain": 30}}) == 1
    assert ledger.add_config(2.0, content, {"limits": {"drain": 30}}) == 1
    assert ledger.add_config(3.0, content, {"limits": {"drain": 60}}) == 2
    assert ledger.add_config(4.0, content, {"limits": {"drain": 30}}) == 3
    stored = reader.configs()
    assert [(one.number, one.made_at) for one in stored] == [(1, 1.0), (2, 3.0), (3, 4.0)]
    assert {one.content_hash for one in stored} == {stored[0].content_hash}
    assert stored[0].content == content


def test_an_endpoint_is_known_by_its_identity(ledger: SqliteLedger, reader: LedgerReader) -> None:
    assert ledger.add_endpoint("host/v1", "http://host/v1") == 1
    assert ledger.add_endpoint("other\ud800", "http://other/v1") == 2
    assert ledger.add_endpoint("host/v1", "https://host/v1") == 1
    assert ledger.add_endpoint("other\ud800", "http://other/v1") == 2


def test_facts_are_read_by_both_sides(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.put_meta(reading={"position": "\ud800", "items": 10**20})
    for side in (ledger.get_meta, reader.meta):
        assert side("reading") == {"position": "\ud800", "items": 10**20}
        assert side("missing", "nothing") == "nothing"


def test_absurd_token_counts_can_be_summed(ledger: SqliteLedger, reader: LedgerReader) -> None:
    absurd = Usage(10**30, 2**63 - 1, 2**62, None)
    ledger.commit(
        batch(
            items=items(4),
            pieces=pieces(4),
            units=units_of(4),
            leases=[0, 1, 2, 3],
            outcomes=[done(seq, absurd) for seq in range(4)],
        )
    )
    ((((count, prompt, completion, cached, known, *_, contexts),), others),) = reader.parts("accepted_attempts", "other_attempts")
    assert (count, known, others) == (4, 4, [])
    assert min(prompt, completion, cached) > 2**62
    assert contexts == ",".join([str(2**63 - 1)] * 4)


def test_sums_of_ordinary_counts_are_exact(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(
        batch(
            items=items(3), units=units_of(3), leases=[0, 1, 2], outcomes=[done(seq, Usage(2**40 + seq, 1)) for seq in range(3)]
        )
    )
    (((row,),),) = reader.parts("accepted_attempts")
    assert row[:5] == (3, 3 * 2**40 + 3, 3, 0, 3)


def test_attempts_are_read_part_by_part_and_each_once(ledger: SqliteLedger, reader: LedgerReader) -> None:
    assert list(reader.parts("asks")) == [[[(None, None)]]]
    seqs = list(range(2100))
    ledger.commit(batch(items=items(2100), units=units_of(2100), leases=seqs, outcomes=[done(seq) for seq in seqs]))
    parts = [units.split(",") for (((units, _),),) in reader.parts("asks")]
    assert [len(part) for part in parts] == [999, 1000, 101]
    assert [int(unit) for part in parts for unit in part] == seqs


# -- sent again by `retry`


def test_what_is_requeued_is_pending_under_its_new_hash_and_configuration(ledger: SqliteLedger, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    new = Unit(seq=5, hash=b"n" * 16, item=3)
    ledger.requeue(2, [(1, b"a" * 16)], [Revived(3, 1, [new], [])])
    ledger.commit(batch(leases=[5], outcomes=[done(5)]))
    rows = list(reader.rows())
    assert [(rows[n].state, rows[n].hash, rows[n].item_error) for n in (1, 3)] == [(0, b"a" * 16, None), (2, b"n" * 16, None)]
    assert [stored.unit.config for stored in reader.pending(0, 1)] == [2]


def test_a_crash_while_requeuing_changes_nothing(ledger: SqliteLedger, path: Path, reader: LedgerReader) -> None:
    ledger.commit(mixed())
    before = list(reader.rows())

    def hook(name: str) -> None:
        if name == "commit":
            raise KeyboardInterrupt

    other = SqliteLedger(path, hook)
    with pytest.raises(KeyboardInterrupt):
        other.requeue(2, [(1, b"a" * 16)], [Revived(3, 1, [Unit(seq=5, hash=b"n" * 16, item=3)], [])])
    other.close()
    assert list(reader.rows()) == before
