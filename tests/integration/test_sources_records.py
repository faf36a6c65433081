from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import DiskError, InputBrokenError
from headrace.sources import RecordPlaces, RecordsFile


def test_appended_records_are_fetched_by_their_places(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"a": 1}\n{"a": 2}\n')
    records = RecordsFile(tmp_path / "records.jsonl")
    first = records.append([b"{}", b"", b"a\nb"])
    second = records.append(iter([b"last"]))
    records.sync()
    assert records.append([]) == []
    assert first == [(0, 2), (3, 0), (4, 3)]
    assert second == [(8, 4)]
    assert records.length == 13
    assert (tmp_path / "records.jsonl").read_bytes() == b"{}\n\na\nb\nlast\n"
    places = RecordPlaces(tmp_path / "records.jsonl", [tmp_path / "in.jsonl"])
    assert places.fetch([(0, 8, 4), (1, 9, 8), (0, 3, 0), (0, 4, 3)]) == [b"last", b'{"a": 2}', b"", b"a\nb"]
    places.close()
    records.close()
    records.close()


def test_a_records_file_goes_on_at_its_end_or_where_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = RecordsFile(path)
    records.append([b"one", b"two"])
    records.close()
    records = RecordsFile(path)
    assert records.length == 8
    records.truncate(4)
    assert records.append([b"2"]) == [(4, 1)]
    records.close()
    assert path.read_bytes() == b"one\n2\n"


def test_a_records_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    records = RecordsFile(tmp_path / "records.jsonl")
    records.append([b"one"])
    with pytest.raises(DiskError, match="holds 4 bytes of at least 10; its end was lost"):
        records.truncate(10)
    records.close()


def test_a_write_that_fails_leaves_the_end_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RecordsFile(tmp_path / "records.jsonl")
    records.append([b"one"])
    write = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:2], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(DiskError, match=r"records\.jsonl: cannot be written: No space left on device"):
            records.append([b"two"])
    assert records.append([b"three"]) == [(4, 5)]
    records.close()
    assert (tmp_path / "records.jsonl").read_bytes() == b"one\nthree\n"


def test_a_folder_that_does_not_exist_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot be opened: No such file or directory"):
        RecordsFile(tmp_path / "none" / "records.jsonl")


def test_a_sync_that_fails_is_a_disk_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RecordsFile(tmp_path / "records.jsonl")

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(DiskError, match="Input/output error"):
            records.sync()
    records.close()


def test_a_record_that_is_no_longer_there_breaks_the_input(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    places = RecordPlaces(tmp_path / "records.jsonl", [path])
    assert places.fetch([(1, 0, 8)]) == [b'{"a": 1}']
    with pytest.raises(InputBrokenError, match="a record at byte 4 is no longer there"):
        places.fetch([(1, 4, 80)])
    with pytest.raises(InputBrokenError, match=r"records.jsonl: cannot be read again: No such file"):
        places.fetch([(0, 0, 1)])
    places.close()


def test_more_files_than_are_kept_open_can_be_fetched_from(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.jsonl" for index in range(150)]
    for index, path in enumerate(paths):
        path.write_bytes(b"%03d" % index)
    places = RecordPlaces(tmp_path / "records.jsonl", paths)
    wanted = [(index + 1, 0, 3) for index in range(150)] * 2
    assert places.fetch(wanted) == [b"%03d" % index for index in range(150)] * 2
    assert len(list(Path("/dev/fd").iterdir())) < 150
    places.close()
