"""What every Ledger keeps, as tests: derive from `LedgerContract`, say how to open one and how to look into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import Struct

from headrace.protocols import Batch, Ledger, Reducer
from headrace.testing.contracts.batches import (
    CrashError,
    Hook,
    attempt,
    batch,
    crash_at,
    done,
    failed,
    full_batch,
    goes_on,
    hash_of,
    items,
    next_batch,
    pieces,
    quarantined,
    units_of,
    unsent,
)
from headrace.testing.contracts.pairs import Pairs
from headrace.values import (
    FIRST_MADE,
    Answer,
    Attempt,
    Item,
    Kind,
    Note,
    Origin,
    Outcome,
    Reply,
    Sample,
    Sent,
    Slice,
    State,
    Unit,
    UnitKind,
    Usage,
)

ODD_TEXTS = {
    "empty": "",
    "zero": "0",
    "accents": "é ü 漢字 🙂",
    "nul": "NUL \x00 in the middle, and at the end \x00",
    "only_nul": "\x00",
    "controls": "\x01\x1b\x7f\x85\r\n\t",
    "separators": "\u2028 and \u2029",
    "lone_surrogates": "lone \ud800 surrogate \udfff",
    "surrogates_reversed": "\ude42\ud83d",
    "noncharacters": "\ufeff \ufffe \uffff",
    "sql": "'); DROP TABLE unit; --",
}
IDS: tuple[str | int | float | bool, ...] = (
    "", "7", "é \u2028", "\ud800", "a\x00b", 0, -1, 7, 2**53 + 1, 2**64, -(10**30), 1.0, 0.1, -1e300, True, False,
)  # fmt: skip


class Found(Struct, frozen=True):
    """What a ledger holds, in one shape for all of them. An id that is none is the item's number."""

    ids: dict[int, Any]
    rejects: dict[int, str | None]
    pieces: dict[tuple[int, int], int]
    units: dict[int, Unit]
    states: dict[int, State]
    errors: dict[int, str]
    attempts: list[Attempt]  # in the order of their numbers
    answers: dict[int, Answer]  # of units that are done
    samples: list[Sample]
    meta: dict[str, Any]


class OpenLedger(Ledger, Protocol):
    """A Ledger with what a run asks of it when it begins."""

    def commit(self, batch: Batch) -> None:
        """Prepare and finish."""
        ...

    def recover(self, endpoint: int, now: float, *, retry_ambiguous: bool) -> int: ...

    def next_numbers(self) -> tuple[int, int]: ...

    def unsettled(self) -> int: ...

    def reduce_with(self, reducer: Reducer) -> None: ...


PARTS = [name for name in Batch.__slots__ if name not in {"made", "answered"}]  # what a commit is given


class LedgerContract:
    """`open` gives the ledger at a place, new or as an earlier process left it; `look` and `pending` read what is durable."""

    def open(self, place: Path, hook: Hook | None = None) -> OpenLedger:
        raise NotImplementedError

    def look(self, place: Path) -> Found:
        raise NotImplementedError

    def pending(self, place: Path, after: int, limit: int) -> list[Unit]:
        """Pending units with seq > after, at most `limit`."""
        raise NotImplementedError

    def pending_these(self, place: Path, seqs: list[int]) -> list[Unit]:
        """Those of these units that are pending, in this order."""
        raise NotImplementedError

    def filled(self, place: Path, units: int = 10) -> OpenLedger:
        ledger = self.open(place)
        ledger.commit(batch(items=items(units), pieces=pieces(units), units=units_of(units)))
        return ledger

    # -- durability

    def test_a_new_ledger_holds_nothing(self, tmp_path: Path) -> None:
        ledger = self.open(tmp_path)
        assert ledger.next_numbers() == (0, 0)
        assert ledger.unsettled() == 0
        assert ledger.recover(1, 0.0, retry_ambiguous=True) == 0
        ledger.close()

    def test_what_was_committed_is_there_for_another_process(self, tmp_path: Path) -> None:
        first = self.filled(tmp_path)
        first.commit(full_batch())
        found = self.look(tmp_path)  # nobody has closed the ledger
        assert sorted(found.units) == list(range(13))
        assert found.pieces[0, 0] == 0
        assert found.meta == {"reading": {"position": "13"}}
        assert len(found.samples) == 1
        first.close()
        first.close()
        second = self.open(tmp_path)
        assert second.next_numbers() == (13, 13)
        assert self.look(tmp_path) == found
        second.close()

    @pytest.mark.slow
    def test_a_crash_at_any_statement_leaves_nothing_of_the_batch(self, tmp_path: Path) -> None:
        places = 0
        while True:
            place = tmp_path / str(places)
            place.mkdir()
            self.filled(place).close()
            before = self.look(place)
            ledger = self.open(place, crash_at(places))
            try:
                ledger.commit(full_batch())
            except CrashError:
                assert self.look(place) == before
                ledger.close()
                again = self.open(place)
                assert self.look(place) == before
                assert again.next_numbers() == (10, 10)
                again.close()
                places += 1
            else:
                ledger.close()
                break
        assert places >= len(PARTS)

    @pytest.mark.slow
    def test_what_was_prepared_and_not_finished_is_not_there(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        before = self.look(tmp_path)
        ledger.prepare(full_batch())
        assert self.look(tmp_path) == before
        ledger.close()
        assert self.look(tmp_path) == before
        again = self.open(tmp_path)
        again.prepare(full_batch())
        again.finish()
        assert self.look(tmp_path).states[0] is State.DONE
        again.close()

    def test_a_batch_that_failed_at_any_statement_can_be_tried_again(self, tmp_path: Path) -> None:
        untroubled = tmp_path / "untroubled"
        untroubled.mkdir()
        ledger = self.filled(untroubled)
        for each in (full_batch(), next_batch()):
            ledger.commit(each)
        expected = self.look(untroubled)
        ledger.close()
        places = 0
        while True:
            place = tmp_path / str(places)
            place.mkdir()
            self.filled(place).close()
            ledger = self.open(place, crash_at(places))
            failing = full_batch()
            try:
                ledger.commit(failing)
            except CrashError:
                ledger.commit(failing)
                ledger.commit(next_batch())
                assert self.look(place) == expected
                ledger.close()
                places += 1
            else:
                ledger.close()
                break
        assert places >= len(PARTS)

    def test_an_outcome_or_a_lease_of_an_unknown_unit_is_refused_and_nothing_is_written(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path, 3)
        before = self.look(tmp_path)
        for wrong in (batch(leases=[0, 3]), batch(leases=[0], outcomes=[done(0), done(3)]), batch(outcomes=[unsent(3)])):
            with pytest.raises(LookupError, match="3"):
                ledger.commit(wrong)
            assert self.look(tmp_path) == before
        ledger.close()

    # -- leases

    def test_leases_in_any_order_are_kept(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[7, 2, 1, 9, 0]))
        assert self.in_state(tmp_path, State.LEASED) == [0, 1, 2, 7, 9]
        ledger.close()

    def test_only_pending_units_are_leased(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[1, 2, 3], outcomes=[done(1), failed(2), quarantined(3)]))
        ledger.commit(batch(leases=[0, 1, 2, 3, 4]))
        assert self.in_state(tmp_path, State.LEASED) == [0, 4]
        ledger.close()

    def test_units_are_added_leased_and_settled_in_one_batch(self, tmp_path: Path) -> None:
        ledger = self.open(tmp_path)
        ledger.commit(
            batch(items=items(3), pieces=pieces(3), units=units_of(3), leases=[0, 1, 2], outcomes=[done(1)], released=[2])
        )
        assert self.look(tmp_path).states == {0: State.LEASED, 1: State.DONE, 2: State.PENDING}
        ledger.close()

    def test_what_is_released_is_pending_and_what_is_settled_stays(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[0, 1, 2], outcomes=[done(1)]))
        ledger.commit(batch(released=[0, 1]))
        assert self.look(tmp_path).states == {**dict.fromkeys(range(10), State.PENDING), 1: State.DONE, 2: State.LEASED}
        ledger.close()

    def test_what_is_reopened_is_as_if_never_sent_but_for_its_attempts(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path, 2)
        ledger.commit(batch(leases=[0, 1], outcomes=[failed(0), failed(1)]))
        ledger.commit(batch(reopened=[0]))
        found = self.look(tmp_path)
        assert found.states == {0: State.PENDING, 1: State.FAILED}
        assert found.errors == {1: "bad_request: no"}
        assert (found.units[0].ask, found.units[0].spent, found.units[0].age_s) == (0, 0, 0.0)
        assert len(found.attempts) == 2
        ledger.close()

    # -- outcomes

    @pytest.mark.parametrize("state", list(State))
    def test_an_outcome_sets_state_and_progress_and_adds_its_attempt(self, tmp_path: Path, state: State) -> None:
        ledger = self.filled(tmp_path)
        sent = attempt(4, config=3)
        ledger.commit(batch(leases=[4], outcomes=[Outcome(4, state, sent, error="kind: cause", ask=1, spent=2, age_s=3.5)]))
        found = self.look(tmp_path)
        assert found.states[4] is state
        assert found.errors == {4: "kind: cause"}
        assert found.units[4] == Unit(seq=4, hash=hash_of(4), item=4, kind=UnitKind.ASK, config=3, ask=1, spent=2, age_s=3.5)
        assert found.attempts == [sent]
        assert ledger.unsettled() == (10 if state < State.DONE else 9)
        ledger.close()

    def test_an_outcome_without_a_send_adds_no_attempt(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[4], outcomes=[goes_on(4)]))
        ledger.commit(batch(outcomes=[unsent(4)]))
        found = self.look(tmp_path)
        assert found.states[4] is State.FAILED
        assert found.errors[4] == "deadline: too late"
        assert len(found.attempts) == 1
        ledger.close()

    def test_of_several_outcomes_of_a_unit_the_last_holds_and_all_attempts_stay(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[4, 5], outcomes=[goes_on(4), goes_on(5), goes_on(4), done(4), unsent(5)]))
        found = self.look(tmp_path)
        assert (found.states[4], found.states[5]) == (State.DONE, State.FAILED)
        assert [sent.unit for sent in found.attempts] == [4, 5, 4, 4]
        assert found.errors == {5: "deadline: too late"}
        ledger.close()

    @pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 200])
    def test_any_number_of_rows_is_kept_in_order(self, tmp_path: Path, count: int) -> None:
        ledger = self.filled(tmp_path, count)
        seqs = list(reversed(range(count)))
        ledger.commit(batch(leases=seqs, outcomes=[done(seq) for seq in seqs]))
        found = self.look(tmp_path)
        assert [sent.unit for sent in found.attempts] == seqs
        assert set(found.states.values()) == {State.DONE}
        assert found.ids == {seq: f"id {seq}" for seq in range(count)}
        ledger.close()

    # -- recovery

    @pytest.mark.parametrize("retry_ambiguous", [True, False])
    def test_an_open_lease_is_closed_as_a_lost_attempt(self, tmp_path: Path, retry_ambiguous: bool) -> None:
        self.filled(tmp_path).commit(batch(leases=[2, 3, 5], outcomes=[done(3), goes_on(5, ask=1, spent=2, age_s=9.5)]))
        ledger = self.open(tmp_path)
        assert ledger.recover(2, 99.0, retry_ambiguous=retry_ambiguous) == 2
        found = self.look(tmp_path)
        state = State.PENDING if retry_ambiguous else State.FAILED
        assert {seq: found.states[seq] for seq in (2, 3, 5)} == {2: state, 3: State.DONE, 5: state}
        assert (found.units[5].ask, found.units[5].spent, found.units[5].age_s) == (1, 2, 9.5)
        lost = found.attempts[2:]
        assert [(a.unit, a.ask, a.endpoint, a.started_at) for a in lost] == [(2, 0, 2, 99.0), (5, 1, 2, 99.0)]
        assert {(a.origin, a.kind, a.sent, a.usage) for a in lost} == {(Origin.LOST, Kind.AMBIGUOUS, Sent.MAYBE, None)}
        assert {seq: error.partition(":")[0] for seq, error in found.errors.items()} == (
            {} if retry_ambiguous else {2: "ambiguous", 5: "ambiguous"}
        )
        assert ledger.recover(2, 100.0, retry_ambiguous=retry_ambiguous) == 0
        assert self.look(tmp_path) == found
        ledger.close()

    # -- reading back

    def test_pending_units_come_back_in_order_and_in_parts(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path)
        ledger.commit(batch(leases=[1, 2, 3, 6], outcomes=[done(2), goes_on(3, ask=1, spent=1, age_s=4.5)], released=[1]))
        ledger.commit(batch(released=[3]))
        found = self.pending(tmp_path, -1, 4)
        assert [unit.seq for unit in found] == [0, 1, 3, 4]
        assert found[2] == Unit(seq=3, hash=hash_of(3), item=3, ask=1, spent=1, age_s=4.5)
        assert [unit.seq for unit in self.pending(tmp_path, 4, 100)] == [5, 7, 8, 9]
        assert self.pending(tmp_path, 9, 100) == []
        ledger.close()

    def test_pending_units_come_back_by_number_in_the_order_asked_for(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path, 1200)
        ledger.commit(batch(leases=[1, 2, 3], outcomes=[done(2), goes_on(3, ask=1, spent=1, age_s=4.5)], released=[3]))
        assert [unit.seq for unit in self.pending_these(tmp_path, [7, 3, 2, 0, 1, 5000])] == [7, 3, 0]
        assert self.pending_these(tmp_path, [3]) == [Unit(seq=3, hash=hash_of(3), item=3, ask=1, spent=1, age_s=4.5)]
        assert self.pending_these(tmp_path, []) == []
        assert [unit.seq for unit in self.pending_these(tmp_path, list(range(1199, 10, -1)))] == list(range(1199, 10, -1))
        ledger.close()

    # -- what values may be

    @pytest.mark.parametrize("name", ODD_TEXTS)
    def test_odd_texts_come_back(self, tmp_path: Path, name: str) -> None:
        text = ODD_TEXTS[name]
        reply = Reply(content=text, finish=text, reasoning=text, refusal=text, model=text)
        sent = attempt(0, message=text, reply=reply)
        ledger = self.open(tmp_path)
        ledger.commit(
            batch(
                items=[Item(0, 0, 0, 9, 1, text), Item(1, 0, 9, 9, 2, None, error=text)],
                pieces=pieces(1), units=units_of(2), leases=[0],
                outcomes=[Outcome(0, State.DONE, sent, Answer(text), error=text), Outcome(1, State.FAILED, None, error=text)],
                meta={"text": text, "list": [text]},
            )
        )  # fmt: skip
        found = self.look(tmp_path)
        assert found.attempts == [sent]
        assert found.answers == {0: Answer(text)}
        assert found.errors == {0: text, 1: text}
        assert found.ids[0] == text
        assert found.rejects == {0: None, 1: text}
        assert found.meta == {"text": text, "list": [text]}
        ledger.close()

    @pytest.mark.slow
    def test_ten_megabytes_come_back(self, tmp_path: Path) -> None:
        texts = ["aé\u2028" * 1_700_000, "\ud800" + "b" * 10_000_000]
        ledger = self.filled(tmp_path, 2)
        ledger.commit(
            batch(
                leases=[0, 1],
                outcomes=[
                    Outcome(seq, State.DONE, attempt(seq, reply=Reply(content=text)), Answer()) for seq, text in enumerate(texts)
                ],
            )
        )
        found = [sent.reply.content for sent in self.look(tmp_path).attempts if sent.reply is not None]
        assert [one == text for one, text in zip(found, texts, strict=True)] == [True, True]  # no diff of such texts
        ledger.close()

    @pytest.mark.parametrize("count", [2**53, 2**63 - 1, 2**63, 10**30, -(10**30)])
    def test_absurd_token_counts_neither_stop_a_commit_nor_touch_their_neighbours(self, tmp_path: Path, count: int) -> None:
        ledger = self.filled(tmp_path, 100)
        outcomes = [done(seq) for seq in range(100)]
        outcomes[50] = done(50, Usage(prompt=count, completion=count, cached=count, reasoning=count))
        ledger.commit(batch(leases=list(range(100)), outcomes=outcomes))
        found = self.look(tmp_path)
        assert set(found.states.values()) == {State.DONE}
        absurd = found.attempts[50].usage
        assert absurd is not None
        assert absurd.prompt is not None
        assert (absurd.prompt > 0) is (count > 0)
        assert abs(absurd.prompt) >= 2**53
        assert {a.usage for n, a in enumerate(found.attempts) if n != 50} == {attempt(0).usage}
        ledger.close()

    def test_a_usage_that_is_told_in_part_stays_in_part(self, tmp_path: Path) -> None:
        parts = [Usage(prompt=0), Usage(completion=0), Usage(1, None, 0, None), Usage(0, 0, 0, 0)]
        ledger = self.filled(tmp_path, 4)
        ledger.commit(batch(leases=[0, 1, 2, 3], outcomes=[done(seq, usage) for seq, usage in enumerate(parts)]))
        assert [sent.usage for sent in self.look(tmp_path).attempts] == parts
        ledger.close()

    def test_ids_keep_value_and_type(self, tmp_path: Path) -> None:
        ledger = self.open(tmp_path)
        # Numbers that equal some of the ids: an id is left out only where it is the number itself.
        ledger.commit(batch(items=[Item(seq, 0, 0, 1, 1, value) for seq, value in enumerate(IDS)]))
        found = self.look(tmp_path).ids
        assert [(type(value), value) for value in found.values()] == [(type(value), value) for value in IDS]
        ledger.close()

    def test_an_item_without_an_id_goes_by_its_number(self, tmp_path: Path) -> None:
        ledger = self.open(tmp_path)
        ledger.commit(batch(items=[Item(0, 0, 0, 1, 41, None), Item(1, 0, 0, 1, 42, 42)]))
        assert self.look(tmp_path).ids == {0: 41, 1: 42}
        ledger.close()

    def test_notes_come_back(self, tmp_path: Path) -> None:
        ledger = self.filled(tmp_path, 2)
        notes = tuple(Note)
        outcomes = [
            Outcome(0, State.DONE, attempt(0), Answer('{"a":1}', notes)),
            Outcome(1, State.DONE, attempt(1), Answer(None, notes[1:3])),
        ]
        ledger.commit(batch(leases=[0, 1], outcomes=outcomes))
        assert self.look(tmp_path).answers == {0: Answer('{"a":1}', notes), 1: Answer(None, notes[1:3])}
        ledger.close()

    def test_facts_are_any_json_and_the_last_one_holds(self, tmp_path: Path) -> None:
        ledger = self.open(tmp_path)
        ledger.commit(batch(meta={"a": {"x": [1, None, 2.5, 10**30, "\ud800"]}, "b": 1}))
        ledger.commit(batch(meta={"b": None, "\ud800 é": True}))
        assert self.look(tmp_path).meta == {"a": {"x": [1, None, 2.5, 10**30, "\ud800"]}, "b": None, "\ud800 é": True}
        ledger.close()

    # -- answers that further requests join

    def divided(self, place: Path, hook: Hook | None = None, pieces: int = 3) -> OpenLedger:
        """Two items of equal pieces, of which one request each joins two at a time."""
        ledger = self.open(place, hook)
        ledger.reduce_with(Pairs())
        owners = [(item, n, n) for item in (0, 1) for n in range(pieces)]
        ledger.commit(
            batch(
                items=items(2), pieces=owners, units=[Unit(seq=n, hash=hash_of(n), item=0, n=n) for n in range(pieces)],
                slices=[Slice(item, n, "text", n, n + 1) for item, n, _ in owners], leases=list(range(pieces)),
            )
        )  # fmt: skip
        return ledger

    def test_the_commit_of_a_level_s_last_answer_makes_what_joins_it(self, tmp_path: Path) -> None:
        ledger = self.divided(tmp_path)
        some = batch(outcomes=[done(0), done(2)])
        ledger.commit(some)
        assert some.made == []
        last = batch(outcomes=[done(1)])
        ledger.commit(last)
        assert [unit.seq for unit in last.made] == [FIRST_MADE]  # three answers: one request joins all, for both items
        assert [(unit.kind, unit.payload) for unit in last.made] == [(UnitKind.REDUCE, b"1: answer 0, answer 1, answer 2")]
        assert self.look(tmp_path).states[FIRST_MADE] is State.PENDING
        assert ledger.next_numbers() == (2, 3)
        assert ledger.unsettled() == 1
        ledger.close()

    def test_levels_follow_until_one_answer_is_left(self, tmp_path: Path) -> None:
        ledger = self.divided(tmp_path, pieces=8)
        made = batch(outcomes=[done(n) for n in range(8)])
        widths = []
        while True:
            ledger.commit(made)
            if not made.made:
                break
            widths.append(len(made.made))
            made = batch(leases=[unit.seq for unit in made.made], outcomes=[done(unit.seq) for unit in made.made])
        assert widths == [4, 2, 1]
        assert ledger.unsettled() == 0
        ledger.close()

    def test_a_level_whose_answer_failed_is_not_joined(self, tmp_path: Path) -> None:
        ledger = self.divided(tmp_path)
        whole = batch(outcomes=[done(0), failed(1), done(2)])
        ledger.commit(whole)
        assert whole.made == []
        again = batch(reopened=[1], leases=[1])
        ledger.commit(again)
        mended = batch(outcomes=[done(1)])
        ledger.commit(mended)
        assert len(mended.made) == 1
        ledger.close()

    @pytest.mark.slow
    def test_a_crash_leaves_the_last_answer_and_what_joins_it_or_neither(self, tmp_path: Path) -> None:
        places = 0
        while True:
            place = tmp_path / str(places)
            place.mkdir()
            self.divided(place).close()
            ledger = self.open(place, crash_at(places))
            ledger.reduce_with(Pairs())
            last = batch(outcomes=[done(0), done(1), done(2)])
            try:
                ledger.commit(last)
            except CrashError:
                assert self.in_state(place, State.DONE) == []
                assert FIRST_MADE not in self.look(place).states
                ledger.commit(last)  # the same batch again
                places += 1
                is_whole = False
            else:
                is_whole = True
            assert self.look(place).states == {0: State.DONE, 1: State.DONE, 2: State.DONE, FIRST_MADE: State.PENDING}
            assert [unit.seq for unit in last.made] == [FIRST_MADE]
            ledger.close()
            if is_whole:
                break
        assert places >= 2

    def in_state(self, place: Path, state: State) -> list[int]:
        return sorted(seq for seq, found in self.look(place).states.items() if found is state)
