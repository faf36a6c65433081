from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, InputBrokenError, InputError
from headrace.sources import OpenedSource, matches, open_source
from headrace.values import Record

MAX = 10_000_000


def read_all(source: OpenedSource, limit: int = 1000) -> list[Record]:
    records: list[Record] = []
    while True:
        chunk = source.read(limit)
        records += chunk.records
        if chunk.done:
            return records


def refusal(path: str, base: Path) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        open_source(path, base, max_record=MAX)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def three(tmp_path: Path) -> Path:
    (tmp_path / "b.jsonl").write_bytes(b'{"n": 2}\n{"n": 3}\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n')
    (tmp_path / "c.csv").write_bytes(b"n\n4\n")
    return tmp_path


def test_the_files_of_a_glob_are_one_input_in_order_of_their_names(three: Path) -> None:
    source = open_source("*.*", three, max_record=MAX)
    records = read_all(source)
    source.close()
    assert [file.name for file in source.files] == ["a.jsonl", "b.jsonl", "c.csv"]
    assert source.in_place == (True, True, False)
    assert [record.fields for record in records] == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": "4"}]
    assert [(record.file, record.number) for record in records] == [(1, 1), (2, 1), (2, 2), (0, 1)]


def test_a_path_is_relative_to_the_base_unless_absolute(three: Path) -> None:
    for path in ("a.jsonl", str(three / "a.jsonl"), f"../{three.name}/a.jsonl", str(three / "a.*")):
        source = open_source(path, three, max_record=MAX)
        assert len(read_all(source)) == 1
        source.close()


def test_folders_are_no_files_of_a_glob(three: Path) -> None:
    (three / "folder").mkdir()
    source = open_source("**/*", three, max_record=MAX)
    source.close()
    assert len(source.files) == 3


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].jsonl").write_bytes(b"{}\n")
    source = open_source("a[1].jsonl", tmp_path, max_record=MAX)
    source.close()
    assert [file.name for file in source.files] == ["a[1].jsonl"]


def test_a_glob_without_a_file_says_the_pattern_and_the_folder(tmp_path: Path) -> None:
    error = refusal("*.jsonl", tmp_path)
    assert isinstance(error, InputError)
    assert str(error) == f"input.path = *.jsonl: no file in {tmp_path} matches this pattern"


def test_a_pattern_that_only_folders_match_says_so(tmp_path: Path) -> None:
    (tmp_path / "texts-1").mkdir()
    assert str(refusal("texts-*", tmp_path)).endswith(
        "1 folders do, but a pattern is for files: name one folder to read its texts"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("x.txt", "texts are read by naming their folder"),
        ("x.md.gz", "texts are read by naming their folder"),
        ("x.db", 'a SQLite database is named by "sqlite:///x.db", with input.query'),
    ],
)
def test_a_suffix_of_texts_or_databases_says_how_they_are_named(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert str(refusal(name, tmp_path)).endswith(f"the text forms also with .gz or .zst; {hint}")


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.parquet.gz", "x.gz", "x.jsonl.bz2", ".jsonl"])
def test_an_unknown_suffix_lists_those_allowed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{}")
    error = refusal(name, tmp_path)
    assert str(error).endswith(
        "unknown suffix; allowed are .jsonl .ndjson .json .csv .tsv .parquet, the text forms also with .gz or .zst"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert str(refusal("no\x1bm.jsonl", tmp_path)) == f"input {ascii(str(tmp_path))[:-1]}/no\\x1bm.jsonl': no such file"
    assert "names no file" in str(refusal("", tmp_path))
    assert "names no file" in str(refusal("a\0b", tmp_path))
    assert "cannot be read" in str(refusal("x" * 5000 + ".jsonl", tmp_path))


def test_what_could_block_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert str(refusal("pipe.jsonl", tmp_path)).endswith("pipe.jsonl: not a regular file")


def test_a_file_that_may_not_be_read_says_so(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", "b.jsonl")

    monkeypatch.setattr(Path, "open", denied)
    assert str(refusal("b.jsonl", three)) == f"input {three}/b.jsonl: cannot be read: Permission denied"


def test_every_file_is_checked_before_any_is_read(three: Path) -> None:
    (three / "d.csv").write_bytes(b"a,a\n")
    assert "d.csv: its header names 'a' more than once" in str(refusal("*", three))


def test_a_file_that_went_away_meanwhile_breaks_the_input_after_the_records_before_it(three: Path) -> None:
    source = open_source("*.jsonl", three, max_record=MAX)
    (three / "b.jsonl").unlink()
    assert [record.fields for record in source.read(10).records] == [{"n": 1}]
    with pytest.raises(InputBrokenError, match=r"b\.jsonl: cannot be read") as caught:
        source.read(10)
    assert caught.value.exit_code == 7
    source.close()


@pytest.mark.slow
def test_more_files_than_can_be_open_at_once_are_one_input(tmp_path: Path) -> None:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(most, 1024) + 10
    for index in range(count):
        (tmp_path / f"{index:05d}.jsonl").write_bytes(b"{}\n")
    source = open_source("*.jsonl", tmp_path, max_record=MAX)
    assert len(read_all(source)) == count
    source.close()


# fingerprints


def stored_after(path: Path, chunks: int | None = None, *, limit: int = 10) -> tuple[list[dict[str, Any]], str]:
    """The fingerprint and position after so many chunks, or after all."""
    source = open_source(path.name, path.parent, max_record=MAX)
    position = ""
    while chunks is None or chunks > 0:
        chunk = source.read(limit)
        position = chunk.position
        chunks = None if chunks is None else chunks - 1
        if chunk.done:
            break
    source.close()
    return source.fingerprint(), position


def touched(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def test_an_unchanged_or_merely_touched_or_moved_input_matches(three: Path) -> None:
    stored, _ = stored_after(three / "b.jsonl")
    assert matches(stored, [three / "b.jsonl"])
    touched(three / "b.jsonl")
    assert matches(stored, [three / "b.jsonl"])
    (three / "b.jsonl").rename(three / "other.jsonl")
    assert matches(stored, [three / "other.jsonl"])
    assert not matches(stored, [three / "b.jsonl"])
    assert not matches(stored, [])


def test_a_changed_or_longer_input_does_not_match(three: Path) -> None:
    path = three / "b.jsonl"
    stored, _ = stored_after(path)
    path.write_bytes(b'{"n": 2}\n{"n": 4}\n')
    touched(path)
    assert not matches(stored, [path])
    path.write_bytes(b'{"n": 2}\n{"n": 3}\n{}\n')
    assert not matches(stored, [path])


def test_of_an_input_read_in_part_the_part_that_was_hashed_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    content = b'{"n": 1}\n' * 200_000
    path.write_bytes(content)
    stored, _ = stored_after(path, 1)
    assert 0 < stored[0]["hashed"] < len(content)
    path.write_bytes(content[:-10] + b"}" * 10)
    touched(path)
    assert matches(stored, [path])
    path.write_bytes(b"[" + content[1:])
    touched(path)
    assert not matches(stored, [path])


@pytest.mark.slow
def test_a_fingerprint_is_the_same_read_at_once_or_in_two_goes(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes((b'{"n": "' + b"x" * 100_000 + b'"}\n') * 400)
    whole, _ = stored_after(path)
    part, position = stored_after(path, 35)
    assert len(whole[0]["chunks"]) == 3
    assert len(part[0]["chunks"]) == 3
    for stored in (part, []):
        source = open_source(path.name, tmp_path, max_record=MAX)
        source.restore(stored, ["m"])
        source.seek(position)
        read_all(source)
        source.close()
        assert source.fingerprint() == whole
        assert source.names == ["m", "n"]


@pytest.mark.slow
def test_earlier_chunks_come_from_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes((b'{"n": "' + b"x" * 100_000 + b'"}\n') * 400)
    part, position = stored_after(path, 20)
    part[0]["chunks"][0] = "stored"
    source = open_source(path.name, tmp_path, max_record=MAX)
    source.restore(part)
    source.seek(position)
    read_all(source)
    source.close()
    assert source.fingerprint()[0]["chunks"][0] == "stored"
    touched(path)
    assert not matches(source.fingerprint(), [path])
