"""What every form of input keeps, as tests: derive from `SourceContract`, say how records are put down, run it under pytest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.errors import HeadraceError
from headrace.sources import OpenedSource, matches, open_source, parse
from headrace.values import Chunk, Record

MAX_RECORD = 10_000_000
ODD_TEXTS = (
    "plain",
    "é ü 漢字 🙂",
    'quotes " and , and ; and \\ and \\" and \t',
    "brackets ]}{[ and }, {",
    "line\nfeed, and two\n\nof them",
    "separators \u2028 and \u2029 and \x85",
    "{}",
    '{"text": "no record"}',
    " spaces at the ends ",
)
LIMITS = (1, 2, 3, 1000)


class SourceContract:
    """`put` writes records with the text fields `n` and `text` and says the `input.path`; `shown` is how one reads back."""

    query: ClassVar[str | None] = None
    may_be_empty: ClassVar[bool] = True
    takes_texts: ClassVar[Sequence[str]] = ODD_TEXTS

    def put(self, folder: Path, records: Sequence[dict[str, str]]) -> str:
        raise NotImplementedError

    def shown(self, record: dict[str, str]) -> dict[str, Any]:
        return dict(record)

    # -- what the tests stand on

    def open(self, path: str, folder: Path, max_record: int = MAX_RECORD) -> OpenedSource:
        return open_source(path, folder, max_record=max_record, query=self.query)

    def records(self, count: int = 10) -> list[dict[str, str]]:
        texts = self.takes_texts
        return [{"n": f"{n:04d}", "text": texts[n % len(texts)]} for n in range(count)]

    def chunks(self, source: OpenedSource, limit: int) -> Iterator[Chunk]:
        while True:
            chunk = source.read(limit)
            yield chunk
            if chunk.done:
                return

    def read(self, source: OpenedSource, limit: int = 1000) -> list[Record]:
        """All that is left to read; the source is closed."""
        try:
            return [record for chunk in self.chunks(source, limit) for record in chunk.records]
        finally:
            source.close()

    # -- the contract

    @pytest.mark.parametrize("limit", LIMITS)
    def test_every_record_comes_once_in_order_whatever_the_limit(self, tmp_path: Path, limit: int) -> None:
        records = self.records()
        found = self.read(self.open(self.put(tmp_path, records), tmp_path), limit)
        assert [record.fields for record in found] == [self.shown(record) for record in records]

    def put_files(self, folder: Path) -> list[Path]:
        return [path for path in folder.rglob("*") if path.is_file()]

    def test_no_more_records_come_than_asked_for(self, tmp_path: Path) -> None:
        source = self.open(self.put(tmp_path, self.records()), tmp_path)
        assert all(len(chunk.records) <= 2 for chunk in self.chunks(source, 2))
        source.close()

    def test_an_input_without_a_record_is_read_to_its_end(self, tmp_path: Path) -> None:
        if not self.may_be_empty:
            pytest.skip("this form has no empty input")
        assert self.read(self.open(self.put(tmp_path, []), tmp_path)) == []

    def test_what_is_kept_of_a_record_gives_its_fields_again(self, tmp_path: Path) -> None:
        for record in self.read(self.open(self.put(tmp_path, self.records()), tmp_path)):
            assert parse(record.raw) == record.fields

    def test_names_of_fields_are_known_in_the_order_in_which_they_came(self, tmp_path: Path) -> None:
        records = self.records()
        source = self.open(self.put(tmp_path, records), tmp_path)
        self.read(source)
        assert source.names == list(self.shown(records[0]))

    @pytest.mark.parametrize("limit", LIMITS)
    @pytest.mark.parametrize("knows", [True, False])
    def test_reading_goes_on_behind_any_chunk(self, tmp_path: Path, limit: int, knows: bool) -> None:
        path = self.put(tmp_path, self.records())
        source = self.open(path, tmp_path)
        seen = [(chunk, json.loads(json.dumps(source.fingerprint()))) for chunk in self.chunks(source, limit)]
        source.close()
        whole = [record for chunk, _ in seen for record in chunk.records]
        given = 0
        for chunk, fingerprint in seen:
            given += len(chunk.records)
            if chunk.done:
                break
            again = self.open(path, tmp_path)
            if knows:
                again.restore(fingerprint, source.names)
            again.seek(json.loads(json.dumps(chunk.position)))
            assert self.read(again, limit) == whole[given:]
            assert again.fingerprint() == source.fingerprint()

    def test_a_record_that_is_too_large_is_rejected_and_the_others_are_not(self, tmp_path: Path) -> None:
        records = self.records(9)
        records[4]["text"] = "x" * 9000
        found = self.read(self.open(self.put(tmp_path, records), tmp_path, max_record=500))
        assert [record.fields is None for record in found] == [number == 4 for number in range(9)]
        assert (found[4].reason or "").startswith("too large: ")
        assert len(found[4].raw) <= 4000

    def test_an_input_matches_itself_also_when_only_its_times_changed(self, tmp_path: Path) -> None:
        path = self.put(tmp_path, self.records())
        source = self.open(path, tmp_path)
        self.read(source)
        assert matches(source.fingerprint(), source.files)
        for file in self.put_files(tmp_path):
            os.utime(file, ns=(1, 10**18))
        assert matches(source.fingerprint(), source.files)

    @pytest.mark.parametrize("change", ["another text", "one more", "one less"])
    def test_an_input_with_other_records_does_not_match(self, tmp_path: Path, change: str) -> None:
        records = self.records()
        source = self.open(self.put(tmp_path, records), tmp_path)
        self.read(source)
        for file in self.put_files(tmp_path):
            file.unlink()
        if change == "another text":
            records[3] = {**records[3], "text": records[3]["text"].swapcase()}
        elif change == "one more":
            records.append({"n": "new", "text": "new"})
        else:
            records.pop()
        path = self.put(tmp_path, records)
        for file in self.put_files(tmp_path):
            os.utime(file, ns=(1, 10**18))
        now = self.open(path, tmp_path)
        now.close()
        assert not matches(source.fingerprint(), now.files)

    def test_reading_leaves_the_input_as_it_is(self, tmp_path: Path) -> None:
        path = self.put(tmp_path, self.records())
        before = {file: file.read_bytes() for file in self.put_files(tmp_path)}
        self.read(self.open(path, tmp_path))
        assert {file: file.read_bytes() for file in self.put_files(tmp_path)} == before

    def test_a_source_may_be_closed_amid_reading_and_twice(self, tmp_path: Path) -> None:
        source = self.open(self.put(tmp_path, self.records()), tmp_path)
        source.read(2)
        source.close()
        source.close()
        assert len(source.fingerprint()) == len(source.files)

    def test_an_input_that_is_not_there_is_refused_with_one_line(self, tmp_path: Path) -> None:
        path = self.put(tmp_path, self.records())
        for file in self.put_files(tmp_path):
            file.unlink()
        with pytest.raises(HeadraceError) as refused:
            self.open(path, tmp_path)
        assert refused.value.exit_code == 2
        assert "\n" not in str(refused.value)
        assert self.put_files(tmp_path) == []
