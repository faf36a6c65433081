"""A file that appears whole or not at all, also when the disk is full and after a crash."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.errors import OutputError
from headrace.sinks.csv import CsvSink
from headrace.sinks.durable import ReplacedFile, mapped
from headrace.sinks.parquet import ParquetSink
from headrace.sinks.row import OutputRow


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return child.pid


class FullDisk:
    """A file on a disk that is full from the first flush on."""

    closed = False

    def write(self, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    flush = close = write

    def tell(self) -> int:
        return 0


def test_a_full_disk_is_an_output_error_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"old")
    file = ReplacedFile(path)
    file.write(b"new")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"out\.jsonl: No space left on device; .*headrace export"):
        file.commit()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.jsonl"]


def test_a_write_that_fails_is_an_output_error_with_its_cause(tmp_path: Path) -> None:
    file = ReplacedFile(tmp_path / "out.jsonl")
    real, file._handle = file._handle, FullDisk()  # type: ignore[assignment]  # only what is called
    with pytest.raises(OutputError, match="No space left") as caught:
        file.write(b"x")
    assert isinstance(caught.value.__cause__, OSError)
    file._handle = real
    file.discard()
    assert names(tmp_path) == []


def test_parquet_on_a_full_disk_ends_with_one_error_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ParquetSink(tmp_path / "out.parquet", {}, row_group_rows=1)

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sink._writer, "write_batch", full)
    with pytest.raises(OutputError, match="No space left"):
        sink.write([OutputRow(b"{}", {})])
    monkeypatch.setattr(sink._writer, "close", full)
    sink.abort()
    assert names(tmp_path) == []


@pytest.mark.parametrize("sink", [lambda path: CsvSink(path, ["a"]), lambda path: ParquetSink(path, {})])
def test_a_table_whose_first_bytes_are_refused_leaves_no_file(
    sink: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_file(file: ReplacedFile, data: bytes) -> None:
        with mapped(file.path):
            full()

    monkeypatch.setattr(ReplacedFile, "write", full_file)
    monkeypatch.setattr(pq, "ParquetWriter", full)
    with pytest.raises(OutputError, match="No space left"):
        sink(tmp_path / "out")
    assert names(tmp_path) == []


def test_another_users_process_counts_as_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ours(process: int, signal: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "kill", not_ours)
    (tmp_path / "out.jsonl.tmp-5").touch()
    ReplacedFile(tmp_path / "out.jsonl").discard()
    assert names(tmp_path) == ["out.jsonl.tmp-5"]


def test_a_refused_folder_is_an_output_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(OutputError, match="Permission denied"):
        ReplacedFile(tmp_path / "out.jsonl")


def test_what_a_dead_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = ["out.jsonl.tmp-x", "out.jsonl.tmp-", f"other.jsonl.tmp-{ended_process()}", f"out.jsonl.tmp-{os.getppid()}"]
    for name in [*kept, f"out.jsonl.tmp-{ended_process()}", "out.jsonl.tmp-99999999999999999999", f"out.jsonl.tmp-{os.getpid()}"]:
        (tmp_path / name).write_bytes(b"left")
    file = ReplacedFile(tmp_path / "out.jsonl")
    file.write(b"new")
    assert names(tmp_path) == sorted([*kept, f"out.jsonl.tmp-{os.getpid()}"])
    file.commit()
    assert (tmp_path / "out.jsonl").read_bytes() == b"new"
    assert names(tmp_path) == sorted([*kept, "out.jsonl"])


def test_a_killed_writer_leaves_the_old_file_and_a_leftover_that_the_next_one_removes(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"old")
    script = (
        "import os, sys; from pathlib import Path; from headrace.sinks.durable import ReplacedFile; "
        "f = ReplacedFile(Path(sys.argv[1])); f.write(b'x' * 3_000_000); os._exit(9)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)]) as child:
        assert child.wait() == 9
    assert path.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    ReplacedFile(path).discard()
    assert names(tmp_path) == ["out.jsonl"]


def test_a_link_is_followed_and_permissions_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "real" / "data.jsonl"
    target.parent.mkdir()
    target.write_bytes(b"old")
    target.chmod(0o640)
    link = tmp_path / "out.jsonl"
    link.symlink_to(target)
    file = ReplacedFile(link)
    file.write(b"new")
    file.commit()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_writing_after_the_end_is_an_output_error(tmp_path: Path) -> None:
    file = ReplacedFile(tmp_path / "out.jsonl")
    file.commit()
    with pytest.raises(OutputError, match="it is closed"):
        file.write(b"x")
