"""The run lock: one process at a time, released by the kernel, never in the way of a run that starts."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import DiskError, LedgerError, LockedError
from headrace.ledger.lock import RunLock, is_held

HOLD = """
import sys
from pathlib import Path
from headrace.ledger.lock import RunLock
held = RunLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holding(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.slow
def test_another_process_is_kept_out_until_the_kernel_releases_what_a_killed_one_held(tmp_path: Path) -> None:
    path = tmp_path / "run-7" / "run.lock"
    path.parent.mkdir()
    with holding(path) as process:
        assert is_held(path)
        with pytest.raises(LockedError) as caught:
            RunLock(path)
        assert "run-7" in str(caught.value)
        assert f"pid {process.pid} on " in str(caught.value)
        assert "\n" not in str(caught.value)
        process.kill()
    assert not is_held(path)
    RunLock(path).release()


def test_a_lock_is_held_until_released_and_releasing_twice_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with RunLock(path) as held:
        assert is_held(path)
        held.release()
        assert not is_held(path)
    with RunLock(path):
        assert path.read_text() == f"pid {os.getpid()} on {os.uname().nodename}"


def test_the_lock_does_not_pass_to_child_programs(tmp_path: Path) -> None:
    held = RunLock(tmp_path / "run.lock")
    assert not os.get_inheritable(held._fd)
    held.release()


def test_asking_creates_nothing(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "run.lock")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_asks_at_that_instant_does_not_keep_a_run_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    asking = os.open(path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as `is_held` does, for an instant
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(asking)

    monkeypatch.setattr("headrace.ledger.lock.time.sleep", sleep)
    with RunLock(path):
        assert is_held(path)
    assert len(waits) == 3


def test_readers_that_ask_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    asking = os.open(path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert not is_held(path)
    os.close(asking)


def test_a_lock_that_stays_taken_is_waited_for_a_moment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("headrace.ledger.lock.time.sleep", waits.append)
    with RunLock(tmp_path / "run.lock"), pytest.raises(LockedError):
        RunLock(tmp_path / "run.lock")
    assert 0 < sum(waits) <= 0.5


def test_a_folder_that_cannot_be_written_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot be written") as caught:
        RunLock(tmp_path / "missing" / "run.lock")
    assert "\n" not in str(caught.value)


def test_a_file_system_without_locks_is_told_from_a_lock_that_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "run.lock"
    monkeypatch.setattr("headrace.ledger.lock.fcntl.flock", flock)
    with pytest.raises(LedgerError, match="--run-dir") as caught:
        RunLock(path)
    assert not isinstance(caught.value, LockedError)
    assert not is_held(path)


def test_a_full_disk_keeps_no_run_from_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(fd: int, text: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headrace.ledger.lock.os.pwrite", pwrite)
    with RunLock(tmp_path / "run.lock"):
        assert is_held(tmp_path / "run.lock")
        with pytest.raises(LockedError, match="owner unknown"):
            RunLock(tmp_path / "run.lock")
