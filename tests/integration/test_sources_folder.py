from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import InputError
from headrace.sources import OpenedSource, matches, open_source
from headrace.values import Record

MAX = 10_000_000


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def opened(folder: Path, max_record: int = MAX) -> OpenedSource:
    return open_source(folder.name, folder.parent, max_record=max_record)


def read(folder: Path, max_record: int = MAX) -> list[Record]:
    source = opened(folder, max_record)
    records: list[Record] = []
    while True:
        chunk = source.read(3)
        records += chunk.records
        if chunk.done:
            source.close()
            return records


def seen(folder: Path, max_record: int = MAX) -> dict[str, Any]:
    """What becomes of each file: its text, or the reason why there is none."""
    import json

    return {
        json.loads(record.raw)["path"]: record.fields["text"] if record.fields is not None else [record.reason]
        for record in read(folder, max_record)
    }


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        opened(folder)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    return tmp_path / "texts"


def test_files_come_in_byte_order_of_their_path_from_the_folder(texts: Path) -> None:
    put(texts, {"b.txt": b"1", "a/z.txt": b"2", "a-c": b"3", "a.txt": b"4", "a/b/c.md": b"5", "Z": b"6", "é": b"7"})
    assert list(seen(texts)) == ["Z", "a-c", "a.txt", "a/b/c.md", "a/z.txt", "b.txt", "é"]
    assert [record.number for record in read(texts)] == list(range(1, 8))


def test_texts_are_as_they_stand_in_their_files(texts: Path) -> None:
    put(texts, {"a": b"line\r\nand\rline\n\n", "b": b"", "c": "a\u2028b\x85\x0c".encode()})
    assert seen(texts) == {"a": "line\r\nand\rline\n\n", "b": "", "c": "a\u2028b\x85\x0c"}


def test_inp_01_byte_order_marks_are_understood(texts: Path) -> None:
    put(texts, {coding: "é🙂".encode(coding) for coding in ("utf-8-sig", "utf-16", "utf-32")})
    assert set(seen(texts).values()) == {"é🙂"}


def test_what_is_no_text_is_rejected_with_its_path_kept(texts: Path) -> None:
    put(
        texts,
        {
            "latin": "né".encode("latin-1"),
            "binary": b"\x7fELF\x00\x01",
            "broken-16": b"\xff\xfe\x00\xd8a\x00",
            "nul-16": "a\0".encode("utf-16"),
            "large": b"x" * 501,
            "large-as-json": b"\x01" * 400,
            "fine": b"fine",
        },
    )
    assert seen(texts, 500) == {
        "binary": ["not text: a NUL at byte 5"],
        "broken-16": ["not UTF-16-LE: byte 0x00 at byte 3"],
        "fine": "fine",
        "large": ["too large: 501 bytes; input.max_record is 500"],
        "large-as-json": ["too large: 2,434 bytes; input.max_record is 500"],
        "latin": ["not UTF-8: byte 0xe9 at byte 2"],
        "nul-16": ["not text: it holds a NUL"],
    }


def test_packed_texts_are_unpacked(texts: Path) -> None:
    put(
        texts,
        {
            "a.txt.gz": gzip.compress(b"packed"),
            "b.gz": b"not packed",
            "c.txt.gz": gzip.compress(b"x" * 10_000_000),
            "d.txt.zst": b"",
            "e.txt.gz": gzip.compress(os.urandom(3000).hex().encode())[:-900],
        },
    )
    found = seen(texts, 100_000)
    assert found["a.txt.gz"] == "packed"
    assert found["b.gz"] == ["not gzip, or its first bytes are corrupt"]
    assert found["c.txt.gz"] == ["too large: over 100,000 bytes, which is input.max_record"]
    assert found["d.txt.zst"] == ""
    assert found["e.txt.gz"][0].startswith("its gzip data end too early after ")


def test_hidden_files_backups_and_what_is_no_file_are_passed_over(texts: Path) -> None:
    put(
        texts,
        dict.fromkeys([".hidden", ".git/config", "a~", "#a#", "a.bak", "a.tmp", "a.swp", "a.part", "a", "#b", "sub/.c"], b"x"),
    )
    os.mkfifo(texts / "pipe")
    (texts / "nothing").mkdir()
    assert list(seen(texts)) == ["#b", "a"]


def test_links_to_files_are_read_and_links_to_folders_are_not_followed(texts: Path) -> None:
    put(texts, {"a": b"text", "sub/b": b"more"})
    (texts / "link").symlink_to("a")
    (texts / "loop").symlink_to(".")
    (texts / "sub" / "up").symlink_to("..")
    (texts / "itself").symlink_to("itself")
    (texts / "nowhere").symlink_to("gone")
    found = seen(texts)
    assert found["link"] == "text"
    assert found["nowhere"] == ["cannot be read: No such file or directory"]
    assert found["itself"][0].startswith("cannot be read: ")
    assert sorted(found) == ["a", "itself", "link", "nowhere", "sub/b"]


def test_the_folder_itself_may_be_a_link(texts: Path) -> None:
    put(texts, {"a": b"text"})
    (texts.parent / "link").symlink_to("texts")
    assert seen(texts.parent / "link") == {"a": "text"}


def test_a_file_that_is_gone_or_something_else_by_now_is_rejected(texts: Path) -> None:
    put(texts, {"a": b"a", "b": b"b", "c": b"c"})
    source = opened(texts)
    (texts / "a").unlink()
    (texts / "b").unlink()
    os.mkfifo(texts / "b")
    reasons = [record.reason for record in source.read(10).records]
    source.close()
    assert reasons == ["cannot be read: No such file or directory", "not a regular file", None]
    assert source.changed_files() == [texts]


def test_a_file_that_may_not_be_read_is_rejected(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(texts, {"a": b"a", "b": b"b"})
    really = os.open

    def denied(path: Any, *more: Any, **named: Any) -> int:
        if os.fsencode(path).endswith(b"/a"):
            raise PermissionError(13, "Permission denied")
        return really(path, *more, **named)

    monkeypatch.setattr(os, "open", denied)
    assert seen(texts) == {"a": ["cannot be read: Permission denied"], "b": "b"}


def test_a_folder_below_that_may_not_be_read_is_refused(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(texts, {"a": b"a", "sub/b": b"b"})
    really = os.scandir

    def denied(path: Any) -> Any:
        if os.fsencode(path).endswith(b"/sub/"):
            raise PermissionError(13, "Permission denied")
        return really(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert refusal(texts) == f"input {texts}/sub: cannot be read: Permission denied"


def test_a_name_that_is_not_utf8_is_a_path_all_the_same(texts: Path) -> None:
    try:
        (texts / os.fsdecode(b"caf\xe9")).write_bytes(b"text")
    except OSError:
        pytest.skip("this file system takes no such name")
    (record,) = read(texts)
    assert record.fields == {"path": "caf\udce9", "text": "text"}
    assert record.raw == b'{"path":"caf\\udce9","text":"text"}'


def test_a_folder_without_a_file_is_refused(texts: Path) -> None:
    put(texts, {".hidden": b"x"})
    (texts / "link").symlink_to("..")
    assert refusal(texts).endswith("no file in this folder; hidden files, backups and links to folders are passed over")


@pytest.mark.parametrize(("name", "pattern"), [("a.jsonl", "*"), ("sub/a.csv.gz", "**/*")])
def test_a_folder_with_nothing_but_records_says_how_they_are_read(texts: Path, name: str, pattern: str) -> None:
    put(texts, {name: b"{}"})
    assert refusal(texts).endswith(f'to read their records, write the pattern "{texts}/{pattern}"')
    put(texts, {"notes.txt": b"text"})
    assert len(seen(texts)) == 2


@pytest.mark.parametrize("change", ["came", "went", "renamed", "longer", "other bytes"])
def test_a_file_that_came_went_or_changed_is_noticed(texts: Path, change: str) -> None:
    put(texts, {f"{n:03d}": b"text" for n in range(20)})
    source = opened(texts)
    while not source.read(100).done:
        pass
    stored = source.fingerprint()
    assert matches(stored, [texts])
    if change == "came":
        put(texts, {"new": b"text"})
    elif change == "went":
        (texts / "003").unlink()
    elif change == "renamed":
        (texts / "003").rename(texts / "0033")
    else:
        put(texts, {"003": b"texts" if change == "longer" else b"TEXT"})
        os.utime(texts / "003", ns=(1, 10**18))
    assert not matches(stored, [texts])
    assert source.changed_files() == [texts]
    source.close()


def test_of_a_folder_read_in_part_that_part_is_compared(texts: Path) -> None:
    put(texts, {f"{n:03d}": b"text" for n in range(20)})
    source = opened(texts)
    source.read(10)
    source.close()
    stored = source.fingerprint()
    put(texts, {"015": b"TEXT"})
    os.utime(texts / "015", ns=(1, 10**18))
    assert matches(stored, [texts])
    put(texts, {"005": b"TEXT"})
    os.utime(texts / "005", ns=(1, 10**18))
    assert not matches(stored, [texts])


@pytest.mark.slow
def test_what_is_kept_of_many_files_stays_small(texts: Path) -> None:
    import json

    put(texts, {f"{n:05d}.txt": b"text" for n in range(9_000)})
    source = opened(texts)
    positions = []
    while True:
        chunk = source.read(1000)
        positions.append((chunk.position, json.loads(json.dumps(source.fingerprint()))))
        if chunk.done:
            break
    source.close()
    assert len(json.dumps(source.fingerprint())) < 1000
    for position, stored in positions[:-1:3]:
        again = opened(texts)
        again.restore(stored)
        again.seek(position)
        while not again.read(1000).done:
            pass
        again.close()
        assert again.fingerprint() == source.fingerprint()
